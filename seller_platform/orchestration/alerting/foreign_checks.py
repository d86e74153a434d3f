"""Failed checks of the project's own assets; what our checks find is in `platform.problems`."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster import DagsterEventType, EventLogRecord

from seller_platform.contract import DATASETS
from seller_platform.orchestration.alerting.causes import Alerts, Failure
from seller_platform.orchestration.assets.freshness import FRESHNESS
from seller_platform.orchestration.partitions import asset_key
from seller_platform.warehouse.marts import MARTS

_EVALUATIONS_AT_ONCE = 1_000
_OURS = {tuple(key.path) for key in (*map(asset_key, DATASETS), *map(asset_key, MARTS), FRESHNESS)}
"""The last parts of the keys of our assets with checks."""


def newest_evaluation(instance: dg.DagsterInstance) -> int:
    """Return the number of the newest evaluation of a check; 0 without one."""
    records = _evaluations(instance, limit=1, ascending=False)
    return records[0].storage_id if records else 0


def failures_of_checks(
    instance: dg.DagsterInstance, alerts: Alerts, has_settled: Callable[[datetime], bool]
) -> Iterator[Failure]:
    """Yield the checks that failed since, and remove from open causes the partitions of those that passed.

    Args:
        has_settled: Whether a moment is long enough ago; younger events are left to the next tick.
    """
    for record in _evaluations(instance, after=int(alerts.read_to), limit=_EVALUATIONS_AT_ONCE):
        evaluated_at = datetime.fromtimestamp(record.timestamp, UTC)
        if not has_settled(evaluated_at):
            break
        alerts.read_to = record.storage_id
        evaluation = record.event_log_entry.get_dagster_event().asset_check_evaluation_data
        if tuple(evaluation.asset_key.path[-2:]) in _OURS:
            continue
        subject, partition = f"{evaluation.asset_key.to_user_string()}, {evaluation.check_name}", evaluation.partition
        if evaluation.passed:
            for cause in alerts.causes.values():
                cause.open_until[subject] = [
                    each for each in cause.open_until.get(subject, ()) if each != (partition or "")
                ]
            continue
        yield Failure(
            "check failed",
            subject,
            evaluation.description or "The check gives no reason.",
            parts=[(partition, None)] if partition else (),
            since=evaluated_at,
            run_id=record.run_id or None,
            is_warning=evaluation.severity is dg.AssetCheckSeverity.WARN,
            accounts=[partition] if partition else (),
            open_until=[partition or ""],
        )


def _evaluations(
    instance: dg.DagsterInstance, *, after: int | None = None, limit: int, ascending: bool = True
) -> Sequence[EventLogRecord]:
    """Return evaluations of checks, of every partition.

    Dagster has `fetch_` methods for every other kind of event; the instance's own for this kind is deprecated.
    """
    evaluations = dg.EventRecordsFilter(DagsterEventType.ASSET_CHECK_EVALUATION, after_cursor=after)
    return instance.event_log_storage.get_event_records(evaluations, limit, ascending)
