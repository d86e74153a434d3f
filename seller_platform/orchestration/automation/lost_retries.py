"""The sensor that repeats automatic retries of runs which Dagster's daemon has lost.

The daemon looks at each failure once. If PostgreSQL or the code location is away at that moment, it never retries the
run, and a backfill waits for the run without end. Another event of the failure makes the daemon look again; it starts
no second retry of a run.
"""

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
from dagster._core.events import RunFailureReason  # public in no module, as the names below
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES
from dagster._core.execution.retries import auto_reexecution_should_retry_run
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, BACKFILL_ID_TAG, RUN_FAILURE_REASON_TAG

from seller_platform.clocks import Clock, utc_now
from seller_platform.counts import count_of

SENSOR = "lost_retries"
# The daemon looks at events every few seconds.
_RETRIED_WITHIN = timedelta(minutes=2)
_FORGOTTEN_AFTER = timedelta(days=1)
_REPORTS_AT_MOST = 20
_RUNS_AT_ONCE = 200


def lost_retry_definitions(clock: Clock = utc_now) -> dg.Definitions:
    """Return the sensor."""

    @dg.sensor(
        name=SENSOR,
        description="Retries failed runs whose automatic retry was lost in an outage.",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        instance, now = context.instance, clock()
        failed = dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE],
            updated_after=now - _FORGOTTEN_AFTER,
            updated_before=now - _RETRIED_WITHIN,
        )
        runs = [record.dagster_run for record in instance.get_run_records(failed, limit=_RUNS_AT_ONCE)]
        lost = list(_lost(instance, runs)) if instance.run_retries_enabled else []
        for run in lost:
            instance.report_run_failed(run, "The automatic retry of this run was lost, and is requested again.")
        return dg.SkipReason(f"{count_of(len(lost), 'retry', 'was')} lost")

    return dg.Definitions(sensors=[evaluate])


def _lost(instance: dg.DagsterInstance, runs: list[dg.DagsterRun]) -> Iterator[dg.DagsterRun]:
    """Yield the runs that Dagster should have retried, and has not."""
    for run in runs:
        is_launched = run.remote_job_origin is not None  # the daemon cannot retry runs of commands
        if not is_launched or AUTO_RETRY_RUN_ID_TAG in run.tags:
            continue
        if BACKFILL_ID_TAG in run.tags:
            backfill = instance.get_backfill(run.tags[BACKFILL_ID_TAG])
            if backfill is None or backfill.status in BULK_ACTION_TERMINAL_STATUSES:
                continue  # Dagster retries no run of a backfill that has ended
        reason = run.tags.get(RUN_FAILURE_REASON_TAG)
        if not auto_reexecution_should_retry_run(instance, run, RunFailureReason(reason) if reason else None):
            continue
        reports = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records
        if len(reports) < _REPORTS_AT_MOST:
            yield run
