"""Runs the worker that writes the reports in the queue, a few at a time.

A job is retried when it fails, and when its worker dies. Workers send a heartbeat every few seconds, and every worker
puts back the jobs of those without one. A report is locked while it is written, and PostgreSQL releases the lock with
the connection, so that a job put back too early does not run twice at a time.

A worker also deletes expired rows of the whole service.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import procrastinate
import psycopg
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from psycopg_pool import PoolTimeout

from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.logs import log_context
from seller_platform.service.limits.policy import STANDARD, ReportLimits
from seller_platform.service.pool import Connection, Store
from seller_platform.service.reports.cleanup import delete_expired
from seller_platform.service.reports.jobs import QUEUE, TASK
from seller_platform.service.reports.writing import ReportBusyError, may_try_again, write_report
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK_NUMBER
from seller_platform.warehouse.postgres.database import conninfo

_LOG = logging.getLogger("seller_platform.service.reports.worker")
_PASSING = (WarehouseUnavailableError, ConnectorException, psycopg.Error, PoolTimeout, OSError)
_RESCUE_LOCK, _TIDY_LOCK = 0x5EC4E, 0x5EC4F


@dataclass(frozen=True)
class Pace:
    """The numbers and intervals of a worker.

    Attributes:
        reports: How many reports it writes at a time.
        attempts: How often writing a report may fail, or end its worker, before the report is marked as failed.
        heartbeat_seconds: The interval of its heartbeats.
        stalled_seconds: The time without a heartbeat after which it counts as dead.
        poll_seconds: The interval at which it looks for jobs without a notification.
        grace_seconds: How long it may finish its reports when it is stopped; then they are put back.
        tidy_seconds: The interval at which it deletes expired rows.
        again_seconds: How long it waits when PostgreSQL is unavailable, or when a report failed.
    """

    reports: int = 2
    attempts: int = 5
    heartbeat_seconds: float = 5
    stalled_seconds: float = 20
    poll_seconds: float = 1
    grace_seconds: float = 1
    tidy_seconds: float = 600
    again_seconds: int = 3


class WorkerThread:
    """A worker in a thread with its own event loop, which does not delay requests."""

    def __init__(self, database_url: str, pace: Pace = Pace(), limits: ReportLimits = STANDARD.reports) -> None:
        self._database_url, self._pace, self._limits = database_url, pace, limits
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="report worker", daemon=True)

    def start(self) -> None:
        """Start the thread; PostgreSQL may start later."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the worker; reports under way end within the grace period or are put back."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(work(self._database_url, self._stop, self._pace, self._limits))
        finally:
            self._loop.close()


