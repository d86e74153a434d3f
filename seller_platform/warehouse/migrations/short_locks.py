"""Statements that wait for a lock only for a moment, and are tried again.

Who waits for a lock of a table lets everyone wait that comes after: a reader of an hour and an ALTER TABLE behind it
would stop all others. So a transaction gives up after a tenth of a second, lets those pass, and begins again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from seller_platform.errors import WarehouseError

_LOCK_TIMEOUT = "SET LOCAL lock_timeout = '100ms'"
_PAUSES_SECONDS = (0.1, 0.2, 0.5, 1.0)
_BLOCKERS = """
SELECT string_agg(format('%s (%s, for %s s)', pid, coalesce(nullif(application_name, ''), usename, backend_type),
                         extract(epoch FROM now() - xact_start)::integer), ', ' ORDER BY xact_start)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start < now() - interval '1 s'
"""

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ShortLocks:
    """Runs transactions and statements on a connection in autocommit, each until it gets its locks.

    Attributes:
        patience_seconds: How long one of them is tried.
    """

    driver: psycopg.Connection[Any]
    patience_seconds: float = 600.0

    def transaction(self, work: Callable[[], _Result]) -> _Result:
        """Run a function in a transaction that waits a tenth of a second for each lock, and return its result.

        Raises:
            WarehouseError: Others have held a lock for all the time. Nothing of the transaction is stored.
        """

        def run() -> _Result:
            with self.driver.transaction():
                self.driver.execute(_LOCK_TIMEOUT)
                return work()

        return self._until_locked(run)

    def execute(self, *statements: sql.SQL | sql.Composed) -> None:
        """Execute statements in one such transaction."""

        def run() -> None:
            for statement in statements:
                self.driver.execute(statement)

        self.transaction(run)

    def run_alone(self, work: Callable[[], object]) -> None:
        """Run a function whose statements need no transaction and let readers and loaders pass, such as VACUUM.

        It may wait: until all transactions have ended that are older, as CREATE INDEX CONCURRENTLY does. A deadlock
        begins it again.
        """
        self._until_locked(work)

    def _until_locked(self, run: Callable[[], _Result]) -> _Result:
        deadline, pauses = time.monotonic() + self.patience_seconds, iter(_PAUSES_SECONDS)
        while True:
            try:
                return run()
            except (LockNotAvailable, DeadlockDetected) as error:
                if time.monotonic() > deadline:
                    blockers = (self.driver.execute(_BLOCKERS).fetchone() or (None,))[0]
                    raise WarehouseError(
                        f"a table stayed locked for {self.patience_seconds:g} s; transactions that are open by their "
                        f"process: {blockers or 'none now'}",
                        code="TableInUseError",
                        step="Run `seller-platform migrate` again when they have ended; it goes on where it was.",
                    ) from error
            time.sleep(next(pauses, _PAUSES_SECONDS[-1]))
