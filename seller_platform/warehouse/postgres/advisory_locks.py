"""Advisory locks of PostgreSQL, held by a transaction or by a connection.

A lock has a number, or a name of which PostgreSQL computes the number. Programs of several versions may run side by
side: names and numbers never change. The service executes the statements itself, on asynchronous connections.

Every login may take such locks, unless a superuser takes the right from all. So the session of a reader that has one
is ended as soon as a lock is not free.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import LiteralString

from sqlalchemy import Connection

from seller_platform.warehouse.postgres.programs import READER

LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"
"""Waits for the lock of a name and holds it until the transaction ends."""

TRY_LOCK: LiteralString = "SELECT pg_try_advisory_xact_lock(hashtextextended(%(name)s, 0))"
"""Returns whether the lock of a name was free; if so, holds it until the transaction ends."""

_PAUSE_SECONDS = 0.05
_RELEASE = "SELECT pg_advisory_unlock_all()"
# One that the owner may not end was made by an administrator, who has not granted it to the owner.
_END_READERS = """
SELECT pg_terminate_backend(pid, 1000)
FROM (SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory') AS holding JOIN pg_stat_activity USING (pid)
WHERE datname = current_database() AND shobj_description(usesysid, 'pg_authid') = %(reader)s
  AND pg_has_role(usesysid, 'USAGE')
"""


def lock(connection: Connection, name: str | int) -> None:
    """Wait for the lock of a name or number and hold it until the transaction ends."""
    _wait(connection, "pg_advisory_xact_lock", name)


def share(connection: Connection, name: str | int) -> None:
    """Share the lock of a name or number until the transaction ends. Only `lock` waits for that."""
    _wait(connection, "pg_advisory_xact_lock_shared", name)


def try_lock(connection: Connection, name: str) -> bool:
    """Return whether the lock of a name was free. If so, hold it until the transaction ends."""
    return _try(connection, "pg_advisory_xact_lock", name)


def lock_within(connection: Connection, name: str, seconds: float) -> bool:
    """Return whether the lock of a name became free within some seconds. If so, hold it until the transaction ends."""
    return _becomes_free(try_lock, connection, name, seconds)


def hold_within(connection: Connection, name: str, seconds: float) -> bool:
    """Return whether the lock of a name became free within some seconds. If so, hold it until it is released."""
    is_held = _becomes_free(try_hold, connection, name, seconds)
    connection.commit()
    return is_held


def _becomes_free(
    try_once: Callable[[Connection, str], bool], connection: Connection, name: str, seconds: float
) -> bool:
    deadline = time.monotonic() + seconds
    while not try_once(connection, name):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
    return True


def try_share(connection: Connection, name: str) -> bool:
    """Return whether the lock of a name was free or shared. If so, share it until the transaction ends."""
    return _try(connection, "pg_advisory_xact_lock_shared", name)


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


def hold(connection: Connection, name: str) -> None:
    """Wait for the lock of a name and hold it until it is released. It outlasts transactions."""
    _wait(connection, "pg_advisory_lock", name)


def try_hold(connection: Connection, name: str | int) -> bool:
    """Return whether the lock of a name or number was free. If so, hold it until it is released."""
    return _try(connection, "pg_advisory_lock", name)


def _wait(connection: Connection, function: str, name: str | int) -> None:
    if not _try(connection, function, name):
        _call(connection, function, name)


def _try(connection: Connection, function: str, name: str | int) -> bool:
    """Return whether a lock was free, once no reader has one."""
    attempt = function.replace("pg_", "pg_try_")
    is_free = _call(connection, attempt, name)
    if not is_free and connection.exec_driver_sql(_END_READERS, {"reader": READER}).all():
        return _call(connection, attempt, name)
    return is_free


def _call(connection: Connection, function: str, name: str | int) -> bool:
    number = "%(name)s" if isinstance(name, int) else "hashtextextended(%(name)s, 0)"
    return bool(connection.exec_driver_sql(f"SELECT {function}({number})", {"name": name}).scalar_one())
