"""Reads failures of runs and of checks from Dagster's event log."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from time import monotonic

import dagster as dg
from dagster import DagsterEventType, EventLogRecord
from dagster_shared.error import SerializableErrorInfo

from seller_platform.clocks import is_past
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.errors import connect_command
from seller_platform.orchestration.alerting.causes import RUN, Alerts, Cause, Failure, cause_of, redacted
from seller_platform.orchestration.assets.authorization import AUTHORIZED_CHECK
from seller_platform.orchestration.partitions import asset_key
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

    def failure(self, kind: str, subject: str, name: str, sentence: str, record: EventLogRecord) -> Failure:
        """Return a failure whose sentence has no secrets.

        Args:
            name: The key of the partition; any other name counts as no partition.
        """
        reason = redacted(sentence.strip(), self.secrets)
        partition = name if name.partition("|")[0] in self.accounts else ""
        cause = cause_of(kind, subject, reason, self.accounts)
        failed_at = datetime.fromtimestamp(record.timestamp, UTC)
        return Failure(kind, cause, subject, partition, reason, record.run_id, record.storage_id, failed_at)

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
                reason = evaluation.description or "The check gives no reason."
                alerts.add(reader.failure(_KINDS[evaluation.severity], subject, partition, reason, record))
            alerts.read_to = record.storage_id
        if len(settled) < _EVALUATIONS_AT_ONCE:
            return


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
    """Return a run's failures without those that the check of the connections reports."""
    failures = list(_failures_of_run(reader, run, record))
    history = reader.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(asset_key(ACCOUNTS), AUTHORIZED_CHECK), limit=_EVALUATIONS_OF_CONNECTIONS
    )
    reported = [
        redacted(evaluation.description or "", reader.secrets)
        for evaluation in (execution.evaluation for execution in history)
        if evaluation is not None and not evaluation.passed and _is_reported(evaluation)
    ]
    return [failure for failure in failures if not any(failure.sentence in description for description in reported)]


def _is_reported(evaluation: dg.AssetCheckEvaluation) -> bool:
    """Return whether a failed check is reported. If its slice could not be stored or is held, the run reports it."""
    return evaluation.target_materialization_data is not None and REPORTED_BY_RUN not in evaluation.metadata


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


def _failures_of_run(reader: EventReader, run: dg.DagsterRun, record: EventLogRecord) -> Iterator[Failure]:
    steps = reader.instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for step in steps:
        event = step.event_log_entry.get_dagster_event()
        subject, failed = _subject(run, event.step_key), event.step_failure_data
        metadata = failed.user_failure_data.metadata if failed.user_failure_data else {}
        for name, value in metadata.items():
            if name != EXIT_CODE:
                yield reader.failure(RUN, subject, name, str(value.value), record)
        if not metadata:
            yield reader.failure(RUN, subject, "", f"{_first_line(failed.error)}. {_TRACEBACK}", record)
    if not steps:
        event = record.event_log_entry.get_dagster_event()
        reason = _first_line(event.job_failure_data.error) or (event.message or "").strip().splitlines()[0]
        for subject in sorted(key.to_user_string() for key in run.asset_selection or ()) or [_subject(run, None)]:
            yield reader.failure(RUN, subject, "", f"{reason.rstrip('.')}. {_TRACEBACK}", record)


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
