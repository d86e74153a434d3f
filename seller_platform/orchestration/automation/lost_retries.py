"""The sensor that repeats automatic retries of runs which Dagster's daemon has lost.

The daemon looks at each failure once. If PostgreSQL or the code location is away at that moment, it never retries the
run, and a backfill waits for the run without end. Another event of the failure makes the daemon look again; it starts
no second retry of a run.
"""

from datetime import timedelta

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.counts import count_of
from seller_platform.orchestration.placement import WHOLE

SENSOR = "lost_retries"
# The daemon looks at events every few seconds.
_RETRIED_WITHIN = timedelta(minutes=2)
_FORGOTTEN_AFTER = timedelta(days=1)
_REPORTS_AT_MOST = 20
_RUNS_AT_ONCE = 200
_REFUSAL = "Failed to retry run"


def lost_retry_definitions() -> dg.Definitions:
    @WHOLE.sensor(SENSOR, "Retries failed runs whose automatic retry was lost in an outage.", seconds=60)
    def evaluate(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        instance, now = context.instance, utc_now()
        failed = dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE],
            updated_after=now - _FORGOTTEN_AFTER,
            updated_before=now - _RETRIED_WITHIN,
        )
        runs = [record.dagster_run for record in instance.get_run_records(failed, limit=_RUNS_AT_ONCE)]
        lost = [run for run in runs if instance.run_retries_enabled and _is_lost(instance, run)]
        for run in lost:
            instance.report_run_failed(run, "The automatic retry of this run was lost, and is requested again.")
        return dg.SkipReason(f"{count_of(len(lost), 'retry', 'was')} lost")

    return dg.Definitions(sensors=[evaluate])


def _is_lost(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Return whether Dagster should have retried a run, and has not.

    Dagster marks a run that is to be retried, and its retry. A run whose retry it could not start it marks otherwise,
    as one that is not to be retried, and says so in the run's events.
    """
    if run.remote_job_origin is None or "dagster/auto_retry_run_id" in run.tags:
        return False  # the daemon cannot retry runs of commands
    if backfill_id := run.tags.get("dagster/backfill"):
        backfill = instance.get_backfill(backfill_id)
        if backfill is None or backfill.status.value != "REQUESTED":
            return False  # Dagster retries no run of a backfill that has ended
    of_type = {dg.DagsterEventType.RUN_FAILURE, dg.DagsterEventType.ENGINE_EVENT}
    events = [each.event_log_entry for each in instance.get_records_for_run(run.run_id, of_type=of_type).records]
    failures = [
        number for number, each in enumerate(events) if each.dagster_event_type is dg.DagsterEventType.RUN_FAILURE
    ]
    was_refused = any(each.message == _REFUSAL for each in events[failures[-1] :])
    return len(failures) < _REPORTS_AT_MOST and (run.tags.get("dagster/will_retry") == "true" or was_refused)
