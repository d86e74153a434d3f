"""Logs which connections of this process wait for a lock for long, and who holds it."""

import logging
import threading
import time
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import psycopg
from sqlalchemy import Engine
from sqlalchemy.event import listen

from seller_platform.warehouse.postgres.sessions import conninfo

_PATIENCE_SECONDS = 30.0
# A role that may not see the sessions of others sees their names all the same, and no times.
_WAITS = """
SELECT waiting.pid, waiting.waitstart, CASE locktype WHEN 'relation' THEN format('table %%s', relation::regclass)
           WHEN 'advisory' THEN 'an advisory lock' ELSE 'a row' END,
       holder.pid, coalesce(nullif(holder.application_name, ''), 'a program without a name'), holder.usename,
       coalesce(holder.xact_start, holder.backend_start)
FROM (SELECT DISTINCT ON (pid) * FROM pg_locks
      WHERE pid = ANY(%s) AND NOT granted AND waitstart < clock_timestamp() - %s * interval '1 s') AS waiting
CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocking (pid)
JOIN pg_stat_activity AS holder ON holder.pid = blocking.pid
ORDER BY waiting.pid, holder.xact_start NULLS LAST
"""
_LOG = logging.getLogger(__name__)


class LockWaits:
    """Looks every few seconds whether a connection that is in use waits for a lock, and logs each wait once."""

    def __init__(self, engine: Engine, url: str, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        """Watch the connections of an engine.

        Args:
            url: The database, for a connection of its own.
            patience_seconds: How long a lock is awaited before it is logged.
        """
        self._url, self._patience_seconds = url, patience_seconds
        self._lock = threading.Lock()
        self._in_use: dict[object, tuple[int, float]] = {}
        self._logged: set[tuple[int, datetime]] = set()
        self._thread: threading.Thread | None = None
        listen(engine, "checkout", self._begin)
        listen(engine, "checkin", self._end)

    def _begin(self, driver: Any, record: object, _: object) -> None:
        with self._lock:
            self._in_use[record] = (driver.info.backend_pid, time.monotonic())
            if self._thread is None or not self._thread.is_alive():  # a process that was forked has no thread
                self._thread = threading.Thread(target=self._watch, name="lock waits", daemon=True)
                self._thread.start()

    def _end(self, _: object, record: object) -> None:
        with self._lock:
            self._in_use.pop(record, None)

    def _watch(self) -> None:
        while True:
            time.sleep(self._patience_seconds / 6)
            earliest = time.monotonic() - self._patience_seconds
            with self._lock:
                if not self._in_use:
                    self._thread = None
                    return
                processes = [process for process, since in self._in_use.values() if since < earliest]
            if processes:
                with suppress(psycopg.OperationalError):
                    self._log(processes)

    def _log(self, processes: list[int]) -> None:
        with closing(psycopg.connect(conninfo(self._url), autocommit=True)) as connection:
            waits = connection.execute(_WAITS, [processes, self._patience_seconds]).fetchall()
        for process, since, what, holder, program, user, held_since in waits:
            if (process, since) in self._logged:
                continue
            self._logged.add((process, since))
            _LOG.warning(
                "waiting for the lock of %s since %s; it is held by %s (user %s, process %d of PostgreSQL%s). If that "
                "does not end by itself, end it there, or with SELECT pg_terminate_backend(%d)",
                what,
                _moment(since),
                program,
                user,
                holder,
                f", since {_moment(held_since)}" if held_since is not None else "",
                holder,
            )


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%S} UTC"
