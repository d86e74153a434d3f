"""Dagster's run launcher, which also notices that the process of a run is gone.

Dagster's code server notices the end of its runs' processes. If it ends with them, as a container or a machine does,
no part of Dagster would: the run stays started for ever, and no other run of its account begins. Here the process
of a run holds a lock in the storage of the instance, and then sets a tag of the run. A started run with that tag has
failed if its code server answers and does not have it, and no process holds its lock; Dagster's daemon then retries it.
The server alone does not suffice, because a process survives a server that was killed; nor does the lock, which a
restart of PostgreSQL releases. Without the tag nothing is known: other processes hold no lock.

The lock is in Dagster's storage, which may be another database than the warehouse: the process of a run reads no
settings.
"""

import time
from contextlib import ExitStack

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._core.storage.tags import HIDDEN_TAG_PREFIX
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.utils import DagsterPostgresException
from dagster_shared.serdes import deserialize_value
from sqlalchemy.exc import DBAPIError

from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.instance.command_runs import locked
from seller_platform.warehouse.postgres.advisory_locks import try_lock

_ATTENDED_TAG = f"{HIDDEN_TAG_PREFIX}seller_platform/attended"
"""The id of a run whose process has taken the run's lock. A retry copies tags, and its id is another one."""

_RESTART_SECONDS = 30
_PAUSE_SECONDS = 1


class AttendedRunLauncher(DefaultRunLauncher):
    """Lets the code server execute runs, and says whether their processes still run."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return that the process of a started run is gone, or that it runs or nothing is known."""
        client: DagsterGrpcClient | None = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]  # Dagster's, without types
        storage = self._instance.event_log_storage
        is_attended = run.tags.get(_ATTENDED_TAG) == run.run_id
        if client is None or not is_attended or not isinstance(storage, PostgresEventLogStorage):
            return CheckRunHealthResult(WorkerStatus.RUNNING, "It is not known which process executes the run.")
        try:
            answer = client.can_cancel_execution(CanCancelExecutionRequest(run_id=run.run_id))
        except DagsterUserCodeUnreachableError:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "The code server does not answer.")
        if deserialize_value(answer, CanCancelExecutionResult).can_cancel:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        with storage.index_connection() as connection:
            # A statement is its own transaction, which releases the lock again.
            if not try_lock(connection, _name(run.run_id)):
                return CheckRunHealthResult(WorkerStatus.RUNNING, "It outlives its code server.")
        return CheckRunHealthResult(WorkerStatus.FAILED, "The process of the run ended together with its code server.")


def attend(instance_ref: InstanceRef, run_id: str) -> ExitStack:
    """Hold the lock of a run until the result is closed or this process ends, and mark the run with a tag.

    It is tried again for half a minute while PostgreSQL restarts. Without PostgreSQL the run has neither lock nor tag.
    """
    deadline = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            with ExitStack() as opened:
                instance = opened.enter_context(dg.DagsterInstance.from_ref(instance_ref))
                if opened.enter_context(locked(instance, _name(run_id))):
                    instance.add_run_tags(run_id, {_ATTENDED_TAG: run_id})
                return opened.pop_all()
        except (SellerPlatformError, DagsterPostgresException, DBAPIError):
            if time.monotonic() > deadline:
                return ExitStack()
            time.sleep(_PAUSE_SECONDS)


def _name(run_id: str) -> str:
    return f"worker|{run_id}"
