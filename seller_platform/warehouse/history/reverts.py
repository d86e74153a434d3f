"""Makes a slice what it was before a load."""

from datetime import UTC, datetime

from sqlalchemy import select

from seller_platform.errors import UnknownLoadError
from seller_platform.warehouse.loads.slices import Receipt, open_load, slice_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS


def receipt_of(database: Database, load_id: int) -> Receipt:
    """Return the receipt of a load.

    Raises:
        UnknownLoadError: There is none.
    """
    with database.begin() as connection:
        row = connection.execute(select(LOADS).where(LOADS.c.id == load_id)).mappings().one_or_none()
    if row is None:
        raise UnknownLoadError(load_id)
    return Receipt.of(row)


def revert(database: Database, load_id: int) -> Receipt:
    """Make the window of a load what it was before it, as a load of its own.

    Later loads of the window are undone with it. Rows that go move to schema `history` as with any load.

    Raises:
        UnknownLoadError: The load has no receipt.
    """
    undone, started_at = receipt_of(database, load_id), datetime.now(UTC)
    with open_load(database, slice_of(undone)) as load:
        return load.revert(undone, started_at=started_at)
