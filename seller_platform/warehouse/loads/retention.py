"""Deletes old snapshots but one a month, and receipts that nothing refers to any more."""

from dataclasses import dataclass
from datetime import date

from sqlalchemy import ColumnElement, Table, and_, delete, func, select, tuple_

from seller_platform.contract import DATASETS, LOCAL_DAY
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
    """Delete old snapshots and receipts, and return how many rows were deleted.

    Of snapshots taken before a day, the last of each month stays. Of receipts written before a day, those stay that say
    when a window was last read, and those that stored rows refer to.

    Args:
        dry: Count only.
    """
    removed = {}
    for dataset in DATASETS:
        if dataset.keeps_snapshots:
            table = table_for(dataset)
            account, day = table.c.account, table.c[LOCAL_DAY]
            months = (account, func.date_trunc("month", day))
            kept = select(account, func.max(day)).where(day < snapshots_before).group_by(*months)
            old = and_(day < snapshots_before, tuple_(account, day).not_in(kept))
            removed[dataset.name] = _remove(database, table, old, dry=dry)
    window = (LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end)
    newest = select(func.max(LOADS.c.id)).group_by(*window)
    # A load that changed rows replaced its whole window: no stored row refers to an earlier load of the same window.
    newest_changed = newest.where(LOADS.c.changed)
    old = and_(LOADS.c.finished_at < receipts_before, LOADS.c.id.not_in(newest), LOADS.c.id.not_in(newest_changed))
    return Pruned(removed, _remove(database, LOADS, old, dry=dry))


def _remove(database: Database, table: Table, condition: ColumnElement[bool], *, dry: bool) -> int:
    with database.begin() as connection:
        if dry:
            return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        return connection.execute(delete(table).where(condition)).rowcount
