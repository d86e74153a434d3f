"""Reads failures of runs and of checks from Dagster's event log."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from time import monotonic

import dagster as dg
from dagster import DagsterEventType, EventLogRecord

# The status of a check's newest execution for a partition; Dagster has no public name for it.
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster_shared.error import SerializableErrorInfo

from seller_platform.clocks import is_past
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.errors import InputProblemError, connect_command
from seller_platform.orchestration.alerting.causes import RUN, Alerts, Cause, Failure, cause_of, redacted
from seller_platform.orchestration.assets.authorization import AUTHORIZED_CHECK
from seller_platform.orchestration.assets.freshness import FRESHNESS
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.tags import EXIT_CODE, REPORTED_BY_RUN

_KINDS = {dg.AssetCheckSeverity.ERROR: "Check", dg.AssetCheckSeverity.WARN: "Warning: check"}
_RUNS_PER_TICK = 200
_EVALUATIONS_AT_ONCE = 1_000
# Dagster ends an evaluation after 60 s, and the last message may take half of them.
_READING_SECONDS = 20.0
_LONGEST_AHEAD = timedelta(minutes=5)
# Discovery evaluates the check of the connections each minute; for this long a failed run leaves the report to it.
_CHECK_REPORTS_WITHIN = timedelta(minutes=3)
_ASKS_TO_CONNECT = connect_command()
_EVALUATIONS_OF_CONNECTIONS = 5
_WILL_RETRY, _RETRY = "dagster/will_retry", "dagster/auto_retry_run_id"
_JOB = "job "
_TRACEBACK = "Open the run in the Dagster UI for the traceback, fix the cause and launch the run again."
_LONGEST_LINE = 500
_EXAMPLES = 3


@dataclass(frozen=True)
class EventReader:
    """Turns events into failures.

    Attributes:
        until: Younger events are left to the next tick.
        accounts: The keys of all accounts; the key of a partition begins with one.
        secrets: The secrets that no message may contain.
    """

    instance: dg.DagsterInstance
    until: datetime
    accounts: Collection[str]
    secrets: Sequence[str]
    placement: Placement = WHOLE

    def failure(
        self, kind: str, subject: str, name: str, sentence: str, record: EventLogRecord, *, examples: str = ""
    ) -> Failure:
        """Return a failure whose texts have no secrets.

        Args:
            name: The key of the partition; any other name counts as no partition.
        """
        reason = redacted(sentence.strip(), self.secrets)
        partition = name if name.partition("|")[0] in self.accounts else ""
        cause = cause_of(kind, subject, reason, self.accounts)
        failed_at = datetime.fromtimestamp(record.timestamp, UTC)
        shown = redacted(examples, self.secrets)
        return Failure(kind, cause, subject, partition, reason, record.run_id, record.storage_id, failed_at, shown)

    def has_settled(self, record: EventLogRecord) -> bool:
        """Return whether an event is old enough to be read."""
        return is_past(datetime.fromtimestamp(record.timestamp, UTC), self.until, _LONGEST_AHEAD)

    def is_left_to_the_check(self, failure: Failure) -> bool:
        """Return whether the check of the connections may still report a failure."""
        reported_by = failure.failed_at + _CHECK_REPORTS_WITHIN
        return _ASKS_TO_CONNECT in failure.sentence and not is_past(reported_by, self.until, _CHECK_REPORTS_WITHIN)


def newest_run_failure(instance: dg.DagsterInstance) -> int:
    """Return the number of the newest event of a failed run; 0 without one."""
    records = instance.fetch_run_status_changes(DagsterEventType.RUN_FAILURE, limit=1).records
    return records[0].storage_id if records else 0


def newest_evaluation(instance: dg.DagsterInstance) -> int:
    """Return the number of the newest evaluation of a check; 0 without one."""
    records = _evaluations(instance, limit=1, ascending=False)
    return records[0].storage_id if records else 0


def read_runs(reader: EventReader, alerts: Alerts) -> None:
    """Resolve what has recovered, and add the failures of the runs that failed since."""
    for cause in alerts.causes.values():
        for subject, partitions in list(cause.partitions.items()):
            for partition in _recovered(reader.instance, cause, subject, partitions):
                cause.resolve(subject, partition)
    records = reader.instance.fetch_run_status_changes(
        dg.RunStatusChangeRecordsFilter(DagsterEventType.RUN_FAILURE, after_storage_id=alerts.read_to),
        limit=_RUNS_PER_TICK,
        ascending=True,
    ).records
    began = monotonic()
    for record in takewhile(reader.has_settled, records):
        if monotonic() - began > _READING_SECONDS:
            break
        run = reader.instance.get_run_by_id(record.run_id)
        if run is not None and run.tags.get(_WILL_RETRY) == "true":
            alerts.retried[run.run_id] = record.storage_id
        elif run is not None:
            failures = _failures_to_report(reader, run, record)
            if any(map(reader.is_left_to_the_check, failures)):
                break
            for failure in failures:
                alerts.add(failure)
        alerts.read_to = record.storage_id
    _add_retries_given_up(reader, alerts)


def read_checks(reader: EventReader, alerts: Alerts) -> None:
    """Add the checks that failed since the last tick, and resolve those that passed."""
    began = monotonic()
    while monotonic() - began < _READING_SECONDS:
        records = _evaluations(reader.instance, after=alerts.read_to, limit=_EVALUATIONS_AT_ONCE)
        settled = list(takewhile(reader.has_settled, records))
        for record in settled:
            evaluation = record.event_log_entry.get_dagster_event().asset_check_evaluation_data
            subject = f"{evaluation.asset_key.to_user_string()}, {evaluation.check_name}"
            partition = evaluation.partition or ""
            if evaluation.passed:
                alerts.resolve(subject, partition)
            elif _is_reported(evaluation):
                alerts.add(_failure_of_check(reader, evaluation, record))
            alerts.read_to = record.storage_id
        if len(settled) < _EVALUATIONS_AT_ONCE:
            return


def look_up_failed(reader: EventReader, alerts: Alerts) -> None:
    """Find which partitions are still failed where all remembered ones of a cause have recovered.

    Where runs of an asset are under way, the next tick looks again.
    """
    for key, cause in alerts.causes.items():
        for subject in cause.to_look_up:
            is_check = ", " in subject
            failed = _failed_checks(reader, key, subject) if is_check else _failed_partitions(reader, key, subject)
            if failed is not None:
                cause.remember(subject, failed)


def _failed_checks(reader: EventReader, cause: str, subject: str) -> dict[str, int]:
    """Return the partitions whose newest evaluation of a check has failed for this cause."""
    asset, _, name = subject.partition(", ")
    storage = reader.instance.event_log_storage
    check = dg.AssetCheckKey(dg.AssetKey.from_user_string(asset), name)
    ids = [
        state.latest_check_event_storage_id
        for state in storage.get_asset_check_partition_info([check])
        if state.latest_execution_status is AssetCheckExecutionRecordStatus.FAILED
    ]
    failed: dict[str, int] = {}
    for records in (
        storage.get_event_records(dg.EventRecordsFilter(DagsterEventType.ASSET_CHECK_EVALUATION, storage_ids=some))
        for some in _batches(ids)
    ):
        for record in records:
            evaluation = record.event_log_entry.get_dagster_event().asset_check_evaluation_data
            failure = _failure_of_check(reader, evaluation, record)
            if failure.cause == cause and _is_reported(evaluation):
                failed[failure.partition] = record.storage_id
    return failed


def _batches(ids: Sequence[int]) -> Iterator[list[int]]:
    remaining = iter(ids)
    while some := list(islice(remaining, _EVALUATIONS_AT_ONCE)):
        yield some


def _failed_partitions(reader: EventReader, cause: str, subject: str) -> dict[str, int] | None:
    """Return the partitions of an asset whose newest run has failed for this cause; None while runs are under way."""
    attempts = _unfinished(reader.instance, subject)
    runs = {run_id: reader.instance.get_run_by_id(run_id) for run_id, _ in attempts.values()}
    if any(run is not None and not run.is_finished for run in runs.values()):
        return None
    of_cause = {
        (run_id, name)
        for run_id, run in runs.items()
        if run is not None and run.status is dg.DagsterRunStatus.FAILURE
        for asset, name, sentence in _reasons(reader, run)
        if asset == subject
        and cause_of(RUN, subject, redacted(sentence.strip(), reader.secrets), reader.accounts) == cause
    }
    return {name: planned for name, (run_id, planned) in attempts.items() if (run_id, name) in of_cause}


def _unfinished(instance: dg.DagsterInstance, subject: str) -> Mapping[str, tuple[str, int]]:
    """Return the partitions of an asset that their newest run has not materialized, with the run and an event."""
    # Dagster finds failed partitions with it, too; the instance has no public method for it.
    asset = dg.AssetKey.from_user_string(subject)
    return instance.event_log_storage.get_latest_asset_partition_materialization_attempts_without_materializations(
        asset
    )


def _recovered(
    instance: dg.DagsterInstance, cause: Cause, subject: str, partitions: Mapping[str, int]
) -> Collection[str]:
    """Return the partitions that were materialized after their failure.

    A job has no materializations: all its partitions have recovered once a run of it has succeeded.
    """
    if subject.startswith(_JOB):
        succeeded = dg.RunsFilter(
            job_name=subject.removeprefix(_JOB), statuses=[dg.DagsterRunStatus.SUCCESS], updated_after=cause.last_seen
        )
        return [*partitions] if instance.get_runs_count(succeeded) else []
    materializations = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            dg.AssetKey.from_user_string(subject),
            asset_partitions=None if "" in partitions else [*partitions],
            after_storage_id=min(partitions.values()),
        ),
        limit=100,
    ).records
    return {
        partition
        for partition, failed in partitions.items()
        if any(record.storage_id > failed and partition in ("", record.partition_key) for record in materializations)
    }


def _failures_to_report(reader: EventReader, run: dg.DagsterRun, record: EventLogRecord) -> list[Failure]:
    """Return a run's failures without those that an input of a mart or the check of the connections reports."""
    failures = list(_failures_of_run(reader, run, record))
    failures = [each for each in failures if not each.sentence.startswith(InputProblemError.begin)]
    history = reader.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(reader.placement.asset_key(ACCOUNTS), AUTHORIZED_CHECK), limit=_EVALUATIONS_OF_CONNECTIONS
    )
    reported = [
        redacted(evaluation.description or "", reader.secrets)
        for evaluation in (execution.evaluation for execution in history)
        if evaluation is not None and not evaluation.passed and _is_reported(evaluation)
    ]
    return [failure for failure in failures if not any(failure.sentence in description for description in reported)]


