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
from seller_platform.orchestration.assets.accounts import AUTHORIZED_CHECK
from seller_platform.orchestration.partitions import asset_key
from seller_platform.orchestration.tags import EXIT_CODE

_KINDS = {dg.AssetCheckSeverity.ERROR: "Check", dg.AssetCheckSeverity.WARN: "Warning: check"}
_RUNS_PER_TICK = 200
_EVALUATIONS_AT_ONCE = 1_000
# Dagster ends an evaluation after 60 s, and the last message may take half of them.
_READING_SECONDS = 20.0
_LONGEST_AHEAD = timedelta(minutes=5)
# The connections are looked at each minute: what asks for another authorisation is left to their check for a while.
_CHECK_TELLS_WITHIN = timedelta(minutes=3)
_ASKS_TO_CONNECT = connect_command()
_JUDGEMENTS_READ = 5
_WILL_RETRY, _RETRY = "dagster/will_retry", "dagster/auto_retry_run_id"
_JOB = "job "
_TRACEBACK = "Open the run in the Dagster UI for the traceback, mend the cause and launch the run again."
_LONGEST_LINE = 500


@dataclass(frozen=True)
class EventReader:
    """What the reading of events needs to know.

    Attributes:
        until: Events that are younger than this are left to the next tick.
        accounts: The keys of accounts, the first part of every partition.
        secrets: What may not stand in a message.
    """

    instance: dg.DagsterInstance
    until: datetime
    accounts: Collection[str]
    secrets: Sequence[str]

    def failure(self, kind: str, place: str, name: str, sentence: str, record: EventLogRecord) -> Failure:
        """Return a failure, its sentence without secrets; a name that is no partition's has no part in it."""
        told = redacted(sentence.strip(), self.secrets)
        partition = name if name.partition("|")[0] in self.accounts else ""
        cause = cause_of(kind, place, told, self.accounts)
        failed_at = datetime.fromtimestamp(record.timestamp, UTC)
        return Failure(kind, cause, place, partition, told, record.run_id, record.storage_id, failed_at)

    def has_settled(self, record: EventLogRecord) -> bool:
        """Whether an event is old enough to be read."""
        return is_past(datetime.fromtimestamp(record.timestamp, UTC), self.until, _LONGEST_AHEAD)

    def is_left_to_the_check(self, failure: Failure) -> bool:
        """Whether the check of the connections may still report a failure."""
        reported_by = failure.failed_at + _CHECK_TELLS_WITHIN
        return _ASKS_TO_CONNECT in failure.sentence and not is_past(reported_by, self.until, _CHECK_TELLS_WITHIN)


def newest_run_failure(instance: dg.DagsterInstance) -> int:
    found = instance.fetch_run_status_changes(DagsterEventType.RUN_FAILURE, limit=1).records
    return found[0].storage_id if found else 0


def read_runs(reading: EventReader, known: Alerts) -> None:
    """Note what was materialized after it had failed, and take the failures of the runs that ended since."""
    for cause in known.causes.values():
        for place, partitions in list(cause.partitions.items()):
            for partition in _well(reading.instance, cause, place, partitions):
                cause.heal(place, partition)
    records = reading.instance.fetch_run_status_changes(
        dg.RunStatusChangeRecordsFilter(DagsterEventType.RUN_FAILURE, after_storage_id=known.read_to),
        limit=_RUNS_PER_TICK,
        ascending=True,
    ).records
    began = monotonic()
    for record in takewhile(reading.has_settled, records):
        if monotonic() - began > _READING_SECONDS:
            break
        run = reading.instance.get_run_by_id(record.run_id)
        if run is not None and run.tags.get(_WILL_RETRY) == "true":
            known.retried[run.run_id] = record.storage_id
        elif run is not None:
            failures = _not_told_by_the_check(reading, _failures_of_run(reading, run, record))
            if any(map(reading.is_left_to_the_check, failures)):
                break
            for failure in failures:
                known.take(failure)
        known.read_to = record.storage_id
    _take_retries_given_up(reading, known)


def _not_told_by_the_check(reading: EventReader, failures: Iterator[Failure]) -> list[Failure]:
    """Return the failures but those of which the check of the connections tells, in the same words."""
    found = list(failures)
    history = reading.instance.event_log_storage.get_asset_check_execution_history(
        dg.AssetCheckKey(asset_key(ACCOUNTS), AUTHORIZED_CHECK), limit=_JUDGEMENTS_READ
    )
    told = [
        redacted(evaluation.description or "", reading.secrets)
        for evaluation in (record.evaluation for record in history)
        if evaluation is not None and not evaluation.passed and _is_told_of(evaluation)
    ]
    return [failure for failure in found if not any(failure.sentence in judgement for judgement in told)]


def _is_told_of(evaluation: dg.AssetCheckEvaluation) -> bool:
    """Whether a failed check is told of; of a slice that could not be stored, its run tells."""
    return evaluation.target_materialization_data is not None


