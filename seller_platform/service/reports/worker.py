"""Runs the worker that writes the open reports, a few at a time.

A report is written again when that fails, and when its worker dies. A worker also deletes expired rows of the service.
"""

import asyncio
import logging.config
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString

import psycopg
from psycopg_pool import PoolTimeout

from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.logs import LogFormat, log_configuration, log_context
from seller_platform.service.errors import ApiError
from seller_platform.service.http.idempotency import KEPT_HOURS
from seller_platform.service.limits import Limits
from seller_platform.service.pool import Connection, Store
from seller_platform.service.reports.jobs import (
    KEPT_LONGER,
    ReportRequestJob,
    count_attempts,
    fail_report,
    reserve_report,
)
from seller_platform.service.reports.writing import write_report
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK

LEVELS = {"seller_platform.service": "INFO", "uvicorn": "WARNING", "psycopg.pool": "ERROR"}
_LOG = logging.getLogger("seller_platform.service.reports.worker")
_PASSING = (WarehouseUnavailableError, psycopg.Error, PoolTimeout, OSError)
_TIDY_LOCK = {"name": "expired rows of the service"}
_DELETIONS: Mapping[str, LiteralString] = {
    "access tokens": "DELETE FROM service.access_tokens WHERE expires_at <= now() - %(longer)s",
    "refresh tokens": "DELETE FROM service.refresh_tokens WHERE expires_at <= now() - %(longer)s",
    # Within the minute after its use, a refresh token of agents may be used again.
    "keys of successors": """
            UPDATE service.refresh_tokens SET successor_key = NULL
            WHERE successor_key IS NOT NULL AND used_at <= now() - interval '1 minute'
        """,
    # Its code, used or not, is deleted with it.
    "consents": """
            DELETE FROM service.authorizations AS consent
            WHERE consent.revoked_at <= now() - %(longer)s
               OR NOT EXISTS (SELECT FROM service.access_tokens WHERE family = consent.family)
              AND NOT EXISTS (SELECT FROM service.refresh_tokens WHERE family = consent.family)
              AND NOT EXISTS (
                    SELECT FROM service.authorization_codes
                    WHERE family = consent.family AND expires_at > now() - %(longer)s
                  )
        """,
    # A document is read again when it is needed.
    "clients with documents": """
            DELETE FROM service.applications AS client
            WHERE client.origin = 'document' AND client.registered_at <= now() - interval '1 day' - %(longer)s
              AND NOT EXISTS (SELECT FROM service.authorizations WHERE client_id = client.client_id)
        """,
    "sessions": """
            DELETE FROM service.sessions
            WHERE least(expires_at, last_used_at + make_interval(secs => idle_seconds)) <= now() - %(longer)s
        """,
    "login attempts": "DELETE FROM service.login_attempts WHERE expires_at <= now() - %(longer)s",
    "idempotency keys": """
            DELETE FROM service.idempotency_keys WHERE stored_at <= now() - %(keys_kept)s - %(longer)s
        """,
    "reset links": "DELETE FROM service.reset_links WHERE expires_at <= now() - %(longer)s",
    # The table itself keeps events for 400 days.
    "security events": "DELETE FROM service.security_events WHERE at <= now() - interval '400 days' - %(longer)s",
    "reports": "DELETE FROM service.report_jobs WHERE requested_at <= now() - %(report_kept)s - %(longer)s",
}


@dataclass(frozen=True)
class Pace:
    """The numbers and intervals of a worker.

    Attributes:
        reports: How many reports it writes at a time.
        attempts: How often writing a report may fail, or end its worker, before the report is marked as failed.
        poll_seconds: The interval at which it looks for reports.
        grace_seconds: How long it may finish its reports when it is stopped; then others write them.
        tidy_seconds: The interval at which it deletes expired rows.
        again_seconds: How long it waits when PostgreSQL is unavailable, or when a report failed.
    """

    reports: int = 2
    attempts: int = 5
    poll_seconds: float = 1
    grace_seconds: float = 1
    tidy_seconds: float = 600
    again_seconds: int = 3


def start_worker(database_url: str, pace: Pace, limits: Limits) -> Callable[[], None]:
    """Start a worker in a thread with its own event loop, which does not delay requests, and return what stops it.

    PostgreSQL may start later. When it is stopped, reports under way end within the grace period, or later in another
    worker.
    """
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    working = work(database_url, stop, pace, limits)
    thread = threading.Thread(target=loop.run_until_complete, args=(working,), name="report worker", daemon=True)
    thread.start()

    def end() -> None:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()

    return end


