"""Creates the tables of a new database, and runs the migrations that an older one lacks.

Programs go on against the new tables where each migration says so: `COMPATIBLE_FROM` is the oldest version whose
programs may, in a minor version those of the one before. Each step is stored by itself; the version of the database is
the last thing that a migration changes, so that an upgrade that was killed goes on when it is called again.

Functions and views are created anew afterwards, because their columns are those of the tables, and readers are granted
what is new.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection

from seller_platform.warehouse.marts import tables as mart_tables  # noqa: F401  # imported, its tables join METADATA
from seller_platform.warehouse.migrations import versions
from seller_platform.warehouse.migrations.plans import PlannedStep, plan_steps, raise_without_room
from seller_platform.warehouse.migrations.short_locks import ShortLocks
from seller_platform.warehouse.migrations.steps import MigrationStep, Report
from seller_platform.warehouse.postgres.advisory_locks import TRY_HOLD_NUMBER, releasing
from seller_platform.warehouse.postgres.database import (
    FEW_PARTITIONS,
    MIGRATION_LOCK,
    VERSION_SCHEMA,
    VERSION_TABLE,
    Database,
    driver_of,
    revision_files,
    stored_version,
)
from seller_platform.warehouse.schema import service_tables  # noqa: F401  # its tables join METADATA, too
from seller_platform.warehouse.schema.comments import comment_on_schemas
from seller_platform.warehouse.schema.creation import create_tables
from seller_platform.warehouse.schema.functions import create_functions, drop_former_functions
from seller_platform.warehouse.schema.latest_views import create_latest_views
from seller_platform.warehouse.schema.problems import create_problems
from seller_platform.warehouse.schema.readers import grant_to_readers
from seller_platform.warehouse.schema.slices import keep_slices

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_FOLLOWING = (
    keep_slices,
    create_functions,
    create_problems,
    create_latest_views,
    comment_on_schemas,
    drop_former_functions,
)
"""What follows from the tables, and is created anew after each change of them."""

_CREATE = sql.SQL("""
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {table} (version_num text PRIMARY KEY, compatible_from text NOT NULL);
INSERT INTO {table} VALUES ({revision}, {compatible_from})
""")
_NAMES = {"schema": sql.Identifier(VERSION_SCHEMA), "table": sql.Identifier(VERSION_SCHEMA, VERSION_TABLE)}
_BEGIN = sql.SQL("UPDATE {table} SET compatible_from = greatest(compatible_from, {compatible_from})")
_END = sql.SQL("UPDATE {table} SET version_num = {revision}")


@dataclass(frozen=True)
class Migration:
    """The change from the version before.

    Attributes:
        revision: Its number, which is the version of the database afterwards.
        compatible_from: The oldest version whose programs go on with the tables while it runs, and afterwards.
        title: The first line of its docstring.
    """

    revision: str
    compatible_from: str
    title: str
    steps: Sequence[MigrationStep]

    @classmethod
    def of(cls, module: str) -> "Migration":
        """Return the migration of a module, whose name begins with its number."""
        found = import_module(module)
        title = (found.__doc__ or "").strip().partition("\n")[0]
        return cls(module.rpartition(".")[2].partition("_")[0], found.COMPATIBLE_FROM, title, found.STEPS)


def released() -> Sequence[Migration]:
    """Return the migrations of this program, oldest first."""
    return [Migration.of(f"{versions.__name__}.{file.stem}") for file in revision_files()]


def upgrade(
    database: Database,
    partitions: int = FEW_PARTITIONS,
    report: Report = _LOG.info,
    migrations: Sequence[Migration] | None = None,
) -> None:
    """Bring a database to the newest version; processes that start together wait for one another.

    Args:
        partitions: How many partitions the tables of an empty database get.
        report: Receives a line for each step.
        migrations: By default those of this program.

    Raises:
        WarehouseError: The database is of a version that this program cannot use, the disk has too little room, or a
            table stayed locked. The last one happens in the middle; calling this again goes on.
        WarehouseUnavailableError: The server cannot be reached.
    """
    migrations = migrations or released()
    with database.connect() as pooled:
        connection = pooled.execution_options(isolation_level="AUTOCOMMIT")
        driver = driver_of(connection)
        with _alone(connection, driver, report):
            version = stored_version(connection)
            if version is None:
                with driver.transaction():
                    _create(connection, partitions, migrations[-1])
                return
            version.raise_unless_usable()
            locks = ShortLocks(driver)
            pending = [migration for migration in migrations if migration.revision > version.revision]
            planned = plan_steps(locks, _steps_of(pending))
            raise_without_room(locks, database.where, planned)
            for step in planned:
                report(str(step))
            for migration in pending:
                report(f"{migration.revision}: {migration.title}")
                _run(connection, locks, migration, report, is_last=migration is pending[-1])


def plan(database: Database, migrations: Sequence[Migration] | None = None) -> Sequence[PlannedStep]:
    """Return the steps that an upgrade would run, in their order, with what they need; nothing is changed.

    Raises:
        WarehouseError: The database is of a version that this program cannot use.
        WarehouseUnavailableError: The server cannot be reached.
    """
    with database.connect() as pooled:
        connection = pooled.execution_options(isolation_level="AUTOCOMMIT")
        version = stored_version(connection)
        if version is None:
            return []
        version.raise_unless_usable()
        pending = [each for each in migrations or released() if each.revision > version.revision]
        return plan_steps(ShortLocks(driver_of(connection)), _steps_of(pending))


def _steps_of(migrations: Sequence[Migration]) -> Sequence[tuple[str, MigrationStep]]:
    return [(migration.revision, step) for migration in migrations for step in migration.steps]


def _run(connection: Connection, locks: ShortLocks, migration: Migration, report: Report, *, is_last: bool) -> None:
    locks.execute(_BEGIN.format(**_NAMES, compatible_from=migration.compatible_from))
    for step in migration.steps:
        if not step.is_done(locks):
            report(f"{migration.revision}: {step}")
            step.run(locks, lambda line: report(f"{migration.revision}: {line}"))
    if is_last:
        for create in _FOLLOWING:
            locks.transaction(lambda create=create: _follow(connection, create))  # type: ignore[misc]
    locks.execute(_END.format(**_NAMES, revision=migration.revision))


def _follow(connection: Connection, create: Callable[[Connection], None]) -> None:
    """Create what follows from the tables, with its grants: a view that was dropped has lost them."""
    create(connection)
    grant_to_readers(connection)


def _create(connection: Connection, partitions: int, newest: Migration) -> None:
    driver = driver_of(connection)
    driver.execute(_CREATE.format(**_NAMES, revision=newest.revision, compatible_from=newest.compatible_from))
    create_tables(connection, partitions)
    for create in (*_FOLLOWING, grant_to_readers):
        create(connection)


@contextmanager
def _alone(connection: Connection, driver: psycopg.Connection[Any], report: Report) -> Iterator[None]:
    """Wait until no other program migrates the database, and hold the lock of it until the block ends.

    The lock is tried again and again: CREATE INDEX CONCURRENTLY waits for every statement that is older, so also for
    one that waits for the lock.
    """
    with releasing(connection):
        is_first = True
        while driver.execute(TRY_HOLD_NUMBER, {"number": MIGRATION_LOCK}).fetchone() != (True,):
            if is_first:
                report("Another program migrates the database; this one waits for it.")
            is_first = False
            time.sleep(_POLL_SECONDS)
        yield
