"""Locks that a process holds while it runs. Other machines see by them whether it does."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_lock
from seller_platform.warehouse.postgres.database import Database


def hold_run(database: Database, run_id: str) -> AbstractContextManager[None]:
    """Hold the lock of a run until the block or this process ends."""
    return _hold(database, f"run|{run_id}")


def hold_queue(database: Database, queue: str) -> AbstractContextManager[None]:
    """Let only this process set up the queue, until the block or the process ends."""
    return _hold(database, f"queue|{queue}")


def is_held(database: Database, run_id: str) -> bool:
    """Whether any process works on the run."""
    with database.begin() as connection:
        return not try_lock(connection, f"run|{run_id}")


@contextmanager
def _hold(database: Database, name: str) -> Iterator[None]:
    with database.connect() as connection, releasing(connection):
        hold(connection, name)
        connection.commit()
        yield
