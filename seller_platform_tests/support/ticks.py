"""Evaluates automation conditions as Dagster's sensors do.

`dg.evaluate_automation_conditions` does the same, but reads the dynamic partitions from storage thousands of times for
its cursor. Sensors, and this module, read them once for each evaluation.
"""

import logging
from datetime import datetime
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.declarative_automation.automation_condition_evaluator import AutomationConditionEvaluator
from dagster._core.definitions.declarative_automation.automation_condition_tester import (
    EvaluateAutomationConditionsResult,
)
from dagster._core.definitions.partitions.context import partition_loading_context


def evaluate_conditions(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    selection: dg.AssetSelection,
    *,
    cursor: AssetDaemonCursor | None = None,
    at: datetime | None = None,
) -> EvaluateAutomationConditionsResult:
    """Evaluate the automation conditions of assets, and return the partitions that they request.

    Args:
        cursor: The cursor that the evaluation before has returned.
        at: The time of the evaluation; now by default.
    """
    graph = definitions.resolve_asset_graph()
    # Storage holds the cursor as text between two evaluations.
    before = (
        dg.deserialize_value(dg.serialize_value(cursor), AssetDaemonCursor) if cursor else AssetDaemonCursor.empty()
    )
    evaluator = AutomationConditionEvaluator(
        entity_keys={key for key in selection.resolve(graph) if graph.get(key).automation_condition is not None},
        instance=instance,
        asset_graph=graph,
        cursor=before,
        emit_backfills=False,
        evaluation_id=before.evaluation_id,
        evaluation_time=at,
        logger=logging.getLogger(__name__),
    )
    results, requested = evaluator.evaluate()
    context: Any = evaluator.asset_graph_view.partition_loading_context
    with partition_loading_context(new_ctx=context):
        after = before.with_updates(
            evaluation_timestamp=evaluator.evaluation_time.timestamp(),
            newly_observe_requested_asset_keys=[],
            evaluation_id=before.evaluation_id + 1,
            condition_cursors=[result.get_new_cursor() for result in results],
            asset_graph=graph,
        )
        return EvaluateAutomationConditionsResult(
            cursor=after, requested_subsets=requested, results=results, partition_loading_context=context
        )