def _is_reported(evaluation: dg.AssetCheckEvaluation) -> bool:
    """Return whether a failed check is reported. If its slice could not be stored or is held, the run reports it."""
    # The asset of freshness is never materialized.
    is_freshness = evaluation.asset_key.path[-len(FRESHNESS.path) :] == FRESHNESS.path  # of any project
    judges_rows = evaluation.target_materialization_data is not None or is_freshness
    return judges_rows and REPORTED_BY_RUN not in evaluation.metadata


def _add_retries_given_up(reader: EventReader, alerts: Alerts) -> None:
    """Add the failures of runs that Dagster was to start again and did not."""
    for run_id, event_id in list(alerts.retried.items()):
        run = reader.instance.get_run_by_id(run_id)
        if run is not None and _RETRY not in run.tags:
            if run.tags.get(_WILL_RETRY) == "true":
                continue
            event = dg.RunStatusChangeRecordsFilter(DagsterEventType.RUN_FAILURE, storage_ids=[event_id])
            for record in reader.instance.fetch_run_status_changes(event, limit=1).records:
                for failure in _failures_to_report(reader, run, record):
                    alerts.add(failure)
        del alerts.retried[run_id]
    alerts.retried = dict(list(alerts.retried.items())[-_RUNS_PER_TICK:])


