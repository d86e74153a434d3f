"""How the checks of partitions stand, as Dagster's UI shows it, for any number of partitions.

Dagster unites the partitions of a check one by one, which takes time with their square, and asks the database of each
whether there is such a partition: of 1,000 accounts and 36 months, minutes for every check.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dagster import AssetCheckKey, DagsterInstance, DagsterRunStatus, PartitionsDefinition, RunsFilter
from dagster._core.asset_graph_view.serializable_entity_subset import SerializableEntitySubset
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecordStatus,
    AssetCheckExecutionResolvedStatus,
    AssetCheckPartitionInfo,
)
from dagster._core.storage.asset_check_state import AssetCheckState
from dagster._core.storage.dagster_run import FINISHED_STATUSES

Check = tuple[AssetCheckKey, PartitionsDefinition[str] | None]
_State = AssetCheckExecutionResolvedStatus


def read_check_states(instance: DagsterInstance, checks: Sequence[Check]) -> Mapping[AssetCheckKey, AssetCheckState]:
    """Return which partitions of each check succeeded, failed, are running, or were left out by their run."""
    found: dict[AssetCheckKey, list[AssetCheckPartitionInfo]] = defaultdict(list)
    for info in instance.event_log_storage.get_asset_check_partition_info([key for key, _ in checks]):
        found[info.check_key].append(info)
    ended = _ended_runs(instance, (info for infos in found.values() for info in infos))
    partitions_of: dict[PartitionsDefinition[str] | None, frozenset[str | None]] = {None: frozenset({None})}
    with partition_loading_context(dynamic_partitions_store=instance):
        for _, partitions in checks:
            if partitions is not None and partitions not in partitions_of:
                partitions_of[partitions] = frozenset(partitions.get_partition_keys())
    return {key: _state(key, partitions, partitions_of[partitions], found[key], ended) for key, partitions in checks}


def _ended_runs(instance: DagsterInstance, infos: Iterable[AssetCheckPartitionInfo]) -> Mapping[str, DagsterRunStatus]:
    """Return how the runs ended that have begun a check and may be at it still."""
    begun = {each.latest_planned_run_id for each in infos if _is_begun(each)}
    if not begun:
        return {}
    runs = instance.get_runs(RunsFilter(run_ids=list(begun), statuses=list(FINISHED_STATUSES)))
    return {run.run_id: run.status for run in runs}


def _state(
    key: AssetCheckKey,
    partitions: PartitionsDefinition[str] | None,
    known: frozenset[str | None],
    infos: Sequence[AssetCheckPartitionInfo],
    ended: Mapping[str, DagsterRunStatus],
) -> AssetCheckState:
    of_status: dict[_State, list[str | None]] = {status: [] for status in _State}
    of_run: dict[str, list[str | None]] = defaultdict(list)
    for info in infos:
        status = _status(info, ended) if info.partition_key in known else None
        if status is not None:
            of_status[status].append(info.partition_key)
        if status is _State.IN_PROGRESS:
            of_run[info.latest_planned_run_id].append(info.partition_key)

    def subset(keys: Sequence[str | None]) -> SerializableEntitySubset[AssetCheckKey]:
        if partitions is None:
            return SerializableEntitySubset(key=key, value=bool(keys))
        return SerializableEntitySubset(
            key=key, value=partitions.subset_with_partition_keys([each for each in keys if each])
        )

    newest = (max(each.latest_check_event_storage_id, each.latest_materialization_storage_id or 0) for each in infos)
    return AssetCheckState(
        latest_storage_id=max(newest, default=0),
        subsets={status: subset(keys) for status, keys in of_status.items()},
        in_progress_runs={run: subset(keys) for run, keys in of_run.items()},
    )


def _status(info: AssetCheckPartitionInfo, ended: Mapping[str, DagsterRunStatus]) -> _State | None:
    """Return how a check of a partition stands; None where it was made of rows that were loaded anew since."""
    if _is_begun(info):
        how = ended.get(info.latest_planned_run_id)
        if how is None:
            return _State.IN_PROGRESS
        return _State.EXECUTION_FAILED if how is DagsterRunStatus.FAILURE else _State.SKIPPED
    if not info.is_current:
        return None
    is_passed = info.latest_execution_status is AssetCheckExecutionRecordStatus.SUCCEEDED
    return _State.SUCCEEDED if is_passed else _State.FAILED


def _is_begun(info: AssetCheckPartitionInfo) -> bool:
    return info.latest_execution_status is AssetCheckExecutionRecordStatus.PLANNED
