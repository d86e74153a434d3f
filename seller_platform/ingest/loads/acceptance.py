"""Publishes a held reading that an operator accepts: its slice is read again."""

from collections.abc import Callable
from datetime import datetime

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Slicing, Source, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import NotHeldError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.cost_periods import load_costs
from seller_platform.ingest.loads.slices import load_slice
from seller_platform.warehouse.connections.accounts import account_of, connections
from seller_platform.warehouse.history.reverts import receipt_of
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.holds import AN_OPERATOR, Accepted
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import forget_refusal
from seller_platform.warehouse.loads.slices import Receipt, Slice, doubt_of, slice_of
from seller_platform.warehouse.monitoring.repeated_ledgers import compare_changed
from seller_platform.warehouse.postgres.database import Database


def accept_load(
    api: Callable[[str], SellerApi],
    database: Database,
    load_id: int,
    *,
    now: datetime,
    adaptive: bool,
    run_id: str | None = None,
    by: str = AN_OPERATOR,
    why: str | None = None,
) -> Receipt:
    """Read the slice of a held reading again, and publish it if it still says the same.

    Args:
        api: Returns the API of a connection; the caller closes it.
        adaptive: Days are judged as by a refresh that reads them for as long as such days changed so far.
        run_id: The Dagster run, for the receipt.
        by: Who accepts it, for the receipt.
        why: The reason, for the receipt.

    Raises:
        RequestError: The load has no receipt.
        NotHeldError: It was not held, or a later reading was published.
        ReadingHeldError: The list says something else now, which is held, too.
    """
    held, last = _held_reading(database, load_id)
    accepted = Accepted(doubt_of(held), by, why)
    receipt = _read_again(api, database, slice_of(last), accepted, now=now, adaptive=adaptive, run_id=run_id)
    dataset = dataset_named(receipt.dataset)
    month = Window.month_of(receipt.window.start) if dataset.is_dated else None
    forget_refusal(database, dataset, receipt.account, month)
    compare_changed(database, [receipt])
    return receipt


def _held_reading(database: Database, load_id: int) -> tuple[Receipt, Receipt]:
    """Return a held reading, and the last one of its slice, which a refresh may have held again since.

    Raises:
        RequestError: The load has no receipt.
        NotHeldError: It was not held, or a later reading was published.
    """
    accepted, holds = receipt_of(database, load_id), open_holds(database)
    is_dated = dataset_named(accepted.dataset).is_dated
    for each in holds:
        is_of_slice = (each.dataset, each.account) == (accepted.dataset, accepted.account)
        overlaps = each.window.start < accepted.window.end and accepted.window.start < each.window.end
        if accepted.verdict is CountVerdict.HELD and is_of_slice and (overlaps or not is_dated):
            return accepted, each
    raise NotHeldError(load_id, sorted(each.id for each in holds))


def _read_again(
    api: Callable[[str], SellerApi],
    database: Database,
    slice_: Slice,
    accepted: Accepted,
    *,
    now: datetime,
    adaptive: bool,
    run_id: str | None,
) -> Receipt:
    dataset = slice_.dataset
    if dataset.slicing is Slicing.CONNECTION:
        connection = next(each for each in connections(database) if each.name == slice_.account)
        return discover(api(connection.name), database, connection, run_id=run_id, accepted=accepted)[1]
    account = account_of(database, slice_.account)
    connected = api(account.connection)
    if dataset.source is Source.PRODUCT_LOOKUP:
        return load_costs(connected, database, account, now=now, run_id=run_id, accepted=accepted)
    window = slice_.window if dataset.is_dated else Window.day(now.astimezone(account.zone).date())
    # As by a refresh, so that both judge by one rule.
    lookback_days = lookbacks(database, [dataset], [account.key], adaptive=adaptive)[dataset.name, account.key]
    return load_slice(
        connected,
        database,
        account,
        dataset,
        window,
        run_id=run_id,
        lookback_days=lookback_days,
        accepted=accepted,
    )
