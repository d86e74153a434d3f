"""The processes of runs: forked from one that has imported everything, and noticed when they are gone.

Dagster's code server starts a new interpreter for every run, whose imports take two to three seconds of CPU time. Here
Python's fork server imports the libraries once, at the first run, and every run is a fork of it. The fork server has
one thread, opens no connection and reads no setting: each run loads the definitions itself, with the settings and the
warehouse as they are then. Dagster has no setting for it, so `fork_run_workers` replaces `_mp_ctx`, an attribute of the
code server's class in `dagster._grpc.server` (https://github.com/dagster-io/dagster/issues/8638). A new version of
Dagster that names it otherwise starts interpreters again, and the test of this module fails.

Dagster's code server notices the end of its runs' processes. If it ends with them, as a container or a machine does,
no part of Dagster would: the run stays started for ever, and no other run of its account begins. Here the process of a
run holds a lock in the storage of the instance, and sets a tag of the run. A started run with that tag has failed if
its lock was free for a minute; Dagster's daemon then retries it. A process whose connection was lost, for example while
PostgreSQL restarted, takes the lock again within seconds. Without the tag nothing is known: other processes hold no
lock. The lock is in Dagster's storage, which may be another database than the warehouse.
"""

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any, cast

import dagster as dg
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.dagster_internals import CheckRunHealthResult, WorkerStatus
from seller_platform.traces import flush_traces
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_lock

SERVER = "dagster._grpc.server"

# Without the definitions, which read settings. The first and the last two are what a run imports during its work.
_LIBRARIES = (
    "fsspec.implementations.local",
    "seller_platform.orchestration.component",
    "seller_platform.orchestration.storage",
    "psycopg2.extras",
    "upath.implementations.local",
)

ATTENDED_TAG = ".dagster/seller_platform/attended"
"""The id of a run whose process has taken the run's lock; hidden in the UI. A retry copies tags, with another id."""

_PAUSE_SECONDS = 2


class RunLocks:
    """Tells by their locks which processes of runs are gone.

    Attributes:
        gone_after_seconds: How long the lock of a run must be free until its process counts as gone.
    """

    def __init__(self, gone_after_seconds: float = 60.0) -> None:
        self.gone_after_seconds = gone_after_seconds
        self._free_since: dict[str, float] = {}

    def health_of(self, run_id: str, connection: Connection, lock: str) -> CheckRunHealthResult:
        """Return whether the process of a run is gone."""
        # A statement is its own transaction, which releases the lock again.
        if not try_lock(connection, lock):
            self._free_since.pop(run_id, None)
        elif time.monotonic() >= self._free_since.setdefault(run_id, time.monotonic()) + self.gone_after_seconds:
            return CheckRunHealthResult(WorkerStatus.FAILED, "The process of the run is gone: nothing holds its lock.")
        return CheckRunHealthResult(WorkerStatus.RUNNING)


class AttendedRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, which also says whether the processes of runs still run."""

    def __init__(self, inst_data: Any = None) -> None:
        super().__init__(inst_data)
        self.locks = RunLocks()

    def terminate(self, run_id: str) -> bool:
        return cancel(self, run_id, super().terminate)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return that the process of a started run is gone, or that it runs or nothing is known."""
        with _connection(self._instance) as connection:
            # By the table of tags: in the row of the run, a change of its status may write over one.
            marked = dg.RunsFilter(run_ids=[run.run_id], tags={ATTENDED_TAG: run.run_id})
            if connection is None or not self._instance.get_runs_count(marked):
                return CheckRunHealthResult(WorkerStatus.RUNNING, "It is not known which process executes the run.")
            return self.locks.health_of(run.run_id, connection, _name(run.run_id))


def cancel(launcher: Any, run_id: str, end: Callable[[str], bool]) -> bool:
    """End the process of a run, and cancel a run that has not begun yet.

    The process of such a run would end before the first step without canceling it. Dagster would fail and retry it, as
    it would every run that was not marked before its process ends; Dagster's default launcher alone marks it.
    """
    instance = launcher._instance
    run = instance.get_run_by_id(run_id)
    if run is None or run.is_finished:
        return False
    if not isinstance(launcher, dg.DefaultRunLauncher):
        instance.report_run_canceling(run)
    is_sent = end(run_id)
    if run.status is dg.DagsterRunStatus.STARTING:
        instance.report_run_canceled(run)
        return True
    return is_sent


