"""The service's pool of connections to PostgreSQL."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import LiteralString, TypeVar

import psycopg
from psycopg.abc import Params
from psycopg.rows import TupleRow, class_row
from psycopg_pool import AsyncConnectionPool

from seller_platform.errors import WarehouseUnavailableError
from seller_platform.warehouse.postgres.database import driver_url
from seller_platform.warehouse.postgres.sessions import conninfo

Connection = psycopg.AsyncConnection[TupleRow]
Record = TypeVar("Record")


class Store:
    """Lends connections in autocommit mode.

    Each statement is a transaction of its own, unless the borrower opens one.
    """

    def __init__(self, database_url: str, *, connections: int = 8, wait_seconds: float = 3.0) -> None:
        """Prepare the pool; `open` connects.

        Args:
            wait_seconds: How long to wait for a connection before PostgreSQL counts as unavailable.

        Raises:
            InvalidSettingError: The URL is not one of PostgreSQL.
        """
        url = driver_url(database_url, "psycopg")
        self.where = f"{url.host or url.query.get('host', 'the local socket')}/{url.database}"
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            conninfo(database_url, {"statement_timeout": "120000"}),
            kwargs={"autocommit": True, "connect_timeout": 5, "application_name": "seller-platform service"},
            min_size=1,
            max_size=connections,
            timeout=wait_seconds,
            reconnect_timeout=wait_seconds,
            check=_reset,
            open=False,
        )

    async def open(self) -> None:
        """Start connecting; PostgreSQL may start later."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection.

        Raises:
            WarehouseUnavailableError: No connection was free in time, or it was lost while it was used.
        """
        try:
            async with self._pool.connection() as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise WarehouseUnavailableError(self.where, str(error).partition("\n")[0]) from error


async def _reset(connection: Connection) -> None:
    """Reset the session to its first settings; fail if the connection is lost.

    The pool calls this before each loan, so that what one request sets, such as its time zone, reaches no other.
    """
    await connection.execute("RESET ALL")


async def fetch_records(
    connection: Connection, kind: type[Record], statement: LiteralString, values: Params
) -> Sequence[Record]:
    """Return the rows of a statement as instances of a class, whose fields are the columns."""
    async with connection.cursor(row_factory=class_row(kind)) as cursor:
        return await (await cursor.execute(statement, values)).fetchall()


async def fetch_record(
    connection: Connection, kind: type[Record], statement: LiteralString, values: Params
) -> Record | None:
    """Return the first row of a statement as an instance of a class; None without any."""
    return next(iter(await fetch_records(connection, kind, statement, values)), None)
