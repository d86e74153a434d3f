"""Deletes old snapshots but one a month, and receipts that nothing refers to any more."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from psycopg import sql
from sqlalchemy import ColumnElement, Table, and_, delete, func, or_, select, tuple_, union_all

from seller_platform.contract import DATASETS, LOCAL_DAY, Dataset, Slicing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.creation import partition_of, partitions_of
from seller_platform.warehouse.schema.tables import (
    GONE_LOAD_ID,
    HELD,
    HISTORY,
    LOADS,
    SELLER,
    history_of,
    table_for,
)

# Daily snapshots and receipts are all kept for so many days.
SNAPSHOT_DAYS = 90
RECEIPT_DAYS = 400
# Where a day is read every 15 minutes, most readings change nothing.
UNCHANGED_DAYS = 7

_AT_ONCE = 4
_ANALYZES_ONLY = 180_000
"""The version of PostgreSQL that can analyze a table without its partitions."""
_PARTITIONED = [dataset for dataset in DATASETS if dataset.slicing is not Slicing.CONNECTION]


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
    """Delete old snapshots by partition, and receipts; then analyze the tables. Return how many rows were deleted.

    Of snapshots taken before a day, the last of each month stays; their former rows are deleted with them. Of receipts
    written before a day, those stay that say when a window was last read, and those that stored or former rows refer
    to. Former rows of dated lists are never deleted.

    Args:
        unchanged_before: Of older readings of a single day that changed nothing, the last one's receipt stays.
        dry: Count only.
    """
    with database.begin() as connection:
        numbers = range(partitions_of(connection))
    with ThreadPoolExecutor(_AT_ONCE) as threads:

        def remove_of(dataset: Dataset) -> int:
            return sum(
                threads.map(
                    lambda number: _remove_snapshots(database, dataset, number, snapshots_before, dry=dry), numbers
                )
            )

        removed = {dataset.name: remove_of(dataset) for dataset in DATASETS if dataset.keeps_snapshots}
        receipts = _remove_receipts(database, receipts_before, unchanged_before, dry=dry)
        if not dry:
            list(threads.map(lambda dataset: _analyze(database, dataset), _PARTITIONED))
    return Pruned(removed, receipts)


def _remove_snapshots(database: Database, dataset: Dataset, number: int, before: date, *, dry: bool) -> int:
    """Delete the old snapshots of the accounts of a partition, but the last of each month."""
    stored = partition_of(table_for(dataset), number)
    day, months = stored.c[LOCAL_DAY], (stored.c.account, func.date_trunc("month", stored.c[LOCAL_DAY]))
    kept = select(stored.c.account, func.max(day)).where(day < before).group_by(*months)
    return sum(
        _remove(
            database,
            table,
            and_(table.c[LOCAL_DAY] < before, tuple_(table.c.account, table.c[LOCAL_DAY]).not_in(kept)),
            dry=dry,
        )
        for table in (partition_of(history_of(dataset), number), stored)
    )


def _remove_receipts(database: Database, receipts_before: date, unchanged_before: date, *, dry: bool) -> int:
    """Delete old receipts, and old readings of single days that changed nothing, to which no row refers."""
    window = (LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end)
    newest = select(func.max(LOADS.c.id)).group_by(*window, LOADS.c.verdict == HELD)
    old = and_(LOADS.c.finished_at < unchanged_before, ~LOADS.c.changed, LOADS.c.window_end - LOADS.c.window_start == 1)
    with database.begin() as connection:
        last = connection.execute(select(func.max(LOADS.c.id)).where(LOADS.c.finished_at < receipts_before)).scalar()
    if last is not None:
        columns = [table_for(dataset).c.load_id for dataset in DATASETS]
        columns += [history_of(dataset).c[name] for dataset in DATASETS for name in ("load_id", GONE_LOAD_ID)]
        # The summaries of the column say which pages have rows of loads as old.
        named = union_all(*(select(column).where(column <= last).distinct() for column in columns))
        old = or_(old, and_(LOADS.c.finished_at < receipts_before, LOADS.c.id.not_in(named)))
    return _remove(database, LOADS, and_(old, LOADS.c.id.not_in(newest)), dry=dry)


def _analyze(database: Database, dataset: Dataset) -> None:
    """Let the planner know what a dataset's partitions hold together: autovacuum analyzes each of them by itself."""
    with database.begin() as connection:
        driver = driver_of(connection)
        only = sql.SQL("ONLY" if driver.info.server_version >= _ANALYZES_ONLY else "")
        for schema in (SELLER, HISTORY):
            driver.execute(sql.SQL("ANALYZE {} {}").format(only, sql.Identifier(schema, dataset.name)))


def _remove(database: Database, table: Table, condition: ColumnElement[bool], *, dry: bool) -> int:
    with database.begin() as connection:
        if dry:
            return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        return connection.execute(delete(table).where(condition)).rowcount
