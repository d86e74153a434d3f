"""Dagster's run launcher, which also notices that the process of a run is gone.

Dagster's code server notices the end of its runs' processes. If it ends with them, as a container or a machine does,
no part of Dagster would: the run stays started for ever, and no other run of its account begins. Here the process
of a run holds a lock in the storage of the instance. A started run has failed if its code server answers and does not
have it, and no process holds its lock; Dagster's daemon then retries it. The server alone does not suffice, because a
process survives a server that was killed; nor does the lock, which a restart of PostgreSQL releases.
"""

from contextlib import ExitStack, suppress

import dagster as dg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher import CheckRunHealthResult, DefaultRunLauncher, WorkerStatus
from dagster._grpc.client import DagsterGrpcClient
from dagster._grpc.types import CanCancelExecutionRequest, CanCancelExecutionResult
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_postgres.utils import DagsterPostgresException
from dagster_shared.serdes import deserialize_value
from sqlalchemy.exc import DBAPIError

from seller_platform.errors import SellerPlatformError
from seller_platform.warehouse.postgres.advisory_locks import hold, try_lock


class AttendedRunLauncher(DefaultRunLauncher):
    """Lets the code server execute runs, and says whether their processes still run."""

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return that the process of a started run is gone, or that it runs or nothing is known."""
        client: DagsterGrpcClient | None = self._get_grpc_client_for_termination(run.run_id)  # type: ignore[no-untyped-call]  # Dagster's, without types
        storage = self._instance.event_log_storage
        if client is None or not isinstance(storage, PostgresEventLogStorage):
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
    """Hold the lock of a run until the result is closed or this process ends; without PostgreSQL, do without."""
    held = ExitStack()
    with suppress(SellerPlatformError, DagsterPostgresException, DBAPIError):
        instance = held.enter_context(dg.DagsterInstance.from_ref(instance_ref))
        storage = instance.event_log_storage
        if isinstance(storage, PostgresEventLogStorage):
            hold(held.enter_context(storage.index_connection()), _name(run_id))
    return held


def _name(run_id: str) -> str:
    return f"worker|{run_id}"
