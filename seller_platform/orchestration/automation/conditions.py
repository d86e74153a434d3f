"""The automation condition of partitions that follow their inputs, and its sensor."""

from typing import Any

import dagster as dg

SECONDS_BETWEEN_TICKS = 30


def follows_inputs(*, followed: dg.AssetSelection, required: dg.AssetSelection) -> dg.AutomationCondition[Any]:
    """Return the condition that requests a partition when its inputs are loaded or change.

    A partition is first requested once all its required inputs are loaded. An input that is loaded again without a
    change keeps its data version and requests nothing. A partition that failed waits until an input changes.

    A change is handled only by a run requested after it: a run that was already under way may have read the old rows.

    Args:
        followed: The inputs whose changes request a partition.
        required: The inputs without which a partition cannot be made.
    """
    condition = dg.AutomationCondition
    is_new = condition.missing() & ~condition.execution_failed()
    changes = condition.any_deps_match(condition.data_version_changed()).allow(followed)
    has_changed = changes.since((condition.newly_requested() | condition.initial_evaluation()) & ~changes)
    lacks_inputs = condition.any_deps_match(condition.missing()).allow(required)
    are_loading = condition.any_deps_match(condition.in_progress()).allow(followed)
    return ((is_new | has_changed) & ~lacks_inputs & ~are_loading & ~condition.in_progress()).with_label(
        "follows its inputs"
    )


def following_sensor(
    name: str, *, target: dg.AssetSelection, description: str
) -> dg.AutomationConditionSensorDefinition:
    """Return the sensor that evaluates the automation conditions of assets."""
    return dg.AutomationConditionSensorDefinition(
        name,
        target=target,
        description=description,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
