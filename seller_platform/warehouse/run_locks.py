"""Locks that live as long as the process that works on a run, on whatever machine: how another can tell it is alive."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text

from seller_platform.warehouse.database import Database

_HOLD = text("SELECT pg_advisory_lock(hashtextextended('run|' || :run_id, 0))")
_RELEASE = text("SELECT pg_advisory_unlock(hashtextextended('run|' || :run_id, 0))")
_TRY = text("SELECT pg_try_advisory_xact_lock(hashtextextended('run|' || :run_id, 0))")


@contextmanager
def hold_run(database: Database, run_id: str) -> Iterator[None]:
    """Hold the run's lock until the block ends, or this process does."""
    with database.connect() as connection:
        connection.execute(_HOLD, {"run_id": run_id})
        connection.commit()
        try:
            yield
        finally:
            connection.execute(_RELEASE, {"run_id": run_id})
            connection.commit()


def is_held(database: Database, run_id: str) -> bool:
    """Whether some process works on the run."""
    with database.begin() as connection:
        return not connection.execute(_TRY, {"run_id": run_id}).scalar_one()
