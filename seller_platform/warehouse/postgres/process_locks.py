"""Locks that a process holds while it runs. Other machines see by them whether it does."""

from collections.abc import Iterator
from contextlib import contextmanager

from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_lock
from seller_platform.warehouse.postgres.database import Database


@contextmanager
def hold_run(database: Database, run_id: str) -> Iterator[None]:
    """Hold the lock of a run until the block or this process ends."""
    with _hold(database, f"run|{run_id}"):
        yield


@contextmanager
def hold_queue(database: Database, queue: str) -> Iterator[None]:
    """Let only this process set up the queue, until the block or the process ends."""
    with _hold(database, f"queue|{queue}"):
        yield


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
