"""Locks that a process holds while it runs. Other machines see by them whether it does."""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.errors import LockNotAvailable
from sqlalchemy.exc import OperationalError

from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_lock
from seller_platform.warehouse.postgres.database import Database

_LOSS_SECONDS = 3
"""How long to wait for a lock of a run: PostgreSQL needs a moment to notice that its process was killed."""


@contextmanager
def hold_run(database: Database, run_id: str) -> Iterator[bool]:
    """Hold the lock of a run until the block or this process ends.

    Yields:
        Whether it is held; not if another process holds it for longer than 3 seconds.
    """
    with database.connect() as connection, releasing(connection):
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOSS_SECONDS}s'")
        try:
            hold(connection, _name(run_id))
        except OperationalError as error:
            if not isinstance(error.orig, LockNotAvailable):
                raise
            is_free = False
        else:
            is_free = True
            connection.commit()
        yield is_free


@contextmanager
def hold_queue(database: Database, queue: str) -> Iterator[None]:
    """Let only this process set up the queue, until the block or the process ends."""
    with database.connect() as connection, releasing(connection):
        hold(connection, f"queue|{queue}")
        connection.commit()
        yield


def is_held(database: Database, run_id: str) -> bool:
    """Whether any process works on the run."""
    with database.begin() as connection:
        return not try_lock(connection, _name(run_id))


def _name(run_id: str) -> str:
    return f"run|{run_id}"
