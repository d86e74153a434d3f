"""`seller-platform prune`: what is older than its time is removed."""

from datetime import UTC, datetime, timedelta

import click

from seller_platform.cli.output import Output, json_option
from seller_platform.cli.workplace import open_workplace
from seller_platform.warehouse.loads.retention import prune as remove_old

_days = click.IntRange(1)


@click.command()
@click.option(
    "--snapshot-days",
    default=90,
    show_default=True,
    type=_days,
    help="Keep every daily snapshot so long; then one a month.",
)
@click.option(
    "--receipt-days", default=400, show_default=True, type=_days, help="Keep every receipt so long; then those in use."
)
@click.option("--dry-run", is_flag=True, help="Say what would be removed.")
@json_option
def prune(*, snapshot_days: int, receipt_days: int, dry_run: bool, as_json: bool) -> None:
    """Remove old snapshots but one a month, and receipts that nothing refers to any more.

    Rows of dated lists are never removed.
    """
    output, today = Output(as_json=as_json), datetime.now(UTC).date()
    with open_workplace() as place:
        pruned = remove_old(
            place.database,
            snapshots_before=today - timedelta(days=snapshot_days),
            receipts_before=today - timedelta(days=receipt_days),
            dry=dry_run,
        )
    if as_json:
        output.document({"dry_run": dry_run, "rows": pruned.rows, "receipts": pruned.receipts})
        return
    rows = [*pruned.rows.items(), ("receipts", pruned.receipts)]
    output.table("Would be removed" if dry_run else "Removed", ("what", "rows"), rows)