def run_worker(
    database_url: str,
    *,
    pace: Pace = Pace(),
    limits: ReportLimits = STANDARD.reports,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Work until SIGINT or SIGTERM."""

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        if on_ready is not None:
            on_ready()
        await work(database_url, stop, pace, limits)

    asyncio.run(run())


async def work(database_url: str, stop: asyncio.Event, pace: Pace, limits: ReportLimits) -> None:
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


async def _work_while_connected(database_url: str, stop: asyncio.Event, pace: Pace, limits: ReportLimits) -> None:
    store = Store(database_url, connections=2 * pace.reports + 2)
    await store.open()
    try:
        async with store.connection():
            pass  # fails soon without PostgreSQL; opening the queue would wait for half a minute
        queue = _queue(database_url, store, pace, limits)
        async with queue.open_async():
            working = queue.run_worker_async(
                queues=[QUEUE],
                concurrency=pace.reports,
                install_signal_handlers=False,
                delete_jobs="always",  # the result of a job is stored in the row of its report
                fetch_job_polling_interval=pace.poll_seconds,
                shutdown_graceful_timeout=pace.grace_seconds,
                update_heartbeat_interval=pace.heartbeat_seconds,
                stalled_worker_timeout=pace.stalled_seconds,
            )
            worker = asyncio.create_task(working)
            upkeep = asyncio.create_task(_keep_up(queue, store, pace))
            tidying = asyncio.create_task(_tidy_up(store, pace, limits))
            ended = asyncio.create_task(stop.wait())
            tasks = (worker, upkeep, tidying, ended)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await store.close()
    for result in results:
        if isinstance(result, Exception):
            raise result


def _queue(database_url: str, store: Store, pace: Pace, limits: ReportLimits) -> procrastinate.App:
    """Return the queue, with the task that writes a report."""
    connector = procrastinate.PsycopgConnector(
        conninfo=conninfo(database_url),
        kwargs={
            "connect_timeout": 5,
            "application_name": "seller-platform worker",
            "options": "-c search_path=service",
        },
        min_size=1,
        max_size=4,
        timeout=10,
    )
    queue: procrastinate.App = procrastinate.App(connector=connector)
    # Unlimited, because `_write` decides when a report is given up: never while PostgreSQL is unavailable.
    retry = procrastinate.RetryStrategy(max_attempts=None, wait=pace.again_seconds)

    @queue.task(name=TASK, queue=QUEUE, retry=retry)
    async def write(report_id: int) -> None:
        with log_context(report_id=report_id):
            await _write(store, report_id, pace, limits)

    return queue


async def _write(store: Store, report_id: int, pace: Pace, limits: ReportLimits) -> None:
    """Write a report; an exception puts its job back into the queue."""
    try:
        await write_report(store, report_id, most_bytes=limits.stored_bytes)
    except ReportBusyError:
        raise
    except Exception as error:
        _LOG.warning("report %d: writing it failed: %s", report_id, type(error).__name__)
        if isinstance(error, WarehouseUnavailableError):
            raise
        problem = "the report could not be written; request it again"
        if await may_try_again(store, report_id, attempts=pace.attempts, problem=problem):
            raise


async def _keep_up(queue: procrastinate.App, store: Store, pace: Pace) -> None:
    """Put back the jobs of workers that died, until cancelled."""
    while True:
        async with store.connection() as connection, connection.transaction():
            stalled: Iterable[Job] = ()
            if await _try_lock(connection, _RESCUE_LOCK):
                stalled = await queue.job_manager.get_stalled_jobs(
                    queue=QUEUE, seconds_since_heartbeat=pace.stalled_seconds
                )
            for job in stalled:
                report_id = int(str(job.task_kwargs["report_id"]))
                problem = f"writing it failed in each of {count_of(pace.attempts, 'attempt')}; request it again"
                if await may_try_again(store, report_id, attempts=pace.attempts, problem=problem):
                    _LOG.warning("report %d: its worker died; it is put back", report_id)
                    await queue.job_manager.retry_job(job)
                else:
                    _LOG.warning("report %d: its worker died in the last attempt; it is given up", report_id)
                    await queue.job_manager.finish_job(job, Status.FAILED, delete_job=True)
        await asyncio.sleep(pace.heartbeat_seconds)


async def _tidy_up(store: Store, pace: Pace, limits: ReportLimits) -> None:
    """Delete expired rows, until cancelled."""
    while True:
        async with store.connection() as connection, connection.transaction():
            is_alone = await _try_lock(connection, _TIDY_LOCK)
            deleted = await delete_expired(connection, kept_days=limits.kept_days) if is_alone else {}
        if any(deleted.values()):
            _LOG.info(
                "deleted expired rows: %s", ", ".join(f"{count} {kind}" for kind, count in deleted.items() if count)
            )
        await asyncio.sleep(pace.tidy_seconds)


async def _try_lock(connection: Connection, lock: int) -> bool:
    """Try to lock a task of the workers, until the end of the transaction.

    Two workers that put back jobs at once could put back a job that has already begun again.
    """
    row = await (await connection.execute(TRY_LOCK_NUMBER, {"number": lock})).fetchone()
    return row is not None and bool(row[0])
