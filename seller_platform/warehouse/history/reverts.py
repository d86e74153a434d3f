"""Makes a slice what it was before a load."""

from sqlalchemy import select

from seller_platform.clocks import utc_now
from seller_platform.contract import Slicing
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import RequestError
from seller_platform.warehouse.loads.receipts import Receipt, slice_of
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS, PUBLISHED_LOADS, loads_of


def receipt_of(database: Database, load_id: int) -> Receipt:
    """Return the receipt of a load.

    Raises:
        RequestError: There is none.
    """
    row = database.execute(select(LOADS).where(LOADS.c.id == load_id)).mappings().one_or_none()
    if row is None:
        raise RequestError(
            f"there is no receipt of load {load_id}",
            code="UnknownLoadError",
            step="Take the number of a load from `seller-platform explain` or `seller-platform diff`.",
        )
    return Receipt.of(row)


def revert(database: Database, load_id: int) -> Receipt:
    """Make the window of a load what it was before it, as a load of its own.

    Later loads of the window are undone with it. Rows that go move to schema `history` as with any load.

    Raises:
        RequestError: The load has no receipt, or cannot be reverted: its reading was held, nothing was loaded before
            it, or it is a list of accounts, which other tables follow.
    """
    undone, started_at = receipt_of(database, load_id), utc_now()
    slice_ = slice_of(undone)
    named = f"load {load_id} ({slice_})"
    if undone.verdict is CountVerdict.HELD:
        raise RequestError(f"{named} was held, so it changed nothing; see `seller-platform held`")
    if slice_.dataset.slicing is Slicing.CONNECTION:
        raise RequestError(
            f"{named} is a list of accounts; run `seller-platform connect --keep-grant` to read it again"
        )
    of_days = loads_of(slice_.dataset, undone.account, undone.window)
    before = select(PUBLISHED_LOADS.c.id).where(of_days, PUBLISHED_LOADS.c.id < load_id)
    if not database.execute(select(before.exists())).scalar_one():
        raise RequestError(f"{named} is the first of its days: nothing was stored before it")
    with open_load(database, slice_) as load:
        return load.revert(undone, started_at=started_at)
