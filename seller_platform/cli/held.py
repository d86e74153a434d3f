"""`seller-platform held` and `accept`: readings that were not published, and publishing one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from seller_platform.cli.installation import Installation, open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.contract import Slicing, Source, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import NotHeldError
from seller_platform.ingest.connections.upstream import open_api, upstream_of
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.cost_periods import load_costs
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.warehouse.connections.accounts import KnownConnection, account_of, connections
from seller_platform.warehouse.history.reverts import receipt_of
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import forget_refusal
from seller_platform.warehouse.loads.slices import Receipt, Slice, doubt_of, held_readings, slice_of
from seller_platform.warehouse.postgres.database import Database

_LARGEST_LOAD = 2**63 - 1


@click.command()
@json_option
def held(*, output: Output) -> None:
    """List the readings that were not published, because they contradict the stored rows.

    Publish one with `seller-platform accept LOAD`. Each refresh reads these slices again.
    """
    with open_installation() as installation:
        readings = [_reading(installation.database, receipt) for receipt in open_holds(installation.database)]
    output.document({"held": readings})
    if not readings:
        output.say("No reading is held.")
        return
    for each in readings:
        output.line(f"load {each['load']}: {each['dataset']} of {each['account']}, {each['window']}")
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
    with open_installation() as installation:
        accepted, still_held = _held_reading(installation.database, load)
        receipt = _read_again(installation, accepted, slice_of(still_held))
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


def _held_reading(database: Database, load_id: int) -> tuple[Receipt, Receipt]:
    """Return a held reading, and the last one of its slice, which a refresh may have held again since.

    Raises:
        UnknownLoadError: The load has no receipt.
        NotHeldError: It was not held, or a later reading was published.
    """
    wanted, holds = receipt_of(database, load_id), open_holds(database)
    is_dated = dataset_named(wanted.dataset).is_dated
    for each in holds:
        is_of_slice = (each.dataset, each.account) == (wanted.dataset, wanted.account)
        overlaps = each.window.start < wanted.window.end and wanted.window.start < each.window.end
        if wanted.verdict is CountVerdict.HELD and is_of_slice and (overlaps or not is_dated):
            return wanted, each
    raise NotHeldError(load_id, sorted(each.id for each in holds))


def _reading(database: Database, receipt: Receipt) -> dict[str, Any]:
    doubt = doubt_of(receipt)
    with database.begin() as connection:
        earlier = held_readings(connection, slice_of(receipt).dataset, receipt.account, receipt.window)
    return {
        "load": receipt.id,
        "dataset": receipt.dataset,
        "account": receipt.account,
        "window": str(receipt.window),
        "reason": doubt.reason,
        "rows_stored": doubt.rows_stored,
        "rows_read": doubt.rows_read,
        "since": min(moment for moment, _ in earlier).isoformat(timespec="seconds"),
    }


def _read_again(installation: Installation, accepted: Receipt, slice_: Slice) -> Receipt:
    """Read a slice again, and publish it if it says the same as the accepted reading."""
    database, dataset, now = installation.database, slice_.dataset, datetime.now(UTC)
    by_name: Mapping[str, KnownConnection] = {each.name: each for each in connections(database)}
    if dataset.slicing is Slicing.CONNECTION:
        connection = by_name[slice_.account]
    else:
        account = account_of(database, slice_.account)
        connection = by_name[account.connection]
    upstream = upstream_of(connection.name, installation.settings, database, installation.box)
    with open_api(upstream, connection.name, database, installation.box, installation.settings.home) as api:
        if dataset.slicing is Slicing.CONNECTION:
            return discover(api, database, connection, run_id=None, accepted=accepted)[1]
        if dataset.source is Source.PRODUCT_LOOKUP:
            return load_costs(api, database, account, now=now, run_id=None, accepted=accepted)
        window = slice_.window if dataset.is_dated else Window.day(now.astimezone(account.zone).date())
        adaptive = installation.settings.lookback == "adaptive"
        changing = lookbacks(database, [dataset], [account.key], adaptive=adaptive)
        return load_slice(
            api,
            database,
            account,
            dataset,
            window,
            run_id=None,
            lookback_days=changing[dataset.name, account.key],  # as by a refresh, so that both judge by one rule
            accepted=accepted,
        )


def report_receipt(installation: Installation, receipt: Receipt) -> None:
    """Report a load to Dagster, so that downstream assets are updated; its checks, too, unless it is a revert."""
    from seller_platform.orchestration.assets.datasets import report_load  # Dagster alone takes a second to import
    from seller_platform.orchestration.instance.home import open_instance

    with open_instance(installation.settings.home) as instance:
        report_load(instance, installation.database, receipt)
