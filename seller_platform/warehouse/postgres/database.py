"""A PostgreSQL database: its connections, transactions and errors."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, cast
from urllib.parse import quote

import psycopg
import sqlalchemy
from psycopg.sql import SQL, Composed, Identifier
from sqlalchemy import Connection, Engine, Executable, Result, create_engine
from sqlalchemy.event import listen
from sqlalchemy.exc import DBAPIError

from seller_platform.errors import WarehouseError, WarehouseUnavailableError
from seller_platform.warehouse.postgres.refusals import first_line, refusal_of
from seller_platform.warehouse.postgres.sessions import check_server, session
from seller_platform.warehouse.postgres.urls import parsed_url, place_of

DAGSTER_SCHEMA = "dagster"
"""The schema of Dagster's tables. Its storage names it for each connection, so that no search path decides."""
PARTITIONS = "partitions"
"""The schema of the partitions of tables."""
_PORT = 5432
SECRET_PARAMETERS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
"""The parameters of libpq that no other user may see."""
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
        arguments = {**session(address, settings), **timeout}
        pool = {"pool_size": connections, "max_overflow": 0, "pool_pre_ping": True}
        self.engine: Engine = create_engine(address, connect_args=arguments, **pool)
        listen(self.engine, "first_connect", lambda driver, _: check_server(driver, url, settings))

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction. It is committed when the block ends and rolled back when it raises.

        Its errors are those of `connect`.
        """
        with self.connect() as connection, connection.begin():
            yield connection

    def execute(self, statement: Executable, values: Mapping[str, object] | None = None) -> Result[Any]:
        """Execute one statement in a transaction of its own, and return its rows."""
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
            raise self._refusal(error) or WarehouseUnavailableError(self.where, first_line(error)) from error
        try:
            with connection:
                yield connection
        except (DBAPIError, psycopg.Error) as error:
            interruption = error.__context__
            while isinstance(interruption, Exception):
                interruption = interruption.__context__
            if interruption is not None:  # such as Dagster's end of a run, so that the statement cannot be rolled back
                raise interruption from None
            if refusal := self._refusal(error):
                raise refusal from error
            if not isinstance(getattr(error, "orig", error), psycopg.OperationalError):
                raise
            raise WarehouseUnavailableError(self.where, first_line(error)) from error

    def _refusal(self, error: Exception) -> WarehouseError | None:
        return refusal_of(error, where=self.where)

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

    def close(self) -> None:
        """Close the pool."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def driver_of(connection: Connection) -> psycopg.Connection[Any]:
    """Return psycopg's connection inside SQLAlchemy's, for COPY and for statements that psycopg composes."""
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)


def identifiers(names: Iterable[str], table: str | None = None) -> Composed:
    """Return names as SQL lists them, each with the name of its table before it, if that is given."""
    return SQL(", ").join(Identifier(*([table] if table else []), name) for name in names)


def driver_url(url: str, driver: str) -> sqlalchemy.URL:
    """Return the URL with the driver named, so that no default decides.

    Raises:
        InvalidSettingError: The URL is not one of PostgreSQL. Its text, which may hold a password, is not repeated.
    """
    return parsed_url(url).set(drivername=f"postgresql+{driver}")


def url_without_secrets(url: str) -> str:
    """Return a URL without its password and other secrets."""
    parsed = driver_url(url, "psycopg").difference_update_query(SECRET_PARAMETERS)
    return _rendered(parsed._replace(drivername="postgresql", password=None))


def _rendered(url: sqlalchemy.URL) -> str:
    """Return a URL without a password as libpq reads it. SQLAlchemy writes a space as a plus sign."""
    texts = {name: given if isinstance(given, str) else ",".join(given) for name, given in url.query.items()}
    options = "&".join(f"{name}={quote(given, safe='')}" for name, given in texts.items())
    plain = url.set(query={}).render_as_string()
    return f"{plain}?{options}" if options else plain
