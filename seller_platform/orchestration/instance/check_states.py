"""The states of partitioned checks for Dagster's UI, for any number of partitions.

Dagster makes an object of every partition of a check and unites them one by one, in quadratic time. It also looks up
each partition in the database. For 1,000 accounts and 36 months that takes minutes for every check. Here PostgreSQL
sorts the partitions of all checks of an asset into a few groups.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    PartitionsDefinition,
    RunsFilter,
)
from dagster._core.asset_graph_view.serializable_entity_subset import SerializableEntitySubset
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus,
    AssetCheckExecutionResolvedStatus,
)
from dagster._core.storage.asset_check_state import AssetCheckState
from dagster._core.storage.dagster_run import FINISHED_STATUSES
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from sqlalchemy import Select, Subquery, case, func, literal, select

Check = tuple[AssetCheckKey, PartitionsDefinition[str] | None]
_State = AssetCheckExecutionResolvedStatus
_BEGUN = AssetCheckExecutionRecordStatus.PLANNED.value
_PASSED = AssetCheckExecutionRecordStatus.SUCCEEDED.value


@dataclass(frozen=True)
class CheckedPartitions:
    """Partitions of a check whose newest executions have the same state.

    Attributes:
        execution_status: The status of the newest execution, as Dagster stores it.
        run_id: The run that has started the execution; None if the execution has ended.
        is_current: Whether the execution is of the newest materialization.
        partitions: The keys of the partitions; None stands for a check without partitions.
        newest: The highest number of an event of these partitions.
    """

    check_name: str
    execution_status: str
    run_id: str | None
    is_current: bool
    partitions: Sequence[str | None]
    newest: int


def checked_partitions(
    asset: AssetKey, check_names: Sequence[str], loaded: Subquery, loaded_whole: int | None
) -> Select[Any]:
    """Return a query for the partitions of an asset's checks, grouped as `CheckedPartitions`.

    Args:
        loaded: The number (`id`) of the newest materialization of each `partition`.
        loaded_whole: The number of the newest materialization without a partition.
    """
    checks = AssetCheckExecutionsTable.c
    newest = (
        select(func.max(checks.id).label("id"))
        .where(
            checks.asset_key == asset.to_string(),
            checks.check_name.in_(check_names),
            checks.evaluation_event_storage_id.isnot(None),
        )
        .group_by(checks.check_name, checks.partition)
        .subquery()
    )
    materialization = func.greatest(loaded.c.id, literal(loaded_whole))
    run_id = case((checks.execution_status == _BEGUN, checks.run_id))
    is_current = func.coalesce(materialization == checks.materialization_event_storage_id, materialization.is_(None))
    rows = AssetCheckExecutionsTable.join(newest, checks.id == newest.c.id)
    rows = rows.join(loaded, checks.partition == loaded.c.partition, isouter=True)
    group = (checks.check_name, checks.execution_status, run_id, is_current)
    latest_event = func.max(func.greatest(checks.evaluation_event_storage_id, materialization))
    return select(*group, func.array_agg(checks.partition), latest_event).select_from(rows).group_by(*group)


def check_states(
    instance: DagsterInstance, checks: Sequence[Check], checked: Mapping[AssetKey, Sequence[CheckedPartitions]]
) -> Mapping[AssetCheckKey, AssetCheckState]:
    """Return which partitions of each check succeeded, failed, are running, or were skipped."""
    runs = {group.run_id for groups in checked.values() for group in groups if group.run_id is not None}
    ended = instance.get_runs(RunsFilter(run_ids=list(runs), statuses=list(FINISHED_STATUSES))) if runs else []
    statuses = {run.run_id: run.status for run in ended}
    existing: dict[PartitionsDefinition[str] | None, frozenset[str | None]] = {None: frozenset({None})}
    with partition_loading_context(dynamic_partitions_store=instance):
        for _, partitions in checks:
            if partitions is not None and partitions not in existing:
                existing[partitions] = frozenset(partitions.get_partition_keys())
    states = {}
    for key, partitions in checks:
        groups = [group for group in checked[key.asset_key] if group.check_name == key.name]
        states[key] = _state(key, partitions, existing[partitions], groups, statuses)
    return states


def passed_partitions(
    instance: DagsterInstance, checks: Iterable[AssetCheckKey], partitions: PartitionsDefinition[str] | None
) -> Mapping[str, frozenset[str]]:
    """Return the partitions of which each check, by its name, has passed for the newest materialization."""
    with partition_loading_context(dynamic_partitions_store=instance):
        states = instance.event_log_storage.get_asset_check_state([(check, partitions) for check in checks])
        return {
            check.name: frozenset(state.subsets[_State.SUCCEEDED].subset_value.get_partition_keys())
            if partitions is not None and _State.SUCCEEDED in state.subsets
            else frozenset()
            for check, state in states.items()
        }


def failed_evaluations(
    instance: DagsterInstance, checks: Sequence[AssetCheckKey], partitions: Sequence[str]
) -> Iterator[AssetCheckEvaluation]:
    """Yield the failed ones among the newest evaluations of checks of partitions."""
    storage = instance.event_log_storage
    for found in storage.get_asset_check_partition_info(checks, partition_keys=partitions) if partitions else ():
        if found.latest_execution_status is not AssetCheckExecutionRecordStatus.FAILED or not found.is_current:
            continue
        newest = storage.get_latest_asset_check_execution_by_key(
            [found.check_key], partition_filter=PartitionKeyFilter(key=found.partition_key)
        ).get(found.check_key)
        if newest is not None and newest.evaluation is not None:
            yield newest.evaluation


def _state(
    key: AssetCheckKey,
    partitions: PartitionsDefinition[str] | None,
    existing: frozenset[str | None],
    groups: Sequence[CheckedPartitions],
    ended: Mapping[str, DagsterRunStatus],
) -> AssetCheckState:
    of_status: dict[_State, set[str | None]] = {status: set() for status in _State}
    of_run: dict[str, set[str | None]] = defaultdict(set)
    for group in groups:
        status, keys = _status(group, ended), existing.intersection(group.partitions)
        if status is not None:
            of_status[status] |= keys
        if status is _State.IN_PROGRESS and group.run_id is not None and keys:
            of_run[group.run_id] |= keys

    def subset(keys: Iterable[str | None]) -> SerializableEntitySubset[AssetCheckKey]:
        if partitions is None:
            return SerializableEntitySubset(key=key, value=bool(keys))
        named = [each for each in keys if each is not None]
        return SerializableEntitySubset(key=key, value=partitions.subset_with_partition_keys(named))

    return AssetCheckState(
        latest_storage_id=max((group.newest for group in groups), default=0),
        subsets={status: subset(keys) for status, keys in of_status.items()},
        in_progress_runs={run: subset(keys) for run, keys in of_run.items()},
    )


def _status(group: CheckedPartitions, ended: Mapping[str, DagsterRunStatus]) -> _State | None:
    """Return the status of a group; None if its rows are newer than the check."""
    if group.run_id is not None:
        run_status = ended.get(group.run_id)
        if run_status is None:
            return _State.IN_PROGRESS
        return _State.EXECUTION_FAILED if run_status is DagsterRunStatus.FAILURE else _State.SKIPPED
    if not group.is_current:
        return None
    return _State.SUCCEEDED if group.execution_status == _PASSED else _State.FAILED
