"""`seller-platform held` and `accept`: readings that were not published, and publishing one."""

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import click

from seller_platform.cli.installation import Installation, open_served_installation, open_stored_installation
from seller_platform.cli.output import Output, json_option, with_title
from seller_platform.counts import count_of
from seller_platform.warehouse.connections.accounts import account_titles
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import Receipt, doubt_of, held_since, slice_of
from seller_platform.warehouse.postgres.database import Database

_LARGEST_LOAD = 2**63 - 1


@click.command()
@json_option
def held(*, output: Output) -> None:
    """List the readings that were not published, because they contradict the stored rows.

    Publish one with `seller-platform accept LOAD`. Each refresh reads these slices again.
    """
    with open_stored_installation() as installation, output.progress("Looking for held readings"):
        readings = [_reading(installation.database, receipt) for receipt in open_holds(installation.database)]
        titles = account_titles(installation.database)
    output.document({"held": readings})
    if not readings:
        output.say("No reading is held.")
        return
    for each in readings:
        output.line(
            f"load {each['load']}: {each['dataset']} of {with_title(each['account'], titles)}, {each['window']}"
        )
        output.line(f"  {each['reason']}")
        output.line(f"  rows stored {each['rows_stored']}, read {each['rows_read']}; held since {each['since']}")
    output.say("Publish one with `seller-platform accept LOAD`: it is read again, and published if it says the same.")


@click.command()
@click.argument("load", type=click.IntRange(1, _LARGEST_LOAD))
@json_option
def accept(*, load: int, output: Output) -> None:
    """Publish the held reading of LOAD: it is read again, and published if it still says the same.

    What it replaces is kept in schema history; except for lists of accounts, `seller-platform revert` brings it back.
    """
    # Imported here because `held` and `diff`, which only read, need neither.
    from seller_platform.cli.connect import open_stored_api
    from seller_platform.client.http.api import SellerApi
    from seller_platform.ingest.loads.holds import accept_load

    with open_served_installation() as installation, ExitStack() as apis:

        def api(connection: str) -> SellerApi:
            return apis.enter_context(open_stored_api(installation, connection))

        adaptive = installation.settings.lookback == "adaptive"
        receipt = accept_load(api, installation.database, load, now=datetime.now(UTC), adaptive=adaptive)
        report_receipt(installation, receipt)
    output.result(
        f"{slice_of(receipt)}: {count_of(receipt.rows, 'row', 'is')} published by load {receipt.id}.",
        {
            "load": receipt.id,
            "accepted": load,
            "dataset": receipt.dataset,
            "account": receipt.account,
            "window": str(receipt.window),
            "rows": receipt.rows,
            "restatement": dict(receipt.restatement or {}),
        },
    )


def _reading(database: Database, receipt: Receipt) -> dict[str, Any]:
    doubt = doubt_of(receipt)
    with database.begin() as connection:
        since = held_since(connection, receipt)
    return {
        "load": receipt.id,
        "dataset": receipt.dataset,
        "account": receipt.account,
        "window": str(receipt.window),
        "reason": doubt.reason,
        "rows_stored": doubt.rows_stored,
        "rows_read": doubt.rows_read,
        "since": since.isoformat(timespec="seconds"),
    }


def report_receipt(installation: Installation, receipt: Receipt) -> None:
    """Report a load to Dagster, so that downstream assets are updated; its checks, too, unless it is a revert."""
    from seller_platform.orchestration.assets.datasets import report_load  # Dagster alone takes a second to import
    from seller_platform.orchestration.instance.home import open_instance

    with open_instance(installation.settings.home) as instance:
        report_load(instance, installation.database, receipt)
