"""Runs that a command executes in its own process, canceled when the process ends.

The process holds a lock of PostgreSQL for each of its runs. The lock ends with the process, however that ends. An
unfinished run without its lock is therefore canceled by another command.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dagster as dg
from dagster_postgres.event_log import PostgresEventLogStorage

from seller_platform import interruption
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_lock

_IN_PROCESS_TAG = "seller_platform/in_process"
IN_PROCESS = {_IN_PROCESS_TAG: "yes", "dagster/max_retries": "0", "user": "seller-platform"}
"""The tags of such runs. Who ended the command runs it again; Dagster's daemon does not.

The UI shows the tag `user` in the column *Launched by*, where it says "Manually launched" of runs without it.
"""

_ENDED = "The command that executed this run was ended."
_UNFINISHED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@contextmanager
def attended(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Hold the lock of a run within the block, and cancel the run if a signal ends it.

    Raises:
        InterruptedBySignal: A signal came, which Dagster takes for a failure of the run.
    """

    def end(report: Callable[..., object]) -> None:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            report(run, message=_ENDED)

    def cancel() -> None:
        end(instance.report_run_canceled)

    # Dagster takes the interruption of a run for a failure, unless the run is being canceled.
    canceling = interruption.ending(cancel, at_once=lambda: end(instance.report_run_canceling))
    with locked(instance, _lock_of(run_id)), canceling:
        try:
            yield
        finally:
            if interruption.is_ending():
                cancel()
        interruption.check()


def end_dead_runs(instance: dg.DagsterInstance, *, launched_too: bool = False) -> int:
    """Cancel the unfinished runs that no process executes any more, and return their number.

    Args:
        launched_too: Also those that a daemon has launched, because no daemon runs any more.
    """
    dead = dead_runs(instance, launched_too=launched_too)
    for run in dead:
        instance.report_run_canceled(run, message=_ENDED)
    return len(dead)


def dead_runs(instance: dg.DagsterInstance, *, launched_too: bool = False) -> list[dg.DagsterRun]:
    """Return the unfinished runs that no process executes any more."""
    storage = instance.event_log_storage
    if not isinstance(storage, PostgresEventLogStorage):
        return []
    tags = None if launched_too else {_IN_PROCESS_TAG: IN_PROCESS[_IN_PROCESS_TAG]}
    runs = instance.get_runs(dg.RunsFilter(statuses=_UNFINISHED, tags=tags))
    with storage.index_connection() as connection:
        # Each statement is its own transaction, which releases the lock again.
        return [run for run in runs if try_lock(connection, _lock_of(run.run_id))]


@contextmanager
def locked(instance: dg.DagsterInstance, name: str) -> Iterator[bool]:
    """Hold a lock in the storage of an instance within the block, and yield whether the storage has locks."""
    storage = instance.event_log_storage
    if not isinstance(storage, PostgresEventLogStorage):
        yield False
        return
    with storage.index_connection() as connection, releasing(connection):
        hold(connection, name)
        yield True


def _lock_of(run_id: str) -> str:
    return f"run|{run_id}"
