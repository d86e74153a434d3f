"""Advisory locks of PostgreSQL, held by a transaction or by a connection.

A lock has a number, or a name of which PostgreSQL computes the number. Programs of several versions may run side by
side: names and numbers never change. The service executes the statements itself, on asynchronous connections.

Every login may take such locks, unless a superuser takes the right from all. So the session of a reader that has one
is ended as soon as a lock is not free.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import LiteralString

from sqlalchemy import Connection

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.programs import READER

LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"
"""Waits for the lock of a name and holds it until the transaction ends."""

TRY_LOCK: LiteralString = "SELECT pg_try_advisory_xact_lock(hashtextextended(%(name)s, 0))"
"""Returns whether the lock of a name was free; if so, holds it until the transaction ends."""

_OF_TRANSACTION = ("pg_advisory_xact_lock", "pg_advisory_xact_lock_shared")
_PAUSE_SECONDS = 0.05
_RELEASE = "SELECT pg_advisory_unlock_all()"
# One that the owner may not end was made by an administrator, who has not granted it to the owner.
_END_READERS = """
SELECT pg_terminate_backend(pid, 1000)
FROM (SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory') AS holding JOIN pg_stat_activity USING (pid)
WHERE datname = current_database() AND shobj_description(usesysid, 'pg_authid') = %(reader)s
  AND pg_has_role(usesysid, 'USAGE')
"""


def lock(connection: Connection, name: str | int, *, shared: bool = False) -> None:
    """Wait for the lock of a name or number, which may be shared, and hold it until the transaction ends."""
    _wait(connection, _OF_TRANSACTION[shared], name)


def try_lock(connection: Connection, name: str, *, shared: bool = False, seconds: float = 0) -> bool:
    """Return whether the lock of a name is free in time. If so, hold it, maybe shared, until the transaction ends."""
    return _try(connection, _OF_TRANSACTION[shared], name, seconds)


@contextmanager
def releasing(connection: Connection) -> Iterator[None]:
    """Release what `hold` and `try_hold` have locked when the block ends, after a rollback.

    A lost connection releases its locks too: a process that is killed leaves none behind.
    """
    try:
        yield
    finally:
        if not connection.invalidated:
            connection.rollback()
            connection.exec_driver_sql(_RELEASE)
            connection.commit()


@contextmanager
def holding(database: Database, name: str) -> Iterator[Connection]:
    """Wait for the lock of a name, and lend a connection that holds it until the block ends.

    The connection holds it, not a transaction: that sees what was committed before it began, so it has to begin after
    the lock was taken.
    """
    with database.connect() as connection, releasing(connection):
        hold(connection, name)
        connection.commit()
        yield connection


def hold(connection: Connection, name: str) -> None:
    """Wait for the lock of a name and hold it until it is released. It outlasts transactions."""
    _wait(connection, "pg_advisory_lock", name)


def try_hold(connection: Connection, name: str | int, *, seconds: float = 0) -> bool:
    """Return whether the lock of a name or number becomes free in time. If so, hold it until it is released."""
    return _try(connection, "pg_advisory_lock", name, seconds)


def _wait(connection: Connection, function: str, name: str | int) -> None:
    if not _try(connection, function, name, 0):
        _call(connection, function, name)


def _try(connection: Connection, function: str, name: str | int, seconds: float) -> bool:
    """Return whether a lock becomes free in time, once no reader has one."""
    attempt, deadline = function.replace("pg_", "pg_try_"), time.monotonic() + seconds
    while not _call(connection, attempt, name):
        if connection.exec_driver_sql(_END_READERS, {"reader": READER}).all() and _call(connection, attempt, name):
            break
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def _call(connection: Connection, function: str, name: str | int) -> bool:
    number = "%(name)s" if isinstance(name, int) else "hashtextextended(%(name)s, 0)"
    return bool(connection.exec_driver_sql(f"SELECT {function}({number})", {"name": name}).scalar_one())
