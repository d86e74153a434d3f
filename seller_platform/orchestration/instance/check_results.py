"""The newest results of partitioned checks: which partitions passed or failed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dagster import AssetCheckKey, DagsterInstance, PartitionsDefinition
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionResolvedStatus
from dagster._core.storage.asset_check_state import AssetCheckState

_State = AssetCheckExecutionResolvedStatus


@dataclass(frozen=True)
class JudgedPartitions:
    """The partitions whose newest evaluation of a check passed or failed, for the newest materialization."""

    passed: frozenset[str]
    failed: frozenset[str]


def judged_partitions(
    instance: DagsterInstance, checks: Iterable[AssetCheckKey], partitions: PartitionsDefinition[str]
) -> Mapping[str, JudgedPartitions]:
    """Return which partitions of each check, by its name, passed and failed."""

    def keys(state: AssetCheckState, status: _State) -> frozenset[str]:
        subset = state.subsets.get(status)
        return frozenset() if subset is None else frozenset(subset.subset_value.get_partition_keys())

    with partition_loading_context(dynamic_partitions_store=instance):
        states = instance.event_log_storage.get_asset_check_state([(check, partitions) for check in checks])
        return {
            check.name: JudgedPartitions(keys(state, _State.SUCCEEDED), keys(state, _State.FAILED))
            for check, state in states.items()
        }
