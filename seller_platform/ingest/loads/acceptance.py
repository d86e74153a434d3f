"""Publishes a held reading that an operator accepts: its slice is read again."""

from seller_platform.capabilities import contributed
from seller_platform.contract import Slicing, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import NotHeldError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.holds import AN_OPERATOR, Accepted
from seller_platform.warehouse.loads.receipts import Receipt, doubt_of, open_holds, receipt_of, slice_of
from seller_platform.warehouse.loads.refusals import forget_refusal


def accept_load(loader: SliceLoader, load_id: int, *, by: str = AN_OPERATOR, why: str | None = None) -> Receipt:
    """Read the slice of a held reading again, and publish it if it still says the same.

    Args:
        loader: Reads it. Days are judged as by a refresh of it, so that both judge by one rule.

    Raises:
        RequestError: The load has no receipt.
        NotHeldError: It was not held, or a later reading was published.
        ReadingHeldError: The list says something else now, which is held, too.
    """
    database = loader.database
    held, holds = receipt_of(database, load_id), open_holds(database)
    is_dated, last = dataset_named(held.dataset).is_dated, None
    for each in holds if held.verdict is CountVerdict.HELD else ():
        is_of_slice = (each.dataset, each.account) == (held.dataset, held.account)
        overlaps = each.window.start < held.window.end and held.window.start < each.window.end
        if is_of_slice and (overlaps or not is_dated):
            last = each  # a refresh may have held its slice again since
            break
    if last is None:
        listed = ", ".join(map(str, sorted(each.id for each in holds))) or "none"
        raise NotHeldError(f"the reading of load {load_id} is not held; those held are: {listed}")
    accepted, slice_ = Accepted(doubt_of(held), by, why), slice_of(last)
    dataset, account = slice_.dataset, slice_.account
    if dataset.slicing is Slicing.CONNECTION:
        connection = next(each for each in connections(database) if each.name == account)
        return discover(loader.api, database, connection, run_id=loader.run_id, accepted=accepted)[1]
    window = slice_.window if dataset.is_dated else None
    days = lookbacks(database, [dataset], [account], adaptive=loader.adaptive)[dataset.name, account]
    receipt = loader.load(SliceRequest(dataset, account, window, lookback_days=days, by_value=by, accepted=accepted))
    assert receipt is not None, "a day that was read has begun"
    forget_refusal(database, dataset, account, window and Window.month_of(window.start))
    for follow in contributed("after_loads"):
        follow(database, [receipt])
    return receipt
