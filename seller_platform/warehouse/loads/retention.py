"""Deletes old snapshots but one a month, receipts that nothing refers to any more, and other bookkeeping."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

from psycopg import sql
from sqlalchemy import Column, ColumnElement, Table, Update, and_, delete, func, or_, select, tuple_, union_all, update

from seller_platform.capabilities import contributed
from seller_platform.contract import DATASETS, LOCAL_DAY, Dataset, Slicing
from seller_platform.warehouse.derived.tables import BUILDS
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.schema.creation import partition_of, partitions_of
from seller_platform.warehouse.schema.tables import (
    GONE_LOAD_ID,
    HELD,
    HISTORY,
    LOADS,
    SELLER,
    SENT_REQUESTS,
    SLICES,
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
    """How many rows of snapshots are removed, or would be, by dataset, and how many receipts of anything."""

    rows: dict[str, int]
    receipts: int


@dataclass(frozen=True)
class Expiring:
    """Bookkeeping, also of a capability, which is deleted once it is old.

    Attributes:
        is_old: Returns the condition of rows that were written before a day, and that nothing needs.
        load_id: The column that refers to a receipt, which then stays.
        are_receipts: Whether the rows count among those that are reported.
    """

    table: Table
    is_old: Callable[[date], ColumnElement[bool]]
    load_id: Column[Any] | None = None
    are_receipts: bool = False


def prune(
    database: Database, *, snapshots_before: date, receipts_before: date, unchanged_before: date = date.min, dry: bool
) -> Pruned:
    """Delete old snapshots by partition, and receipts; then analyze the tables. Return how many rows were deleted.

    Of snapshots taken before a day, the last of each month stays; their former rows are deleted with them. Of receipts
    written before a day, those stay that say when a window was last read or a slice last changed, and those that stored
    or former rows or reports refer to; of a mart's partition, that of the newest build; of reports, those that are open
    or whose problem no run has reported yet. Former rows of dated lists are never deleted.

    Args:
        unchanged_before: Of older readings of a single day that changed nothing, the last one's receipt stays.
        dry: Count only.
    """
    with database.begin() as connection:
        numbers = range(partitions_of(connection))
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        remove = partial(_remove_snapshots, database, before=snapshots_before, dry=dry)
        kept_by_day = [dataset for dataset in DATASETS if dataset.keeps_snapshots]
        removed = {each.name: sum(threads.map(partial(remove, each), numbers)) for each in kept_by_day}
        receipts = _remove_receipts(database, receipts_before, unchanged_before, dry=dry)
        for each in _expiring():
            if each.are_receipts or not dry:
                count = _remove(database, each.table, each.is_old(receipts_before), dry=dry)
                receipts += count if each.are_receipts else 0
        if not dry:
            list(threads.map(lambda dataset: _analyze(database, dataset), _PARTITIONED))
    return Pruned(removed, receipts)


def _expiring() -> Iterator[Expiring]:
    newest = select(func.max(BUILDS.c.id)).group_by(BUILDS.c.mart, BUILDS.c.account, BUILDS.c.window_start)
    was_built_again = BUILDS.c.id.not_in(newest)
    yield Expiring(BUILDS, lambda day: and_(BUILDS.c.finished_at < day, was_built_again), are_receipts=True)
    yield Expiring(SENT_REQUESTS, lambda day: SENT_REQUESTS.c.day < day)
    for of_one in contributed("retention"):
        yield from of_one


def _remove_snapshots(database: Database, dataset: Dataset, number: int, before: date, *, dry: bool) -> int:
    """Delete the old snapshots of the accounts of a partition, but the last of each month."""
    stored = partition_of(table_for(dataset), number)
    day, months = stored.c[LOCAL_DAY], (stored.c.account, func.date_trunc("month", stored.c[LOCAL_DAY]))
    kept = select(stored.c.account, func.max(day)).where(day < before).group_by(*months)
    of_history = partition_of(history_of(dataset), number)

    def is_old(table: Table) -> ColumnElement[bool]:
        return and_(table.c[LOCAL_DAY] < before, tuple_(table.c.account, table.c[LOCAL_DAY]).not_in(kept))

    # Exports have the rows, too.
    has_old = SLICES.c.account.in_(select(stored.c.account).where(is_old(stored)))
    pruned = update(SLICES).values(pruned_at=func.clock_timestamp()).where(SLICES.c.dataset == dataset.name, has_old)
    removed = _remove(database, of_history, is_old(of_history), dry=dry)
    return removed + _remove(database, stored, is_old(stored), dry=dry, before=pruned)


def _remove_receipts(database: Database, receipts_before: date, unchanged_before: date, *, dry: bool) -> int:
    """Delete old receipts, and readings of single days that changed nothing, to which nothing refers any more."""
    window = (LOADS.c.dataset, LOADS.c.account, LOADS.c.window_start, LOADS.c.window_end)
    newest = select(func.max(LOADS.c.id)).group_by(*window, LOADS.c.verdict == HELD)
    old = and_(LOADS.c.finished_at < unchanged_before, ~LOADS.c.changed, LOADS.c.window_end - LOADS.c.window_start == 1)
    last = database.execute(select(func.max(LOADS.c.id)).where(LOADS.c.finished_at < receipts_before)).scalar()
    if last is not None:
        columns = [table_for(dataset).c.load_id for dataset in DATASETS]
        columns += [history_of(dataset).c[name] for dataset in DATASETS for name in ("load_id", GONE_LOAD_ID)]
        # The summaries of the column say which pages have rows of loads as old.
        named = union_all(*(select(column).where(column <= last).distinct() for column in columns))
        old = or_(old, and_(LOADS.c.finished_at < receipts_before, LOADS.c.id.not_in(named)))
    names = (SLICES.c.changed_load_id, *(each.load_id for each in _expiring()))
    kept = newest.union_all(*(select(name).where(name.is_not(None)) for name in names if name is not None))
    return _remove(database, LOADS, and_(old, LOADS.c.id.not_in(kept)), dry=dry)


def _analyze(database: Database, dataset: Dataset) -> None:
    """Let the planner know what a dataset's partitions hold together: autovacuum analyzes each of them by itself.

    Each table is analyzed in a transaction of its own: CREATE INDEX CONCURRENTLY waits for one that is open.
    """
    with database.connect() as pooled:
        driver = driver_of(pooled.execution_options(isolation_level="AUTOCOMMIT"))
        only = sql.SQL("ONLY" if driver.info.server_version >= _ANALYZES_ONLY else "")
        for schema in (SELLER, HISTORY):
            driver.execute(sql.SQL("ANALYZE {} {}").format(only, sql.Identifier(schema, dataset.name)))


def _remove(
    database: Database, table: Table, condition: ColumnElement[bool], *, dry: bool, before: Update | None = None
) -> int:
    """Delete rows, in the transaction of a statement before it, and return their number."""
    with database.begin() as connection:
        if dry:
            return connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one()
        if before is not None:
            connection.execute(before)
        return connection.execute(delete(table).where(condition)).rowcount
