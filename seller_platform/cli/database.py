"""`seller-platform migrate`, `backup`, `restore` and `prune`: work on the whole database."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.settings import read_settings
from seller_platform.warehouse.loads.retention import prune as remove_old
from seller_platform.warehouse.postgres.backup import back_up
from seller_platform.warehouse.postgres.backup import restore as fill
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

_days = click.IntRange(1, 36_500)


@click.command()
@json_option
def migrate(*, output: Output) -> None:
    """Migrate the database to the schema of this version, and Dagster's tables with it.

    Every program migrates when it starts. Run this first where several programs start at once, or where they have
    fewer rights. Readers continue meanwhile.
    """
    from seller_platform.orchestration.instance.home import open_instance  # Dagster alone takes a second to import

    with open_installation() as installation:
        with open_instance(installation.settings.home) as instance:
            instance.upgrade()
        version = installation.database.version()
        where = installation.database.where
    output.result(f"{where} is at version {version}.", {"database": where, "version": version})


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def backup(*, file: Path, output: Output) -> None:
    """Write the database to FILE: rows, receipts, grants, Dagster's runs and events.

    The backup is one consistent snapshot. Grants are encrypted in it; keep the key (SELLER_PLATFORM_SECRET_KEY, or
    `secret.key` in the home folder) elsewhere.
    """
    back_up(warehouse_url(read_settings()), file)
    size = file.stat().st_size
    text = f"{file}: {size / (1 << 20):,.1f} MiB. Next: keep the secret key elsewhere, and test a restore."
    output.result(text, {"file": str(file), "bytes": size})


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def restore(*, file: Path, output: Output) -> None:
    """Fill the empty database of the settings from a backup, and migrate it.

    Refresh tokens work once: grants that were refreshed after the backup must be authorised again.
    """
    url = warehouse_url(read_settings())
    fill(url, file)
    with Database(url) as database:
        database.migrate()
        version = database.version()
    text = f"Restored, at version {version}. Next: `seller-platform doctor`."
    output.result(text, {"file": str(file), "version": version})


@click.command()
@click.option(
    "--snapshot-days",
    default=90,
    show_default=True,
    type=_days,
    help="Keep every daily snapshot for this many days; then one a month.",
)
@click.option(
    "--receipt-days",
    default=400,
    show_default=True,
    type=_days,
    help="Keep every receipt for this many days; then those in use.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed.")
@json_option
def prune(*, snapshot_days: int, receipt_days: int, dry_run: bool, output: Output) -> None:
    """Delete old snapshots except one a month, and receipts that nothing refers to.

    Rows of dated lists are never deleted.
    """
    today = datetime.now(UTC).date()
    with open_installation() as installation:
        pruned = remove_old(
            installation.database,
            snapshots_before=today - timedelta(days=snapshot_days),
            receipts_before=today - timedelta(days=receipt_days),
            dry=dry_run,
        )
    output.document({"dry_run": dry_run, "rows": pruned.rows, "receipts": pruned.receipts})
    rows = [*pruned.rows.items(), ("receipts", pruned.receipts)]
    output.table("Would be removed" if dry_run else "Removed", ("what", "rows"), rows)
