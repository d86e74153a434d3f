"""Locks that live as long as the process that holds them, on whatever machine: how others can tell it is alive."""

from collections.abc import Iterator
from contextlib import contextmanager

from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_lock
from seller_platform.warehouse.postgres.database import Database


@contextmanager
def hold_run(database: Database, run_id: str) -> Iterator[None]:
    """Hold the run's lock until the block ends, or this process does."""
    with _hold(database, f"run|{run_id}"):
        yield


@contextmanager
def hold_queue(database: Database, queue: str) -> Iterator[None]:
    """Be the only process that sets up the queue, until the block ends or this process does."""
    with _hold(database, f"queue|{queue}"):
        yield


def is_held(database: Database, run_id: str) -> bool:
    """Whether some process works on the run."""
    with database.begin() as connection:
        return not try_lock(connection, f"run|{run_id}")


@contextmanager
def _hold(database: Database, name: str) -> Iterator[None]:
    with database.connect() as connection, releasing(connection):
        hold(connection, name)
        connection.commit()
        yield
