"""The automation condition of partitions that follow their inputs, and its sensor."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import dagster as dg

from seller_platform.orchestration.automation.provenance import (
    changed_partitions,
    code_version_of,
    has_changed,
    read_after,
    stored_with_other_code,
)

SECONDS_BETWEEN_TICKS = 30
_RECORDS_AT_ONCE = 500
_HOURLY = "20 * * * *"

Context = dg.AutomationContext[dg.AssetKey]
Result = dg.AutomationResult[dg.AssetKey]


class InputsChanged(dg.AutomationCondition[dg.AssetKey]):
    """True for partitions with an input whose rows have changed since the last tick.

    Unlike `any_deps_match(data_version_changed())` it looks only at partitions of inputs that have new events, which
    takes no time where nothing was loaded.
    """

    def __init__(self, followed: Iterable[dg.AssetKey]) -> None:
        """Keep the inputs to look at."""
        self._followed = tuple(followed)

    @property
    def name(self) -> str:
        """The name in the UI."""
        return "inputs_changed"

    def evaluate(self, context: Context) -> Result:
        """Return the partitions."""
        changed, last = context.get_empty_subset(), context.previous_max_storage_id
        if context.previous_evaluation_time is not None:
            view, until = context.asset_graph_view, context.max_storage_id
            for key in self._followed:
                inputs = view.get_full_subset(key=key)
                if not context.asset_graph.get(key).is_partitioned:
                    if has_changed(view.instance, key, after=last or 0, until=until):
                        changed = changed.compute_union(inputs.compute_child_subset(context.key))
                    continue
                keys = changed_partitions(view.instance, key, after=last or 0, until=until)
                if keys:
                    inputs = inputs.compute_intersection_with_partition_keys(keys)
                    changed = changed.compute_union(inputs.compute_child_subset(context.key))
        return dg.AutomationResult(context, context.candidate_subset.compute_intersection(changed))


class WasBuiltOfCurrentInputs(dg.AutomationCondition[dg.AssetKey]):
    """True for partitions built since the last tick, with today's code, of inputs that have not changed since.

    A build that had read its inputs before they changed does not count.
    """

    def __init__(self, followed: Iterable[dg.AssetKey]) -> None:
        """Keep the inputs to look at."""
        self._followed = tuple(followed)

    @property
    def name(self) -> str:
        """The name in the UI."""
        return "was_built_of_current_inputs"

    def evaluate(self, context: Context) -> Result:
        """Return the partitions."""
        view, code_version = context.asset_graph_view, context.asset_graph.get(context.key).code_version
        built: dict[int, set[str]] = {}
        if context.previous_evaluation_time is not None:
            for partition, tags in self._newest_builds(context):
                pointer = read_after(tags, self._followed)
                if pointer is not None and code_version_of(tags) == code_version:
                    built.setdefault(pointer, set()).add(partition)
        current = context.get_empty_subset()
        for pointer, partitions in built.items():
            subset = context.candidate_subset.compute_intersection_with_partition_keys(partitions)
            for key in self._followed:
                inputs = subset.compute_parent_subset(key)
                changed = changed_partitions(
                    view.instance,
                    key,
                    after=pointer,
                    until=context.max_storage_id,
                    among={str(each) for each in inputs.expensively_compute_partition_keys()},
                )
                if changed:
                    inputs = inputs.compute_intersection_with_partition_keys(changed)
                    subset = subset.compute_difference(inputs.compute_child_subset(context.key))
            current = current.compute_union(subset)
        return dg.AutomationResult(context, current)

    def _newest_builds(self, context: Context) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each partition that was built since the last tick, with the tags of its newest build."""
        of_tick = dg.AssetRecordsFilter(
            asset_key=context.key,
            after_storage_id=context.previous_max_storage_id,
            before_storage_id=None if context.max_storage_id is None else context.max_storage_id + 1,
        )
        seen: set[str] = set()
        cursor, has_more = None, True
        while has_more:
            page = context.asset_graph_view.instance.fetch_materializations(
                of_tick, limit=_RECORDS_AT_ONCE, cursor=cursor
            )
            cursor, has_more = page.cursor, page.has_more
            for record in page.records:
                event = record.asset_materialization
                if event is not None and event.partition is not None and event.partition not in seen:
                    seen.add(event.partition)
                    yield event.partition, dict(event.tags or {})