def _take_retries_given_up(reading: EventReader, known: Alerts) -> None:
    """Take the failures that Dagster meant to make good by another run, and then did not."""
    for run_id, event_id in list(known.retried.items()):
        run = reading.instance.get_run_by_id(run_id)
        if run is not None and _RETRY not in run.tags and run.tags.get(_WILL_RETRY) != "true":
            wanted = dg.RunStatusChangeRecordsFilter(DagsterEventType.RUN_FAILURE, storage_ids=[event_id])
            for record in reading.instance.fetch_run_status_changes(wanted, limit=1).records:
                for failure in _not_told_by_the_check(reading, _failures_of_run(reading, run, record)):
                    known.take(failure)
        elif run is not None and _RETRY not in run.tags:
            continue
        del known.retried[run_id]
    known.retried = dict(list(known.retried.items())[-_RUNS_PER_TICK:])


def _failures_of_run(reading: EventReader, run: dg.DagsterRun, record: EventLogRecord) -> Iterator[Failure]:
    steps = reading.instance.get_records_for_run(run.run_id, of_type=DagsterEventType.STEP_FAILURE).records
    for step in steps:
        event = step.event_log_entry.get_dagster_event()
        place, failed = _place(run, event.step_key), event.step_failure_data
        named = failed.user_failure_data.metadata if failed.user_failure_data else {}
        for name, value in named.items():
            if name != EXIT_CODE:
                yield reading.failure(RUN, place, name, str(value.value), record)
        if not named:
            yield reading.failure(RUN, place, "", f"{_first_line(failed.error)}. {_TRACEBACK}", record)
    if not steps:
        event = record.event_log_entry.get_dagster_event()
        told = _first_line(event.job_failure_data.error) or (event.message or "").strip().splitlines()[0]
        for place in sorted(key.to_user_string() for key in run.asset_selection or ()) or [_place(run, None)]:
            yield reading.failure(RUN, place, "", f"{told.rstrip('.')}. {_TRACEBACK}", record)


def _first_line(error: SerializableErrorInfo | None) -> str:
    """Return what was raised, in a line: where Dagster has wrapped it, what is inside."""
    while error is not None and error.cause is not None and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    lines = error.message.strip().splitlines() if error is not None else []
    return lines[0].rstrip(".")[:_LONGEST_LINE] if lines else ""


def _place(run: dg.DagsterRun, step_key: str | None) -> str:
    """Return the asset of a step, or the job where it is none."""
    return step_key.replace("__", "/") if step_key and "__" in step_key else f"{_JOB}{run.job_name}"


def _well(instance: dg.DagsterInstance, cause: Cause, place: str, partitions: Mapping[str, int]) -> Collection[str]:
    """Return the partitions of a place that came after they had failed; of a job, whether it succeeded since."""
    if place.startswith(_JOB):
        succeeded = dg.RunsFilter(
            job_name=place.removeprefix(_JOB), statuses=[dg.DagsterRunStatus.SUCCESS], updated_after=cause.last_seen
        )
        return [*partitions] if instance.get_runs_count(succeeded) else []
    came = instance.fetch_materializations(
        dg.AssetRecordsFilter(
            dg.AssetKey.from_user_string(place),
            asset_partitions=None if "" in partitions else [*partitions],
            after_storage_id=min(partitions.values()),
        ),
        limit=100,
    ).records
    return {
        partition
        for partition, failed in partitions.items()
        if any(record.storage_id > failed and partition in ("", record.partition_key) for record in came)
    }


def newest_evaluation(instance: dg.DagsterInstance) -> int:
    found = _evaluations(instance, limit=1, ascending=False)
    return found[0].storage_id if found else 0


def _evaluations(
    instance: dg.DagsterInstance, *, after: int | None = None, limit: int, ascending: bool = True
) -> Sequence[EventLogRecord]:
    """Return evaluations of checks, of every partition.

    Dagster has `fetch_` methods for every other kind of event; the instance's own for this kind warns that it will go.
    """
    wanted = dg.EventRecordsFilter(DagsterEventType.ASSET_CHECK_EVALUATION, after_cursor=after)
    return instance.event_log_storage.get_event_records(wanted, limit, ascending)


def read_checks(reading: EventReader, known: Alerts) -> None:
    """Take the evaluations since, those that failed and those that passed, in their order."""
    began = monotonic()
    while monotonic() - began < _READING_SECONDS:
        records = _evaluations(reading.instance, after=known.read_to, limit=_EVALUATIONS_AT_ONCE)
        settled = list(takewhile(reading.has_settled, records))
        for record in settled:
            _take_evaluation(reading, known, record)
            known.read_to = record.storage_id
        if len(settled) < _EVALUATIONS_AT_ONCE:
            return


def _take_evaluation(reading: EventReader, known: Alerts, record: EventLogRecord) -> None:
    evaluation = record.event_log_entry.get_dagster_event().asset_check_evaluation_data
    place = f"{evaluation.asset_key.to_user_string()}, {evaluation.check_name}"
    if evaluation.passed:
        known.heal(place, evaluation.partition or "")
    elif _is_told_of(evaluation):
        told = evaluation.description or "It says no more."
        known.take(reading.failure(_KINDS[evaluation.severity], place, evaluation.partition or "", told, record))
