"""A PostgreSQL database: its connections, transactions, migrations and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import psycopg
import sqlalchemy
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, Engine, column, create_engine, func, select, table, text
from sqlalchemy.exc import DBAPIError, OperationalError

from seller_platform.errors import WarehouseError, WarehouseUnavailableError, unknown_schema
from seller_platform.warehouse.postgres.advisory_locks import lock_number
from seller_platform.warehouse.postgres.moves import has_moved, renumber_after_move
from seller_platform.warehouse.postgres.refusals import refusal_of
from seller_platform.warehouse.postgres.urls import parsed_url, place_of, user_of

VERSION_TABLE = "schema_version"
VERSION_SCHEMA = "platform"
DAGSTER_SCHEMA = "dagster"
"""The schema of Dagster's tables. Its storage names it for each connection, so that no search path decides."""
IS_NEW = "is_new"
"""The attribute of alembic's configuration that says whether an upgrade begins with an empty database."""
PARTITIONS = "partitions"
"""The attribute with the number of partitions of an empty database's tables, and the schema of these partitions."""
FEW_PARTITIONS = 4
"""The number of a database that is created without one."""
_MIGRATIONS = Path(__file__).parents[1] / "migrations"
_PORT = 5432
_MIGRATION_LOCK = 0x5E11E4
SECRET_PARAMETERS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The parameters of libpq that no other user may see."""
_LOST_CLIENTS = "-c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=3"
"""The locks of a machine that is gone end after a minute. By default PostgreSQL notices it after two hours."""
_OPTIONS_OF_SERVER = ("host", "port", "sslmode", "sslrootcert")


class Database:
    """A PostgreSQL database with the platform's schemas, and a pool of connections to it."""

    def __init__(self, url: str, *, connections: int = 8, connect_seconds: int | None = None) -> None:
        """Prepare the pool; nothing connects yet.

        Args:
            url: A `postgresql://` URL, without a driver.
            connections: How many connections may be open at once.
            connect_seconds: How long to wait for a server that does not answer; by default as libpq does.

        Raises:
            InvalidSettingError: The URL is not one of PostgreSQL.
        """
        self.url = url
        address = driver_url(url, "psycopg")
        given = address.query.get("options", ())
        options = " ".join([_LOST_CLIENTS, *([given] if isinstance(given, str) else given)])
        timeout = {} if connect_seconds is None else {"connect_timeout": connect_seconds}
        self.engine: Engine = create_engine(
            address,
            pool_size=connections,
            max_overflow=0,
            pool_pre_ping=True,
            connect_args={"options": options, **timeout},
        )

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction. It is committed when the block ends and rolled back when it raises.

        Raises:
            WarehouseUnavailableError: The server cannot be reached, or went away in the middle.
        """
        with self.connect() as connection, connection.begin():
            yield connection

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

    def migrate(self, partitions: int = FEW_PARTITIONS) -> None:
        """Bring the schemas to today's version; processes that start together wait for one another.

        Args:
            partitions: How many partitions the tables of an empty database get.

        Raises:
            WarehouseError: The database is newer than this program, or older than its first release.
            WarehouseUnavailableError: The server cannot be reached.
        """
        if self.version() != revisions()[-1]:
            self._upgrade(partitions)
        with self.begin() as connection:
            if has_moved(connection):
                lock_number(connection, _MIGRATION_LOCK)
                renumber_after_move(connection)

    def version(self) -> str | None:
        """Return the migration that the schemas are at; None where there are none yet."""
        with self.begin() as connection:
            return _version(connection)

    def close(self) -> None:
        """Close the pool."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _upgrade(self, partitions: int) -> None:
        # Here, because alembic costs every command a fifth of a second.
        from alembic import command
        from alembic.config import Config

        with self.begin() as connection:
            lock_number(connection, _MIGRATION_LOCK)
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {VERSION_SCHEMA}"))
            version = _version(connection)
            if version is not None and version not in revisions():
                raise unknown_schema(version, first=revisions()[0])
            if version != revisions()[-1]:
                config = Config()
                config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
                config.attributes["connection"] = connection
                config.attributes[IS_NEW] = version is None
                config.attributes[PARTITIONS] = partitions
                (command.stamp if version is None else command.upgrade)(config, "head")


def driver_of(connection: Connection) -> psycopg.Connection[Any]:
    """Return psycopg's connection inside SQLAlchemy's, for COPY and for statements that psycopg composes."""
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def is_declared(name: str | None, kind: str, _: object) -> bool:
    """Whether the platform declares a thing in the database. Dagster's schema is its own; partitions follow tables."""
    return kind != "schema" or name not in (DAGSTER_SCHEMA, PARTITIONS)


def driver_url(url: str, driver: str) -> sqlalchemy.URL:
    """Return the URL with the driver named, so that no default decides.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL. Its text, which may hold a password, is not repeated.
    """
    return parsed_url(url).set(drivername=f"postgresql+{driver}")


def parameters(url: str) -> dict[str, str]:
    """Return the parameters of a URL by the names of libpq, as psycopg gets them from SQLAlchemy.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL.
    """
    parsed = driver_url(url, "psycopg")
    _, given = parsed.get_dialect()().create_connect_args(parsed)
    return {name: str(value) for name, value in given.items()}


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


def conninfo(url: str) -> str:
    """Return the connection string of a URL, for psycopg without SQLAlchemy.

    libpq cannot read every URL that SQLAlchemy writes.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL.
    """
    return make_conninfo("", **parameters(url))


def readable_version(database: Database) -> str | None:
    """Return the migration that the schemas are at, for a user who may only read; None where there are none yet.

    The readers of the database may not read the version: their grants follow each migration, so it is the newest.
    """
    statement = f"SELECT has_table_privilege(to_regclass('{VERSION_SCHEMA}.{VERSION_TABLE}'), 'SELECT')"
    try:
        with database.begin() as connection:
            may_read = connection.execute(text(statement)).scalar_one()
            return revisions()[-1] if may_read is False else _version(connection)
    except WarehouseUnavailableError as error:
        # Without a database there are no tables; a role that does not exist is another error.
        cause = str(error.__cause__.orig) if isinstance(error.__cause__, OperationalError) else ""
        if 'database "' in cause and "does not exist" in cause:
            return None
        raise


@cache
def revisions() -> tuple[str, ...]:
    """Return the numbers of this program's migrations, oldest first. Their files begin with them."""
    return tuple(sorted(path.name.partition("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*_*.py")))


def _driver_error(error: BaseException) -> BaseException | None:
    return error.orig if isinstance(error, DBAPIError) else error


def _first_line(error: BaseException) -> str:
    return str(_driver_error(error)).strip().partition("\n")[0]


def _version(connection: Connection) -> str | None:
    versions = table(VERSION_TABLE, column("version_num"), schema=VERSION_SCHEMA)
    is_there = connection.execute(select(func.to_regclass(f"{VERSION_SCHEMA}.{VERSION_TABLE}"))).scalar_one()
    return connection.execute(select(versions.c.version_num)).scalar_one_or_none() if is_there else None