class WasBuiltWithOtherCode(dg.AutomationCondition[dg.AssetKey]):
    """True once after each change of the code version, for partitions that are stored with another one."""

    @property
    def name(self) -> str:
        """The name in the UI."""
        return "was_built_with_other_code"

    def evaluate(self, context: Context) -> Result:
        """Return the partitions."""
        code_version, outdated = context.asset_graph.get(context.key).code_version, context.get_empty_subset()
        if code_version is not None and context.cursor != code_version:
            stored = stored_with_other_code(context.asset_graph_view.instance, context.key, code_version)
            outdated = context.candidate_subset.compute_intersection_with_partition_keys(stored)
        return dg.AutomationResult(context, outdated, cursor=code_version)


def follows_inputs(
    *,
    followed: Sequence[dg.AssetKey],
    required: Sequence[dg.AssetKey],
    is_blocked: dg.AutomationCondition[Any] | None = None,
) -> dg.AutomationCondition[Any]:
    """Return the condition that requests a partition when its inputs are loaded or change, or its code changes.

    A partition is first requested once all its required inputs are loaded. An input that is loaded again without a
    change keeps its data version and requests nothing. Nor does a change that a build has read already, whoever
    requested it. A partition that failed is requested once more, because another step of its run may have failed. Then
    it is requested each hour, because the reason may have been an outage, or until an input changes.

    A change is handled only by a build that began after it: one that was already under way may have read the old rows.

    Args:
        followed: The inputs whose changes request a partition.
        required: The inputs without which a partition cannot be made.
        is_blocked: The condition of partitions that must not be made now. One whose run failed for that is requested
            once it is false.
    """
    condition = dg.AutomationCondition
    inputs, requested = dg.AssetSelection.assets(*followed), condition.newly_requested()
    changed, is_current = InputsChanged(followed), WasBuiltOfCurrentInputs(followed)
    lacks_inputs = condition.any_deps_match(condition.missing()).allow(dg.AssetSelection.assets(*required))
    are_loading = condition.any_deps_match(condition.in_progress()).allow(inputs)
    became_ready = (condition.missing() & ~lacks_inputs).newly_true().since(requested)
    is_new = condition.missing() & (~condition.execution_failed() | became_ready)
    has_changed = changed.since(((requested | condition.initial_evaluation()) & ~changed) | is_current)
    has_other_code = WasBuiltWithOtherCode().since(requested | is_current)
    may_succeed_now = (condition.execution_failed() & condition.cron_tick_passed(_HOURLY)).since(requested)
    has_failed = condition.execution_failed() & may_succeed_now
    is_due = is_new | has_changed | has_other_code | has_failed
    has_to_wait = lacks_inputs | are_loading | condition.in_progress()
    if is_blocked is not None:
        was_freed = (~is_blocked).newly_true().since(requested | condition.initial_evaluation())
        is_due, has_to_wait = is_due | (was_freed & condition.execution_failed()), has_to_wait | is_blocked
    return (is_due & ~has_to_wait).with_label("follows its inputs")


def following_sensor(
    name: str, *, target: dg.AssetSelection, description: str
) -> dg.AutomationConditionSensorDefinition:
    """Return the sensor that evaluates the automation conditions of assets.

    It does so in the code location, because Dagster's daemon knows only Dagster's own conditions.
    """
    return dg.AutomationConditionSensorDefinition(
        name,
        target=target,
        description=description,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        use_user_code_server=True,
    )
