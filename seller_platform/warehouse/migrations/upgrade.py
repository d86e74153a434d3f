"""Creates the tables of a new database, and runs the migrations that an older one lacks, while programs go on.

A statement waits for a lock for a tenth of a second: who waits for a lock of a table lets everyone wait that comes
after. Then it gives up and lets those pass, and its migration begins again. Alembic commits each migration with its
number, so that an upgrade that was killed goes on when it is called again.

Functions and views are created anew afterwards, because their columns are those of the tables, and readers are granted
what is new.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from seller_platform.capabilities import contributed
from seller_platform.errors import WarehouseError
from seller_platform.warehouse.connections.problems import ACCOUNTS, GRANTS
from seller_platform.warehouse.derived.tables import PROBLEMS as DERIVED
from seller_platform.warehouse.postgres.advisory_locks import try_hold
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.versions import (
    FEW_PARTITIONS,
    MIGRATION_LOCK,
    VERSION_SCHEMA,
    VERSION_TABLE,
    stored_version,
)
from seller_platform.warehouse.schema.creation import comment_on_schemas
from seller_platform.warehouse.schema.functions import create_functions, create_latest_views, drop_former_functions
from seller_platform.warehouse.schema.problems import ProblemSource, create_problems
from seller_platform.warehouse.schema.readers import grant_to_readers
from seller_platform.warehouse.schema.slice_problems import NOTED_SLICES, TRIED_SLICES
from seller_platform.warehouse.schema.slices import keep_slices
from seller_platform.warehouse.schema.unread_slices import UNREAD_SLICES, create_unread_slices

_FOLDER = Path(__file__).parent
LOCK_TIMEOUT = "100ms"
_TRIES = 600
_PAUSES_SECONDS = (0.1, 0.2, 0.5)
_PAUSE_SECONDS = 1.0
_POLL_SECONDS = 0.1
_BLOCKERS = """
SELECT string_agg(format('%s (%s, for %s s)', pid, coalesce(nullif(application_name, ''), usename, backend_type),
                         extract(epoch FROM now() - xact_start)::integer), ', ' ORDER BY xact_start)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - interval '1 s'
"""
_SOURCES = (TRIED_SLICES, UNREAD_SLICES, NOTED_SLICES, GRANTS, ACCOUNTS, DERIVED)

_FOLLOWING = (
    keep_slices,
    create_functions,
    create_unread_slices,
    lambda connection: create_problems(connection, problem_sources()),
    create_latest_views,
    comment_on_schemas,
    drop_former_functions,
)
"""What follows from the tables, and is created anew after each change of them."""

_VERSION = f"{VERSION_SCHEMA}.{VERSION_TABLE}"
# Alembic's table, with a column of ours: an upgrade may be killed after the last migration.
_CREATE = f"""
CREATE SCHEMA IF NOT EXISTS {VERSION_SCHEMA};
CREATE TABLE IF NOT EXISTS {_VERSION} (version_num text PRIMARY KEY, views text NOT NULL DEFAULT '');
COMMENT ON TABLE {_VERSION} IS 'The migration that the schemas are at, in one row.';
COMMENT ON COLUMN {_VERSION}.version_num IS 'The number of the migration.';
COMMENT ON COLUMN {_VERSION}.views IS 'The number of the migration whose functions and views there are.'
"""
_END = f"UPDATE {_VERSION} SET views = version_num"  # noqa: S608  # constants


def problem_sources() -> tuple[ProblemSource, ...]:
    """Return what `platform.problems` is the union of, in the order in which the documents list their kinds."""
    return (*_SOURCES, *contributed("problems"))


def upgrade(
    database: Database,
    partitions: int = FEW_PARTITIONS,
    *,
    report: Callable[[str], None],
    versions: Sequence[Path] = (),
) -> None:
    """Bring a database to the newest version, as `migrate` does; processes that start together wait for one another.

    Args:
        versions: Folders of migrations that follow those of this program.

    Raises:
        WarehouseError: The database is of a version that this program cannot use, or a table stayed locked. The
            latter happens in the middle; calling this again goes on.
    """
    timeout = {"lock_timeout": LOCK_TIMEOUT}
    with Database(database.url, connections=1, settings=timeout) as own, own.connect() as connection:
        if not try_hold(connection, MIGRATION_LOCK):
            report("Another program migrates the database; this one waits for it.")
            # It tries again and again: CREATE INDEX CONCURRENTLY waits for every statement that waits for a lock.
            while not try_hold(connection, MIGRATION_LOCK):
                connection.commit()
                time.sleep(_POLL_SECONDS)
        connection.commit()
        config = Config(attributes={"connection": connection, "partitions": partitions})
        folders = os.linesep.join(map(str, (_FOLDER / "versions", *versions)))
        options = {"script_location": str(_FOLDER), "path_separator": "newline", "version_locations": folders}
        for name, option in options.items():
            config.set_main_option(name, option.replace("%", "%%"))
        scripts = ScriptDirectory.from_config(config)
        version, newest = stored_version(connection), scripts.get_current_head()
        if version is not None:
            version.raise_unless_usable()
            if version.revision > str(newest):
                return
            for script in reversed(list(scripts.iterate_revisions("head", version.revision))):
                report(f"{script.revision}: {script.doc}")
        _until_locked(connection, lambda each: each.exec_driver_sql(_CREATE))
        _until_locked(connection, lambda _: command.upgrade(config, "head"))
        for create in _FOLLOWING:  # with their grants: a view that was dropped has lost them
            _until_locked(connection, create, grant_to_readers)
        connection.exec_driver_sql(_END)
        connection.commit()


def _until_locked(connection: Connection, *works: Callable[[Connection], object]) -> None:
    """Do work until it gets all of its locks, and commit it."""
    pauses = iter(_PAUSES_SECONDS)
    for _ in range(_TRIES):
        try:
            for work in works:
                work(connection)
            connection.commit()
            return
        except (LockNotAvailable, DeadlockDetected, OperationalError) as error:
            refusal = error.orig if isinstance(error, OperationalError) else error
            if not isinstance(refusal, LockNotAvailable | DeadlockDetected):
                raise
            connection.rollback()
            connection.exec_driver_sql("RESET lock_timeout")  # a migration may have set it
            connection.commit()
        time.sleep(next(pauses, _PAUSE_SECONDS))
    blockers = connection.exec_driver_sql(_BLOCKERS).scalar_one()
    raise WarehouseError(
        f"a table stayed locked for {_TRIES} tries; transactions that are open by their process: {blockers or 'none'}",
        code="TableInUseError",
        step="Run `seller-platform migrate` again when they have ended; it goes on where it was.",
    )
