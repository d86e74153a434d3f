"""Deletes old snapshots but one a month, and receipts that nothing refers to any more."""

from dataclasses import dataclass
from datetime import date

from sqlalchemy import ColumnElement, Table, and_, delete, func, or_, select, tuple_, union_all

from seller_platform.contract import DATASETS, LOCAL_DAY
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import GONE_LOAD_ID, HELD, LOADS, history_of, table_for

# Daily snapshots and receipts are all kept for so many days.
SNAPSHOT_DAYS = 90
RECEIPT_DAYS = 400
# Where a day is read every 15 minutes, most readings change nothing.
UNCHANGED_DAYS = 7


@dataclass(frozen=True)
class Pruned:
    """What was removed, or would be.

    Attributes:
        rows: Rows of snapshots, by dataset.
        receipts: Receipts of loads.
    """

    rows: dict[str, int]
    receipts: int


def prune(
    database: Database, *, snapshots_before: date, receipts_before: date, unchanged_before: date = date.min, dry: bool
) -> Pruned:
    """Delete old snapshots and receipts, and return how many rows were deleted.

    Of snapshots taken before a day, the last of each month stays; their former rows are deleted with them. Of receipts
    written before a day, those stay that say when a window was last read, and those that stored or former rows refer
    to. Former rows of dated lists are never deleted.

    Args:
        unchanged_before: Of older readings of a single day that changed nothing, the last one's receipt stays.
        dry: Count only.
    """
    removed = {}
    for dataset in DATASETS:
        if dataset.keeps_snapshots:
            stored = table_for(dataset).c
            months = (stored.account, func.date_trunc("month", stored[LOCAL_DAY]))
            old = stored[LOCAL_DAY] < snapshots_before
            kept = select(stored.account, func.max(stored[LOCAL_DAY])).where(old).group_by(*months)
            removed[dataset.name] = sum(
                _remove(
                    database,
                    table,
                    and_(
                        table.c[LOCAL_DAY] < snapshots_before,
                        tuple_(table.c.account, table.c[LOCAL_DAY]).not_in(kept),
                    ),
                    dry=dry,
                )
                for table in (history_of(dataset), table_for(dataset))
            )
    window = (LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end)
    newest = select(func.max(LOADS.c.id)).group_by(*window, LOADS.c.verdict == HELD)
    named = union_all(
        *(select(table_for(dataset).c.load_id).distinct() for dataset in DATASETS),
        *(select(history_of(dataset).c[name]).distinct() for dataset in DATASETS for name in ("load_id", GONE_LOAD_ID)),
    )
    repeats = and_(
        LOADS.c.finished_at < unchanged_before, ~LOADS.c.changed, LOADS.c.window_end - LOADS.c.window_start == 1
    )
    is_old = or_(LOADS.c.finished_at < receipts_before, repeats)
    old = and_(is_old, LOADS.c.id.not_in(newest), LOADS.c.id.not_in(named))
    return Pruned(removed, _remove(database, LOADS, old, dry=dry))


def _remove(database: Database, table: Table, condition: ColumnElement[bool], *, dry: bool) -> int:
    with database.begin() as connection:
        if dry:
            return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        return connection.execute(delete(table).where(condition)).rowcount
