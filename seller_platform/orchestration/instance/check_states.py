"""How the checks of partitions stand, as Dagster's UI shows it, for any number of partitions.

Dagster makes an object of every partition of a check, unites them one by one, which takes time with their square, and
asks the database of each whether there is such a partition: for 1,000 accounts and 36 months, minutes for every check.
Here PostgreSQL sorts the partitions of all checks of an asset into a few groups.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster import AssetCheckKey, AssetKey, DagsterInstance, DagsterRunStatus, PartitionsDefinition, RunsFilter
from dagster._core.asset_graph_view.serializable_entity_subset import SerializableEntitySubset
from dagster._core.definitions.partitions.context import partition_loading_context
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
    """Partitions of a check whose newest execution stands alike.

    Attributes:
        execution_status: The newest execution, as Dagster stores it.
        run_id: The run that has begun it; None where it has ended.
        is_current: Whether it is of what was loaded last.
        partitions: Their keys; None stands for a check without partitions.
        newest: The highest number of an event of theirs.
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
    """Return a query for the groups of the partitions of an asset's checks, with the columns of `CheckedPartitions`.

    Args:
        loaded: The number (`id`) of the newest materialization of each `partition`.
        loaded_whole: That of the newest materialization without a partition.
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
    alike = (checks.check_name, checks.execution_status, run_id, is_current)
    latest_event = func.max(func.greatest(checks.evaluation_event_storage_id, materialization))
    return select(*alike, func.array_agg(checks.partition), latest_event).select_from(rows).group_by(*alike)


def check_states(
    instance: DagsterInstance, checks: Sequence[Check], found: Mapping[AssetKey, Sequence[CheckedPartitions]]
) -> Mapping[AssetCheckKey, AssetCheckState]:
    """Return which partitions of each check succeeded, failed, are running, or were left out by their run."""
    ended = _ended_runs(instance, (group for groups in found.values() for group in groups))
    known: dict[PartitionsDefinition[str] | None, frozenset[str | None]] = {None: frozenset({None})}
    with partition_loading_context(dynamic_partitions_store=instance):
        for _, partitions in checks:
            if partitions is not None and partitions not in known:
                known[partitions] = frozenset(partitions.get_partition_keys())
    states = {}
    for key, partitions in checks:
        groups = [group for group in found[key.asset_key] if group.check_name == key.name]
        states[key] = _state(key, partitions, known[partitions], groups, ended)
    return states


def _ended_runs(instance: DagsterInstance, groups: Iterable[CheckedPartitions]) -> Mapping[str, DagsterRunStatus]:
    """Return how the runs ended that have begun a check and may be at it still."""
    begun = {group.run_id for group in groups if group.run_id is not None}
    if not begun:
        return {}
    runs = instance.get_runs(RunsFilter(run_ids=list(begun), statuses=list(FINISHED_STATUSES)))
    return {run.run_id: run.status for run in runs}


def _state(
    key: AssetCheckKey,
    partitions: PartitionsDefinition[str] | None,
    known: frozenset[str | None],
    groups: Sequence[CheckedPartitions],
    ended: Mapping[str, DagsterRunStatus],
) -> AssetCheckState:
    of_status: dict[_State, set[str | None]] = {status: set() for status in _State}
    of_run: dict[str, set[str | None]] = defaultdict(set)
    for group in groups:
        status, there = _status(group, ended), known.intersection(group.partitions)
        if status is not None:
            of_status[status] |= there
        if status is _State.IN_PROGRESS and group.run_id is not None and there:
            of_run[group.run_id] |= there

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
    """Return how checks stand; None where they were made of rows that were loaded anew since."""
    if group.run_id is not None:
        how = ended.get(group.run_id)
        if how is None:
            return _State.IN_PROGRESS
        return _State.EXECUTION_FAILED if how is DagsterRunStatus.FAILURE else _State.SKIPPED
    if not group.is_current:
        return None
    return _State.SUCCEEDED if group.execution_status == _PASSED else _State.FAILED
