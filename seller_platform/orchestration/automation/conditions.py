"""Partitions that follow their inputs: the condition on which one is made, and made again."""

from typing import Any

import dagster as dg

SECONDS_BETWEEN_TICKS = 30


def follows_inputs(*, followed: dg.AssetSelection, required: dg.AssetSelection) -> dg.AutomationCondition[Any]:
    """Return the condition on which a partition is made.

    It is made once everything that it cannot do without was loaded, and again whenever an input changed: an input that
    was loaded anew and is what it was before has the same data version, and asks for nothing. A partition that could
    not be made waits for an input to change.

    Only a request settles a change, and none that was made before it: what was under way when the input changed may
    have read what was there before.

    Args:
        followed: The inputs whose changes ask for a partition.
        required: The inputs it cannot do without.
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


def following_sensor(name: str, *, group: str, description: str) -> dg.AutomationConditionSensorDefinition:
    """Return the sensor that requests the partitions of a group's assets on their conditions."""
    return dg.AutomationConditionSensorDefinition(
        name,
        target=dg.AssetSelection.groups(group),
        description=description,
        minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
