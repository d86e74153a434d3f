"""A PostgreSQL database: its connections, transactions, migrations and errors."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import psycopg
import sqlalchemy
from psycopg.sql import SQL
from sqlalchemy import Connection, Engine, Executable, Result, create_engine, func, select, text
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError, OperationalError

from seller_platform.errors import WarehouseError, WarehouseUnavailableError, unknown_schema
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.lock_waits import LockWaits
from seller_platform.warehouse.postgres.refusals import refusal_of
from seller_platform.warehouse.postgres.sessions import check_server, session
from seller_platform.warehouse.postgres.urls import parsed_url, place_of, user_of

VERSION_TABLE = "schema_version"
VERSION_SCHEMA = "platform"
DAGSTER_SCHEMA = "dagster"
"""The schema of Dagster's tables. Its storage names it for each connection, so that no search path decides."""
PARTITIONS = "partitions"
"""The schema of the partitions of tables."""
FEW_PARTITIONS = 4
"""The number of a database that is created without one."""
_VERSIONS = Path(__file__).parents[1] / "migrations" / "versions"
_PORT = 5432
MIGRATION_LOCK = 0x5E11E4
"""The number of the advisory lock of who changes tables."""
SECRET_PARAMETERS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The parameters of libpq that no other user may see."""
# Before the first release the table had one column.
_STORED = text(
    f"SELECT version_num, to_jsonb(stored) ->> 'views' FROM {VERSION_SCHEMA}.{VERSION_TABLE} AS stored"  # noqa: S608  # constants
)
# A backup may have been restored on another server, which counts its transactions from the beginning. The row of a
# slice is written in the transaction of each of its receipts. With the number 0, every snapshot sees all stored loads.
_HAS_LATER_NUMBERS = text("""
    SELECT EXISTS (SELECT FROM platform.slices WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
""")
IDENTITY = SQL("""
(SELECT concat_ws('.', system_identifier, timeline_id, own.oid, CAST(to_regclass('platform.loads') AS oid))
 FROM pg_control_system(), pg_control_checkpoint(), pg_database AS own WHERE own.datname = current_database())
""")
"""An expression for the identity of a database: one that was restored, by whatever program, has another one.

So has a standby that was promoted. A copy of the server's files has the same one.
"""
_OPTIONS_OF_SERVER = ("host", "port", "sslmode", "sslrootcert")


class Database:
    """A PostgreSQL database with the platform's schemas, and a pool of connections to it."""

    def __init__(
        self,
        url: str,
        *,
        connections: int = 8,
        connect_seconds: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the pool; nothing connects yet.

        Args:
            url: A `postgresql://` URL, without a driver.
            connections: How many connections may be open at once.
            connect_seconds: How long to wait for a server that does not answer; by default as libpq does.
            settings: Settings of PostgreSQL that each connection begins with beside those of `sessions`, such as
                `statement_timeout`.

        Raises:
            InvalidSettingError: The URL is not one of PostgreSQL.
        """
        self.url = url
        address = driver_url(url, "psycopg")
        timeout = {} if connect_seconds is None else {"connect_timeout": connect_seconds}
        self.engine: Engine = create_engine(
            address,
            pool_size=connections,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={**session(address, settings), **timeout},
        )
        listen(self.engine, "first_connect", lambda driver, _: check_server(driver, url, settings))
        LockWaits(self.engine, url)

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction. It is committed when the block ends and rolled back when it raises.

        Raises:
            WarehouseUnavailableError: The server cannot be reached, or went away in the middle.
        """
        with self.connect() as connection, connection.begin():
            yield connection

    def execute(self, statement: Executable, values: Mapping[str, object] | None = None) -> Result[Any]:
        """Execute one statement in a transaction of its own, and return its rows.

        Raises:
            WarehouseUnavailableError: The server cannot be reached, or went away in the middle.
        """
        with self.begin() as connection:
            result = connection.execute(statement, values)
            return result.freeze()() if result.returns_rows else result

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Lend a connection without a transaction; the caller begins and commits.

        Raises:
            WarehouseUnavailableError: The server cannot be reached, or went away in the middle.
            WarehouseError: The server refuses: a right is missing, its disk is full, or it only reads.
        """
        try:
            connection = self.engine.connect()
        except (DBAPIError, psycopg.Error) as error:
            raise self._refusal(error) or WarehouseUnavailableError(self.where, _first_line(error)) from error
        try:
            with connection:
                yield connection
        except (DBAPIError, psycopg.Error) as error:
            if interruption := _interruption(error):
                raise interruption from None
            if refusal := self._refusal(error):
                raise refusal from error
            if not isinstance(_driver_error(error), psycopg.OperationalError):
                raise
            raise WarehouseUnavailableError(self.where, _first_line(error)) from error

    def _refusal(self, error: Exception) -> WarehouseError | None:
        return refusal_of(error, where=self.where, user=user_of(self.engine.url))

    @property
    def where(self) -> str:
        """The host and the name of the database, without user and password."""
        return place_of(self.engine.url)

    def url_of_user(self, user: str) -> str:
        """Return the URL with which psql connects as a user: without a password, and without the owner's options."""
        url = self.engine.url
        target = sqlalchemy.URL.create("postgresql", user, host=url.host, port=url.port, database=url.database)
        named = {name: url.query[name] for name in _OPTIONS_OF_SERVER if name in url.query}
        return _rendered(target.set(query=named))

    @property
    def uri(self) -> str:
        """The URI of the database, without a user: `postgres://host:port/database`.

        A server that is reached through a socket has no host in it.
        """
        url = self.engine.url
        hosts = url.host or url.query.get("host") or "localhost"
        host = hosts if isinstance(hosts, str) else hosts[0]
        return f"postgres://{'' if host.startswith('/') else f'{host}:{url.port or _PORT}'}/{url.database}"

    def migrate(self, partitions: int = FEW_PARTITIONS, report: Callable[[str], None] | None = None) -> None:
        """Bring the schemas to today's version; processes that start together wait for one another.

        A newer database whose tables this program may use stays as it is.

        Args:
            partitions: How many partitions the tables of an empty database get.
            report: Receives a line for each step; by default they are logged.

        Raises:
            WarehouseError: The database is newer than this program may use, or older than it upgrades.
            WarehouseUnavailableError: The server cannot be reached.
        """
        with self.begin() as connection:
            version = stored_version(connection)
        if version is None or version.lacks_migrations:
            # Here, because it imports every table, and most programs find nothing to do.
            upgrade = import_module("seller_platform.warehouse.migrations.upgrade").upgrade
            upgrade(self, partitions, *(() if report is None else (report,)))
        with self.begin() as connection:
            if connection.execute(_HAS_LATER_NUMBERS).scalar_one():
                lock(connection, MIGRATION_LOCK)  # so that receipts are numbered again once
                if connection.execute(_HAS_LATER_NUMBERS).scalar_one():
                    connection.execute(text("UPDATE platform.loads SET transaction_id = '0'"))
                    connection.execute(text("UPDATE platform.slices SET rows = rows"))  # a trigger sets their number

    def version(self) -> str | None:
        """Return the migration that the schemas are at; None where there are none yet."""
        with self.begin() as connection:
            version = stored_version(connection)
        return None if version is None else version.revision

    def close(self) -> None:
        """Close the pool."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class SchemaVersion:
    """The version of a database.

    Attributes:
        revision: The newest migration that it has.
        views: The migration whose functions and views it has.
    """

    revision: str
    views: str

    @property
    def is_usable(self) -> bool:
        """Whether this program may use the tables, once they have its migrations.

        A migration whose number has the same thousands leaves the tables as programs of the versions before use them.
        """
        return revisions()[0] <= self.revision and self.revision[0] <= revisions()[-1][0]

    @property
    def lacks_migrations(self) -> bool:
        """Whether migrations of this program are to be run.

        Raises:
            WarehouseError: This program may not use the tables.
        """
        self.raise_unless_usable()
        return min(self.revision, self.views) < revisions()[-1]

    def raise_unless_usable(self) -> None:
        """Raise an error if this program may not use the tables.

        Raises:
            WarehouseError: The tables are of a later major version, or older than this program upgrades.
        """
        if not self.is_usable:
            raise unknown_schema(self.revision, first=revisions()[0])


def driver_of(connection: Connection) -> psycopg.Connection[Any]:
    """Return psycopg's connection inside SQLAlchemy's, for COPY and for statements that psycopg composes."""
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def driver_url(url: str, driver: str) -> sqlalchemy.URL:
    """Return the URL with the driver named, so that no default decides.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL. Its text, which may hold a password, is not repeated.
    """
    return parsed_url(url).set(drivername=f"postgresql+{driver}")


def url_without_secrets(url: str) -> str:
    """Return a URL without its password and other secrets.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL.
    """
    parsed = driver_url(url, "psycopg").difference_update_query(SECRET_PARAMETERS)
    return _rendered(parsed._replace(drivername="postgresql", password=None))


def _rendered(url: sqlalchemy.URL) -> str:
    """Return a URL without a password as libpq reads it. SQLAlchemy writes a space as a plus sign."""
    texts = {name: given if isinstance(given, str) else ",".join(given) for name, given in url.query.items()}
    options = "&".join(f"{name}={quote(given, safe='')}" for name, given in texts.items())
    plain = url.set(query={}).render_as_string()
    return f"{plain}?{options}" if options else plain


def readable_version(database: Database) -> SchemaVersion | None:
    """Return the version of a database for a user who may only read; None where there are no tables yet.

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


def stored_version(connection: Connection) -> SchemaVersion | None:
    """Return the version of a database; None where there are no tables yet."""
    if not connection.execute(select(func.to_regclass(f"{VERSION_SCHEMA}.{VERSION_TABLE}"))).scalar_one():
        return None
    row = connection.execute(_STORED).one_or_none()
    return None if row is None else SchemaVersion(row[0], row[1] or "")


@cache
def revisions() -> Sequence[str]:
    """Return the numbers of this program's migrations, oldest first. Their files' names begin with them."""
    return sorted(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*_*.py"))


def _interruption(error: BaseException) -> BaseException | None:
    """Return what interrupted a statement, such as Dagster's end of a run, so that it cannot be rolled back."""
    cause = error.__context__
    while isinstance(cause, Exception):
        cause = cause.__context__
    return cause


def _driver_error(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def _first_line(error: BaseException) -> str:
    return str(_driver_error(error)).strip().partition("\n")[0]
