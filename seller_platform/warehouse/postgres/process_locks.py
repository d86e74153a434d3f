"""Locks that live as long as the process that holds them, on whatever machine: how others can tell it is alive."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from seller_platform.warehouse.postgres.database import Database

_HOLD = text("SELECT pg_advisory_lock(hashtextextended(:name, 0))")
_RELEASE = text("SELECT pg_advisory_unlock(hashtextextended(:name, 0))")
_TRY = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 0))")


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
        return not connection.execute(_TRY, {"name": f"run|{run_id}"}).scalar_one()


@contextmanager
def _hold(database: Database, name: str) -> Iterator[None]:
    with database.connect() as connection:
        connection.execute(_HOLD, {"name": name})
        connection.commit()
        try:
            yield
        finally:
            connection.execute(_RELEASE, {"name": name})
            connection.commit()