def run_worker(database_url: str, limits: Limits, log_format: LogFormat) -> None:
    """Work until SIGINT or SIGTERM, with a log on standard error."""
    logging.config.dictConfig(log_configuration(log_format, LEVELS))

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        _LOG.info("writing reports")
        await work(database_url, stop, Pace(), limits)

    asyncio.run(run())


async def work(database_url: str, stop: asyncio.Event, pace: Pace, limits: Limits) -> None:
    """Work until `stop` is set; without PostgreSQL, try again every few seconds."""
    while not stop.is_set():
        try:
            await _work_while_connected(database_url, stop, pace, limits)
        except _PASSING as error:
            _LOG.warning("the report worker pauses: %s", str(error).partition("\n")[0])
        except Exception:
            _LOG.exception("the report worker failed, and begins anew")
        if not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pace.again_seconds)


async def _work_while_connected(database_url: str, stop: asyncio.Event, pace: Pace, limits: Limits) -> None:
    store = Store(database_url, connections=2 * pace.reports + 1)  # of a report: its rows, its progress
    await store.open()
    writers = [asyncio.create_task(_write_reports(store, stop, pace, limits)) for _ in range(pace.reports)]
    others = [asyncio.create_task(each) for each in (_tidy_up(store, pace, limits), stop.wait())]
    await asyncio.wait((*writers, *others), return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set():
        await asyncio.wait(writers, timeout=pace.grace_seconds)
    tasks = (*writers, *others)
    # Before Python 3.12, `wait_for` loses a cancellation that arrives together with what it waits for, as in the pool.
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=1.0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _write_reports(store: Store, stop: asyncio.Event, pace: Pace, limits: Limits) -> None:
    """Write one report after another, until the worker is stopped."""
    while not stop.is_set():
        async with store.connection() as connection, connection.transaction():
            job = await reserve_report(connection)
            if job is not None:
                with log_context(report_id=job.id):
                    await _write(store, connection, job, pace, limits)
        if job is None:
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), pace.poll_seconds)


async def _write(store: Store, connection: Connection, job: ReportRequestJob, pace: Pace, limits: Limits) -> None:
    """Write a reserved report; after a failure it stays reserved for a pause, unless that was the last attempt."""
    if job.attempts >= pace.attempts:
        _LOG.warning("report %d: its worker died in the last attempt; it is given up", job.id)
        problem = f"writing it failed in each of {count_of(pace.attempts, 'attempt')}; request it again"
        await fail_report(connection, job.id, problem)
        return
    if job.attempts:
        _LOG.warning("report %d: it is written again, in attempt %d of %d", job.id, job.attempts + 1, pace.attempts)
    await count_attempts(store, job.id, 1)
    try:
        async with connection.transaction():
            await write_report(store, connection, job, most_bytes=limits.report_bytes)
    except asyncio.CancelledError:
        await count_attempts(store, job.id, -1)
        raise
    except ApiError as error:
        await fail_report(connection, job.id, error.message)
    except Exception as error:
        _LOG.warning("report %d: writing it failed: %s", job.id, type(error).__name__)
        is_away = isinstance(error, WarehouseUnavailableError | psycopg.OperationalError | psycopg.InterfaceError)
        if not is_away and job.attempts + 1 >= pace.attempts:
            await fail_report(connection, job.id, "the report could not be written; request it again")
            return
        await asyncio.sleep(pace.again_seconds)
        if is_away:
            await count_attempts(store, job.id, -1)


async def _tidy_up(store: Store, pace: Pace, limits: Limits) -> None:
    """Delete expired rows, until cancelled."""
    while True:
        async with store.connection() as connection, connection.transaction():
            is_alone = await (await connection.execute(TRY_LOCK, _TIDY_LOCK)).fetchone() == (True,)
            deleted = await delete_expired(connection, kept_days=limits.report_days) if is_alone else {}
        if any(deleted.values()):
            _LOG.info(
                "deleted expired rows: %s", ", ".join(f"{count} {kind}" for kind, count in deleted.items() if count)
            )
        await asyncio.sleep(pace.tidy_seconds)


async def delete_expired(connection: Connection, *, kept_days: int) -> dict[str, int]:
    """Delete expired consents, sessions, attempts, keys, events and reports, and return the number of each kind.

    Rows are kept an hour longer than they are valid, so that requests under way can still read them. A used refresh
    token is kept until it would have expired, and a code as long as any token issued for it: a second use of either
    must still revoke the consent.
    """
    values = {"longer": KEPT_LONGER, "report_kept": timedelta(days=kept_days), "keys_kept": timedelta(hours=KEPT_HOURS)}
    return {kind: (await connection.execute(statement, values)).rowcount for kind, statement in _DELETIONS.items()}
