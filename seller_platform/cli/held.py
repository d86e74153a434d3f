"""`seller-platform held` and `accept`: readings that were not published, and publishing one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from seller_platform.cli.installation import Installation, open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.contract import Slicing, Source, Window
from seller_platform.errors import NotHeldError
from seller_platform.ingest.connections.upstream import open_api, upstream_of
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.cost_periods import load_costs
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.warehouse.connections.accounts import KnownConnection, account_of, connections
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import forget_refusal
from seller_platform.warehouse.loads.slices import Receipt, doubt_of, slice_of

_COLUMNS = ("load", "dataset", "account", "window", "rows_stored", "rows_read", "since", "reason")


@click.command()
@json_option
def held(*, output: Output) -> None:
    """List the readings that were not published, because they cannot be true beside what is stored.

    Publish one with `seller-platform accept LOAD`. Each refresh reads these slices again.
    """
    with open_installation() as installation:
        readings = [_reading(receipt) for receipt in open_holds(installation.database)]
    output.document({"held": readings})
    if not readings:
        output.say("No reading is held.")
        return
    output.table("Held", _COLUMNS, [tuple(str(each[name]) for name in _COLUMNS) for each in readings])
    output.say("Publish one with `seller-platform accept LOAD`: it is read again, and published if it says the same.")


@click.command()
@click.argument("load", type=click.IntRange(1))
@json_option
def accept(*, load: int, output: Output) -> None:
    """Publish the held reading of LOAD: it is read again, and published if it still says the same.

    What it replaces is kept in schema history, and `seller-platform revert` brings it back.
    """
    with open_installation() as installation:
        receipts = {receipt.id: receipt for receipt in open_holds(installation.database)}
        if load not in receipts:
            raise NotHeldError(load, sorted(receipts))
        receipt = _read_again(installation, receipts[load])
        slice_ = slice_of(receipt)
        month = Window.month_of(receipt.window.start) if slice_.dataset.is_dated else None
        forget_refusal(installation.database, slice_.dataset, receipt.account, month)
        report_receipt(installation, receipt)
    output.result(
        f"{slice_of(receipt)}: {receipt.rows} rows are published by load {receipt.id}.",
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


def _reading(receipt: Receipt) -> dict[str, Any]:
    doubt = doubt_of(receipt)
    return {
        "load": receipt.id,
        "dataset": receipt.dataset,
        "account": receipt.account,
        "window": str(receipt.window),
        "reason": doubt.reason,
        "rows_stored": doubt.rows_stored,
        "rows_read": doubt.rows_read,
        "since": receipt.finished_at.isoformat(timespec="seconds"),
    }


def _read_again(installation: Installation, receipt: Receipt) -> Receipt:
    """Read the slice of a held reading again, and publish it if it says the same."""
    database, slice_ = installation.database, slice_of(receipt)
    dataset, now = slice_.dataset, datetime.now(UTC)
    by_name: Mapping[str, KnownConnection] = {each.name: each for each in connections(database)}
    if dataset.slicing is Slicing.CONNECTION:
        connection = by_name[receipt.account]
    else:
        account = account_of(database, receipt.account)
        connection = by_name[account.connection]
    upstream = upstream_of(connection.name, installation.settings, database, installation.box)
    with open_api(upstream, connection.name, database, installation.box, installation.settings.home) as api:
        if dataset.slicing is Slicing.CONNECTION:
            return discover(api, database, connection, run_id=None, accepted=receipt)[1]
        if dataset.source is Source.PRODUCT_LOOKUP:
            return load_costs(api, database, account, now=now, run_id=None, accepted=receipt)
        window = slice_.window if dataset.is_dated else Window.day(now.astimezone(account.zone).date())
        return load_slice(api, database, account, dataset, window, run_id=None, accepted=receipt)


def report_receipt(installation: Installation, receipt: Receipt) -> None:
    """Report the load to Dagster, so that its checks pass and its downstream assets are updated."""
    from seller_platform.orchestration.assets.datasets import report_load  # Dagster alone takes a second to import
    from seller_platform.orchestration.instance.home import open_instance

    with open_instance(installation.settings.home) as instance:
        report_load(instance, installation.database, receipt)
