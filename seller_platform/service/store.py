"""The service's pool of connections to PostgreSQL."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool

from seller_platform.errors import WarehouseUnavailableError
from seller_platform.warehouse.database import driver_url

Connection = psycopg.AsyncConnection[TupleRow]

_WAIT_SECONDS = 5.0
_STATEMENT_MILLISECONDS = 120_000


class Store:
    """Lends connections; each statement is a transaction of its own unless the borrower opens one."""

    def __init__(self, database_url: str, *, connections: int = 8) -> None:
        """Prepare the pool; nothing connects before `open`.

        Raises:
            InvalidSettingError: The URL is not one of PostgreSQL.
        """
        url = driver_url(database_url, "psycopg").set(drivername="postgresql")
        self.where = f"{url.host or url.query.get('host', 'the local socket')}/{url.database}"
        options: dict[str, Any] = {
            "autocommit": True,
            "connect_timeout": 5,
            "application_name": "seller-platform service",
            "options": f"-c statement_timeout={_STATEMENT_MILLISECONDS} -c search_path=",
        }
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url.render_as_string(hide_password=False),
            kwargs=options,
            min_size=1,
            max_size=connections,
            timeout=_WAIT_SECONDS,
            reconnect_timeout=2,
            check=AsyncConnectionPool.check_connection,
            open=False,
        )

    async def open(self) -> None:
        """Start connecting; it does not matter whether PostgreSQL is there yet."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection.

        Raises:
            WarehouseUnavailableError: None could be had in time, or it was lost in the middle.
        """
        try:
            async with self._pool.connection() as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise WarehouseUnavailableError(self.where, str(error).partition("\n")[0]) from error
