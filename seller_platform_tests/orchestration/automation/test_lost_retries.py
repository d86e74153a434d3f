"""Tests the sensor that repeats lost retries of runs, on an instance whose daemon does not run."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.events import JobFailureData, RunFailureReason
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, BACKFILL_ID_TAG, WILL_RETRY_TAG
from dagster._core.utils import make_new_run_id

from seller_platform.clocks import using_clock
from seller_platform.orchestration.automation.lost_retries import lost_retry_definitions
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import postgres_instance

RETRIES = "run_retries: {enabled: true, max_retries: 2, retry_on_asset_or_op_failure: false}\n"
LOCATION = GrpcServerCodeLocationOrigin(host="127.0.0.1", port=1, location_name="seller_platform")
ORIGIN = RemoteJobOrigin(RemoteRepositoryOrigin(LOCATION, "__repository__"), "job")


def test_only_runs_whose_retry_was_lost_are_reported_a_few_times_more(database: Database, tmp_path: Path) -> None:
    with postgres_instance(database.url, tmp_path, RETRIES) as instance:
        lost = _failed(instance)
        refused = _failed(instance)
        _refuse(instance, refused)
        others = [
            _failed(instance, tags={AUTO_RETRY_RUN_ID_TAG: make_new_run_id()}),
            _failed(instance, tags={BACKFILL_ID_TAG: "a backfill that was deleted"}),
            _failed(instance, reason=RunFailureReason.STEP_FAILURE),
            _failed(instance, origin=None),
        ]

        messages = [_evaluate(instance, minutes=minutes) for minutes in (1, 3)]
        reports = [len(_reports(instance, run)) for run in (lost, refused, *others)]
        will_retry = [instance.get_run_by_id(run).tags[WILL_RETRY_TAG] for run in (lost, refused)]  # type: ignore[union-attr]  # they exist
        for _ in range(25):
            _refuse(instance, refused)
            messages.append(_evaluate(instance, minutes=3))

        assert [len(_reports(instance, run)) for run in (lost, refused, *others)] == [20, 20, 1, 1, 1, 1]
    assert messages[:2] == ["0 retries were lost", "2 retries were lost"]
    assert messages[-1] == "0 retries were lost"
    assert reports == [2, 2, 1, 1, 1, 1]
    assert will_retry == ["true", "true"]


def _failed(
    instance: dg.DagsterInstance,
    *,
    tags: dict[str, str] | None = None,
    reason: RunFailureReason = RunFailureReason.RUN_EXCEPTION,
    origin: RemoteJobOrigin | None = ORIGIN,
) -> str:
    """Store a run that failed, and return its id."""
    run = dg.DagsterRun(
        "job", make_new_run_id(), status=dg.DagsterRunStatus.STARTED, tags=tags, remote_job_origin=origin
    )
    instance.add_run(run)
    instance.report_run_failed(run, job_failure_data=JobFailureData(error=None, failure_reason=reason))
    return run.run_id


def _refuse(instance: dg.DagsterInstance, run_id: str) -> None:
    """Mark a run as the daemon does where it cannot start the retry."""
    instance.report_engine_event("Failed to retry run", instance.get_run_by_id(run_id))
    instance.add_run_tags(run_id, {WILL_RETRY_TAG: "false"})


def _evaluate(instance: dg.DagsterInstance, *, minutes: float) -> str:
    """Evaluate the sensor some minutes from now, and return what it says."""
    (sensor,) = lost_retry_definitions().sensors or ()
    assert isinstance(sensor, dg.SensorDefinition)
    with using_clock(lambda: datetime.now(UTC) + timedelta(minutes=minutes)):
        result = sensor.evaluate_tick(dg.build_sensor_context(instance))
    assert result.skip_message is not None
    return result.skip_message


def _reports(instance: dg.DagsterInstance, run_id: str) -> list[object]:
    return list(instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.RUN_FAILURE).records)
