"""How long an upgrade takes and how much disk it needs, measured before it starts.

Each step is rehearsed with some rows of its table, in a table that is rolled back. Time and growth are those of the
sample, by as many rows as the step has yet to go through.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import psycopg
from psycopg import sql

from seller_platform.counts import count_of
from seller_platform.errors import WarehouseError
from seller_platform.warehouse.migrations.short_locks import ShortLocks
from seller_platform.warehouse.migrations.steps import MigrationStep, identifier, partitions_of
from seller_platform.warehouse.postgres.refusals import local_data

SAMPLE_ROWS = 20_000
"""How many rows of a table a step is rehearsed with."""

_SAMPLE = "platform.migration_sample"
_CREATE = sql.SQL("CREATE TABLE {sample} (LIKE {table} INCLUDING DEFAULTS INCLUDING INDEXES INCLUDING STORAGE)")
_COPY = sql.SQL("INSERT INTO {sample} SELECT * FROM {partition} LIMIT {rows}")
_ROWS = "SELECT reltuples, pg_table_size(oid) FROM pg_class WHERE oid = %s::regclass"
_COUNT = sql.SQL("SELECT count(*) FROM {}")
_SIZE = "SELECT pg_total_relation_size(%s::regclass)"
_LARGEST_LOG = "SELECT pg_size_bytes(current_setting('max_wal_size'))"
_MIB = 1 << 20


@dataclass(frozen=True)
class PlannedStep:
    """A step that is to be run.

    Attributes:
        revision: The migration that it belongs to.
        rows: That it has yet to go through, as PostgreSQL estimates those of the table.
        seconds: How long it takes at the measured rate.
        disk_bytes: By how much the table and its indexes grow.
    """

    revision: str
    step: MigrationStep
    rows: int
    seconds: float
    disk_bytes: int

    def __str__(self) -> str:
        work = f"{self.revision}: {self.step}"
        if not self.step.passes:
            return work
        need = f"about {self.seconds:,.0f} s and {self.disk_bytes / _MIB:,.0f} MiB of disk"
        return f"{work}: {count_of(self.rows, 'row')}, {need}"


def plan_steps(locks: ShortLocks, steps: Sequence[tuple[str, MigrationStep]]) -> Sequence[PlannedStep]:
    """Measure the steps that are not done, and store nothing.

    Args:
        steps: Each with the number of its migration.
    """
    lacking = [(revision, step) for revision, step in steps if not step.is_done(locks)]
    planned: dict[int, PlannedStep] = {}
    by_table = sorted(enumerate(lacking), key=lambda item: item[1][1].table)
    for table, items in groupby(by_table, key=lambda item: item[1][1].table):
        rows_of, largest = _rows_of(locks, table)
        with locks.driver.transaction(force_rollback=True):
            copied = _sample(locks.driver, table, largest)
            for number, (revision, step) in items:
                began, before = time.monotonic(), _size(locks.driver)
                step.rehearse(locks.driver, _SAMPLE)
                seconds, rows = time.monotonic() - began, step.rows_left(locks, rows_of)
                times = rows / copied if copied else 0
                growth = (_size(locks.driver) - before) * times
                planned[number] = PlannedStep(revision, step, rows, seconds * times * step.passes, round(growth))
    return [planned[number] for number in range(len(lacking))]


def free_bytes(where: str) -> int | None:
    """Return the free room on the disk of a server's data; None where this machine does not have it.

    Args:
        where: As `Database.where` writes it.
    """
    data = local_data(where)
    return None if data is None else shutil.disk_usage(data).free


def raise_without_room(locks: ShortLocks, where: str, planned: Sequence[PlannedStep]) -> None:
    """Raise an error if the disk has too little room for some steps and their write-ahead log.

    Raises:
        WarehouseError: It has too little. Where the disk is that of another machine, none is raised.
    """
    free, growth = free_bytes(where), sum(step.disk_bytes for step in planned)
    (log,) = locks.driver.execute(_LARGEST_LOG).fetchone() or (0,)
    needed = growth + min(growth, log)
    if free is not None and needed > free:
        raise WarehouseError(
            f"the upgrade of {where} needs {needed / _MIB:,.0f} MiB of disk, and {free / _MIB:,.0f} MiB are free. "
            "Nothing was changed",
            code="TooLittleRoomError",
            step="Make room there and run `seller-platform migrate` again; `migrate --plan` says what needs it.",
        )


def _rows_of(locks: ShortLocks, table: str) -> tuple[dict[str, int], str]:
    """Return how many rows each partition has, as they were estimated or else counted, and the largest partition."""
    rows, largest = {}, (-1, table)
    for partition in partitions_of(locks, table):
        estimate, size = locks.driver.execute(_ROWS, [partition]).fetchone() or (0, 0)
        if estimate < 0:  # never analyzed
            (estimate,) = locks.driver.execute(_COUNT.format(identifier(partition))).fetchone() or (0,)
        rows[partition], largest = int(estimate), max(largest, (size, partition))
    return rows, largest[1]


def _sample(driver: psycopg.Connection[Any], table: str, partition: str) -> int:
    """Create a table with some rows of another, and return how many."""
    names = {"sample": identifier(_SAMPLE), "table": identifier(table), "partition": identifier(partition)}
    driver.execute(_CREATE.format(**names))
    return driver.execute(_COPY.format(**names, rows=SAMPLE_ROWS)).rowcount


def _size(driver: psycopg.Connection[Any]) -> int:
    (size,) = driver.execute(_SIZE, [_SAMPLE]).fetchone() or (0,)
    return int(size)