def cancel_if_asked(instance_ref: Any, run_id: str) -> None:
    """Cancel a run that has failed because it began while its end was asked for, and wrote over the request."""
    with dg.DagsterInstance.from_ref(instance_ref) as instance:
        run = instance.get_run_by_id(run_id)
        asked = dg.DagsterEventType.RUN_CANCELING
        if run is None or run.status is not dg.DagsterRunStatus.FAILURE:
            return
        if instance.get_records_for_run(run_id, of_type=asked, limit=1).records:
            instance.report_run_canceled(run)


def attend(instance_ref: Any, run_id: str) -> threading.Event:
    """Hold the lock of a run in a thread until this process ends, and mark the run with a tag."""

    @contextmanager
    def connected() -> Iterator[Connection | None]:
        with dg.DagsterInstance.from_ref(instance_ref) as instance, _connection(instance) as connection:
            yield connection

    def mark() -> None:
        with dg.DagsterInstance.from_ref(instance_ref) as instance:
            instance.add_run_tags(run_id, {ATTENDED_TAG: run_id})

    return hold_always(connected, _name(run_id), on_held=mark)


def hold_always(
    connected: Callable[[], AbstractContextManager[Connection | None]],
    lock: str,
    *,
    on_held: Callable[[], object] = lambda: None,
) -> threading.Event:
    """Hold a lock in a thread, also after its connection was lost, until the result is set or this process ends.

    Args:
        connected: Connects to the database of the lock; to None where there is none.
    """
    ended = threading.Event()

    def hold_on() -> None:
        while not ended.is_set():
            with suppress(SellerPlatformError, DagsterPostgresException, DBAPIError), connected() as connection:
                if connection is None:
                    return
                with releasing(connection):
                    hold(connection, lock)
                    on_held()
                    while not ended.wait(_PAUSE_SECONDS):
                        connection.exec_driver_sql("SELECT 1")  # raises once the connection, and so the lock, is lost
            ended.wait(_PAUSE_SECONDS)

    threading.Thread(target=hold_on, name="run lock", daemon=True).start()
    return ended


@contextmanager
def _connection(instance: dg.DagsterInstance) -> Iterator[Connection | None]:
    """Yield a connection to the storage of an instance; None if that is not in PostgreSQL."""
    storage = instance.event_log_storage
    if isinstance(storage, PostgresEventLogStorage):
        with storage.index_connection() as connection:
            yield connection
    else:
        yield None


def _name(run_id: str) -> str:
    return f"worker|{run_id}"


class RunWorker(ForkServerProcess):
    """The process of one run, which holds the run's lock."""

    def run(self) -> None:
        """Execute the run, and then the functions registered with `atexit`, which Python omits in a fork."""
        (serialized, *_) = cast("Any", self)._args
        arguments: Any = dg.deserialize_value(serialized)
        if arguments.instance_ref is not None:
            attend(arguments.instance_ref, arguments.run_id)
        try:
            super().run()
        finally:
            if arguments.instance_ref is not None:
                cancel_if_asked(arguments.instance_ref, arguments.run_id)
            atexit._run_exitfuncs()
            flush_traces()  # of newer versions of Python, a fork has none of the functions of its server
        # Python would wait for threads that a canceled run has left, which wait for answers of the upstream.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


class _RunWorkers(ForkServerContext):
    Process = RunWorker


def fork_run_workers() -> None:
    """Let Dagster's code server in this process fork its runs; other processes are left as they are.

    So is macOS, whose system libraries do not work in a fork.
    """
    server = sys.modules.get(SERVER)
    if server is None or sys.platform != "linux":
        return
    context = _RunWorkers()
    context.set_forkserver_preload(list(_LIBRARIES))
    # The server that loads the definitions exists already, with an attribute of its own; a property precedes it.
    server.DagsterApiServer._mp_ctx = property(lambda _: context, lambda *_: None)
