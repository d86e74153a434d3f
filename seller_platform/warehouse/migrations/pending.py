"""Runs the migrations that a database lacks, and says which it has; mostly it lacks none."""

import logging
from collections.abc import Callable

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from seller_platform.errors import WarehouseUnavailableError
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.versions import (
    FEW_PARTITIONS,
    MIGRATION_LOCK,
    VERSION_SCHEMA,
    VERSION_TABLE,
    SchemaVersion,
    revisions,
    stored_version,
)

_LOG = logging.getLogger(__name__)
# A backup may have been restored on another server, which counts its transactions from the beginning. The row of a
# slice is written in the transaction of each of its receipts. With the number 0, every snapshot sees all stored loads.
_HAS_LATER_NUMBERS = text("""
    SELECT EXISTS (SELECT FROM platform.slices WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
""")


def migrate(database: Database, partitions: int = FEW_PARTITIONS, report: Callable[[str], None] = _LOG.info) -> None:
    """Bring the schemas to today's version; processes that start together wait for one another.

    A newer database whose tables this program may use stays as it is.

    Args:
        partitions: How many partitions the tables of an empty database get.
        report: Receives a line for each step; by default they are logged.

    Raises:
        WarehouseError: The database is newer than this program may use, or older than it upgrades.
    """
    with database.begin() as connection:
        version = stored_version(connection)
    if version is None or version.lacks_migrations:
        # Here, because it imports every table, and most programs find nothing to do.
        from seller_platform.warehouse.migrations.upgrade import upgrade

        upgrade(database, partitions, report=report)
    with database.begin() as connection:
        if connection.execute(_HAS_LATER_NUMBERS).scalar_one():
            lock(connection, MIGRATION_LOCK)  # so that receipts are numbered again once
            if connection.execute(_HAS_LATER_NUMBERS).scalar_one():
                connection.execute(text("UPDATE platform.loads SET transaction_id = '0'"))
                connection.execute(text("UPDATE platform.slices SET rows = rows"))  # a trigger sets their number


def version_of(database: Database) -> SchemaVersion | None:
    """Return the version of a database, also for a user who may only read; None where there are no tables yet.

    The readers of the database may not read the version: their grants follow each migration, so it is the newest.
    """
    statement = f"SELECT has_table_privilege(to_regclass('{VERSION_SCHEMA}.{VERSION_TABLE}'), 'SELECT')"
    try:
        with database.begin() as connection:
            may_read = connection.execute(text(statement)).scalar_one()
            return SchemaVersion(revisions()[-1], revisions()[-1]) if may_read is False else stored_version(connection)
    except WarehouseUnavailableError as error:
        # Without a database there are no tables; a role that does not exist is another error.
        cause = str(error.__cause__.orig) if isinstance(error.__cause__, OperationalError) else ""
        if 'database "' in cause and "does not exist" in cause:
            return None
        raise