def _failure_of_check(reader: EventReader, evaluation: dg.AssetCheckEvaluation, record: EventLogRecord) -> Failure:
    subject = f"{evaluation.asset_key.to_user_string()}, {evaluation.check_name}"
    reason = evaluation.description or "The check gives no reason."
    kind, partition, examples = _KINDS[evaluation.severity], evaluation.partition or "", _examples(evaluation)
    return reader.failure(kind, subject, partition, reason, record, examples=examples)


def _examples(evaluation: dg.AssetCheckEvaluation) -> str:
    """Return rows that contradict a check, as `sku A, units 3; sku B, units 4`."""
    value = getattr(evaluation.metadata.get("examples"), "value", None)
    rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
    return "; ".join(
        ", ".join(f"{name} {cell}" for name, cell in row.items() if cell is not None) for row in rows[:_EXAMPLES]
    )


def _failures_of_run(reader: EventReader, run: dg.DagsterRun, record: EventLogRecord) -> Iterator[Failure]:
    for subject, name, sentence in _reasons(reader, run, record):
        yield reader.failure(RUN, subject, name, sentence, record)


def _reasons(
    reader: EventReader, run: dg.DagsterRun, record: EventLogRecord | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield the subject, the partition and the reason of each failure of a run.

    A step that fails as a whole has failed for each partition that the run has not materialized.

    Args:
        record: The event of the failed run; by default it is read.
    """
    whole = run.tags.get("dagster/partition", "")
    steps = reader.instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for step in steps:
        event = step.event_log_entry.get_dagster_event()
        subject, failed = _subject(run, event.step_key), event.step_failure_data
        raised = failed.user_failure_data
        metadata = {name: value for name, value in raised.metadata.items() if name != EXIT_CODE} if raised else {}
        if raised is not None and not all(isinstance(value, dg.TextMetadataValue) for value in metadata.values()):
            # Facts, not reasons by name.
            yield subject, whole, raised.description or _TRACEBACK
            continue
        for name, value in metadata.items():
            yield subject, name if name.partition("|")[0] in reader.accounts else whole, str(value.value)
        if not metadata:
            for partition in _left(reader.instance, run, subject):
                reason = f"{_first_line(failed.error)}."
                # A failure with an exit code names the next step itself, and has no traceback.
                yield (
                    subject,
                    partition,
                    reason if raised is not None and EXIT_CODE in raised.metadata else f"{reason} {_TRACEBACK}",
                )
    if steps:
        return
    if record is None:
        records = reader.instance.get_records_for_run(run.run_id, of_type=DagsterEventType.RUN_FAILURE).records
        if not records:
            return
        record = records[0]
    event = record.event_log_entry.get_dagster_event()
    reason = _first_line(event.job_failure_data.error) or (event.message or "").strip().splitlines()[0]
    for subject in sorted(key.to_user_string() for key in run.asset_selection or ()) or [_subject(run, None)]:
        for partition in _left(reader.instance, run, subject):
            yield subject, partition, f"{reason.rstrip('.')}. {_TRACEBACK}"


def _left(instance: dg.DagsterInstance, run: dg.DagsterRun, subject: str) -> Sequence[str]:
    """Return the partitions that a run was to materialize and has not; "" stands for a run without partitions."""
    if subject.startswith(_JOB):
        return [""]
    unfinished = _unfinished(instance, subject).items()
    return sorted(name for name, (run_id, _) in unfinished if run_id == run.run_id) or [""]


def _first_line(error: SerializableErrorInfo | None) -> str:
    """Return the first line of an error. If Dagster has wrapped an error in it, that counts."""
    while error is not None and error.cause is not None and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    lines = error.message.strip().splitlines() if error is not None else []
    return lines[0].rstrip(".")[:_LONGEST_LINE] if lines else ""


def _subject(run: dg.DagsterRun, step_key: str | None) -> str:
    """Return the asset of a step, or the job where it is none."""
    return step_key.replace("__", "/") if step_key and "__" in step_key else f"{_JOB}{run.job_name}"


def _evaluations(
    instance: dg.DagsterInstance, *, after: int | None = None, limit: int, ascending: bool = True
) -> Sequence[EventLogRecord]:
    """Return evaluations of checks, of every partition.

    Dagster has `fetch_` methods for every other kind of event; the instance's own for this kind is deprecated.
    """
    evaluations = dg.EventRecordsFilter(DagsterEventType.ASSET_CHECK_EVALUATION, after_cursor=after)
    return instance.event_log_storage.get_event_records(evaluations, limit, ascending)
