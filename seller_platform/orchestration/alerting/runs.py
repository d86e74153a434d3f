"""Why runs failed, and how that is resolved. The sensor leaves out what `platform.problems` names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime

import dagster as dg
from dagster import DagsterEventType
from dagster_shared.error import SerializableErrorInfo

from seller_platform.errors import InputProblemError, followed
from seller_platform.orchestration.alerting.causes import Alerts, Cause, Failure, Part
from seller_platform.orchestration.tags import EXIT_CODE, UNDER_WAY

_RUNS_PER_TICK = 200
_WILL_RETRY, _RETRY = "dagster/will_retry", "dagster/auto_retry_run_id"
_PARTITION, _RANGE = "dagster/partition", "dagster/asset_partition_range_start"
_JOB = "job "
_TRACEBACK = "Open the run in the Dagster UI for the traceback, fix the cause and launch the run again."
_LONGEST_LINE = 500
_NAMED_PARTS = 3


def newest_failure(instance: dg.DagsterInstance) -> int:
    """Return the number of the newest event of a failed run; 0 without one."""
    records = instance.fetch_run_status_changes(DagsterEventType.RUN_FAILURE, limit=1).records
    return records[0].storage_id if records else 0


def failures_of_runs(
    instance: dg.DagsterInstance, alerts: Alerts, has_settled: Callable[[datetime], bool]
) -> Iterator[Failure]:
    """Yield the failures of the runs that failed since, without those that Dagster starts again by itself.

    Events are read by their numbers, for the clock of a worker may differ. When Dagster gives up to start a run again,
    it changes the tag of the run, which is yielded then.

    Args:
        has_settled: Whether a moment is long enough ago; younger events are left to the next tick.
    """
    new = dg.RunStatusChangeRecordsFilter(DagsterEventType.RUN_FAILURE, after_storage_id=alerts.read_to)
    for event in instance.fetch_run_status_changes(new, _RUNS_PER_TICK, ascending=True).records:
        if not has_settled(datetime.fromtimestamp(event.timestamp, UTC)):
            break
        alerts.read_to = event.storage_id
        alerts.undecided_runs.append(event.run_id)
    undecided, alerts.undecided_runs = alerts.undecided_runs, []
    runs = instance.get_run_records(dg.RunsFilter(run_ids=undecided), ascending=True) if undecided else ()
    for record in runs:
        tags = record.dagster_run.tags
        if _RETRY not in tags and tags.get(_WILL_RETRY) == "true":
            alerts.undecided_runs = [*alerts.undecided_runs, record.dagster_run.run_id][-_RUNS_PER_TICK:]
        elif _RETRY not in tags:
            yield from _failures(instance, record)


def is_open(instance: dg.DagsterInstance, cause: Cause) -> bool:
    """Return whether a job of a cause has not succeeded since, or an asset was not materialized."""
    return any(_is_failed(instance, subject, runs, cause) for subject, runs in cause.open_until.items())


def _is_failed(instance: dg.DagsterInstance, subject: str, runs: list[str], cause: Cause) -> bool:
    """Return whether a job or an asset still has to succeed; of a partition its newest run decides."""
    if subject.startswith(_JOB):
        succeeded = dg.RunsFilter(
            job_name=subject.removeprefix(_JOB), statuses=[dg.DagsterRunStatus.SUCCESS], updated_after=cause.failed_at
        )
        return not instance.get_runs_count(succeeded)
    asset = dg.AssetKey.from_user_string(subject)
    records = instance.get_run_records(dg.RunsFilter(run_ids=runs))
    if not any({_PARTITION, _RANGE} & record.dagster_run.tags.keys() for record in records):
        newest = instance.get_latest_materialization_event(asset)
        return newest is None or newest.timestamp < max(record.create_timestamp.timestamp() for record in records)
    newest_runs = set(_unfinished(instance, asset).values())
    if not newest_runs or newest_runs & set(runs):
        return bool(newest_runs)
    return instance.get_runs_count(dg.RunsFilter(run_ids=sorted(newest_runs), statuses=UNDER_WAY)) > 0


def _unfinished(instance: dg.DagsterInstance, asset: dg.AssetKey) -> Mapping[str, str]:
    """Return the partitions of an asset that their newest run has not materialized, with the run."""
    # Dagster finds failed partitions with it, too; the instance has no public method for it.
    attempts = instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        asset
    )
    return {partition: run_id for partition, (run_id, _) in attempts.items()}


def _failures(instance: dg.DagsterInstance, record: dg.RunRecord) -> Iterator[Failure]:
    """Yield the failures of a run. A mart that waits for an input has not failed: the input is reported."""
    run = record.dagster_run
    for subject, partitions, sentence in _reasons(instance, run):
        if not sentence.startswith(InputProblemError.begin):
            parts = [_part(each) for each in partitions]
            yield Failure(
                "run failed",
                subject,
                sentence,
                parts=parts[:_NAMED_PARTS],
                count=max(1, len(parts)),
                since=datetime.fromtimestamp(record.end_time, UTC) if record.end_time else record.update_timestamp,
                run_id=run.run_id,
                accounts={account for account, _ in parts},
                open_until=[run.run_id],
            )


def _reasons(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[tuple[str, Sequence[str], str]]:
    """Yield the subject, the partitions and the reason of each failure of a run.

    A step that fails as a whole has failed for each partition that the run has not materialized.
    """
    steps = instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for step in steps:
        event = step.event_log_entry.get_dagster_event()
        subject, failed = _subject(run, event.step_key), event.step_failure_data
        raised = failed.user_failure_data
        metadata = {name: value for name, value in raised.metadata.items() if name != EXIT_CODE} if raised else {}
        if raised is not None and not all(isinstance(value, dg.TextMetadataValue) for value in metadata.values()):
            # Facts, not reasons by name.
            yield subject, _left(instance, run, subject), raised.description or _TRACEBACK
            continue
        for name, value in metadata.items():
            yield subject, [name], str(value.value)
        if not metadata:
            reason = _first_line(failed.error)
            # A failure with an exit code names the next step itself, and has no traceback.
            is_foreseen = raised is not None and EXIT_CODE in raised.metadata
            sentence = followed(reason, "" if is_foreseen else _TRACEBACK)
            yield subject, _left(instance, run, subject), sentence
    ends = () if steps else instance.get_records_for_run(run.run_id, of_type=DagsterEventType.RUN_FAILURE).records
    for end in ends:
        event = end.event_log_entry.get_dagster_event()
        error = getattr(event.event_specific_data, "error", None)  # none, if the run was ended from outside
        reason = _first_line(error) or (event.message or "").strip().splitlines()[0]
        for subject in sorted(key.to_user_string() for key in run.asset_selection or ()) or [_subject(run, None)]:
            yield subject, _left(instance, run, subject), followed(reason, _TRACEBACK)


def _left(instance: dg.DagsterInstance, run: dg.DagsterRun, subject: str) -> Sequence[str]:
    """Return the partitions that a run was to materialize and has not."""
    if subject.startswith(_JOB):
        return []
    unfinished = _unfinished(instance, dg.AssetKey.from_user_string(subject))
    return sorted(name for name, run_id in unfinished.items() if run_id == run.run_id)


def _part(partition: str) -> Part:
    account, _, day = partition.partition("|")
    try:
        return account, date.fromisoformat(day)
    except ValueError:
        return partition, None


def _first_line(error: SerializableErrorInfo | None) -> str:
    """Return the first line of an error. If Dagster has wrapped an error in it, that counts."""
    while error is not None and error.cause is not None and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    lines = error.message.strip().splitlines() if error is not None else []
    return lines[0].rstrip(".")[:_LONGEST_LINE] if lines else ""


def _subject(run: dg.DagsterRun, step_key: str | None) -> str:
    """Return the asset of a step, or the job where it is none."""
    return step_key.replace("__", "/") if step_key and "__" in step_key else f"{_JOB}{run.job_name}"
