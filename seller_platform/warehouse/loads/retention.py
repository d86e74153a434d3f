"""Retention: old snapshots thinned to one a month, and receipts that nothing refers to any more."""

from dataclasses import dataclass
from datetime import date

from sqlalchemy import Table, and_, delete, distinct, func, select, tuple_

from seller_platform.contract import DATASETS, LOCAL_DAY, Slicing, Source
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS, table_for


@dataclass(frozen=True)
class Pruned:
    """What was removed, or would be.

    Attributes:
        rows: Rows of snapshots, by dataset.
        receipts: Receipts of loads.
    """

    rows: dict[str, int]
    receipts: int


def prune(database: Database, *, snapshots_before: date, receipts_before: date, dry: bool) -> Pruned:
    """Remove what is older than its time, and return how much that was.

    Of snapshots taken before a day the last of each month stays. Of receipts written before a day those stay that
    tell when a window was last read, and those that stored rows refer to.

    Args:
        dry: Count only.
    """
    tables = {
        dataset.name: table_for(dataset)
        for dataset in DATASETS
        if dataset.slicing is Slicing.SNAPSHOT and dataset.source is not Source.REPORT
    }
    rows = {name: _prune_snapshots(database, table, snapshots_before, dry=dry) for name, table in tables.items()}
    return Pruned(rows, _prune_receipts(database, receipts_before, dry=dry))


def _prune_snapshots(database: Database, table: Table, before: date, *, dry: bool) -> int:
    day, month = table.c[LOCAL_DAY], func.date_trunc("month", table.c[LOCAL_DAY])
    kept = select(table.c.account, func.max(day)).where(day < before).group_by(table.c.account, month)
    old = and_(day < before, tuple_(table.c.account, day).not_in(kept))
    with database.begin() as connection:
        if dry:
            return connection.execute(select(func.count()).select_from(table).where(old)).scalar_one()
        return connection.execute(delete(table).where(old)).rowcount


def _prune_receipts(database: Database, before: date, *, dry: bool) -> int:
    window = (LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end)
    # A load that changed rows replaced its whole window: no stored row refers to an earlier load of the same window.
    newest = [
        select(func.max(LOADS.c.id)).group_by(*window),
        select(func.max(LOADS.c.id)).where(LOADS.c.changed).group_by(*window),
    ]
    old = and_(LOADS.c.finished_at < before, *(LOADS.c.id.not_in(each) for each in newest))
    with database.begin() as connection:
        if dry:
            return connection.execute(select(func.count(distinct(LOADS.c.id))).where(old)).scalar_one()
        return connection.execute(delete(LOADS).where(old)).rowcount
