"""Assets whose partitions are made from those of others: marts, and exported tables.

A materialization has the tags by which Dagster's UI shows partitions as outdated; Dagster writes them for results, not
for events. It names the newest event that was stored before its inputs were read. An input whose rows changed later has
a newer event with another data version.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import dagster as dg

from seller_platform.contract import Dataset
from seller_platform.orchestration.account_names import AccountNames, account_metadata, tag_with_account
from seller_platform.orchestration.assets.events import event_asset, outputs, partition_tags
from seller_platform.orchestration.assets.reporting import report, report_after_step
from seller_platform.orchestration.failures import PartitionLoop
from seller_platform.orchestration.partitions import read_partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.derived.declaration import Mart


@dataclass(frozen=True)
class Made:
    """A partition as it was made.

    Attributes:
        key: None for an asset without partitions.
        version: Of its rows.
        read_after: The newest event that was stored before its inputs were read.
    """

    key: str | None
    rows: int
    version: str
    read_after: int
    metadata: Mapping[str, Any]


Maker: TypeAlias = Callable[
    [dg.AssetExecutionContext, WarehouseResource, Sequence[str | None]], Callable[[str | None], Made]
]
"""Prepares to make the partitions of a step, and returns a function that makes one; None is all of the asset."""


def derived_asset(
    spec: dg.AssetSpec,
    source: Dataset | Mart,
    inputs: Sequence[Dataset],
    maker: Maker,
    placement: Placement,
    *,
    done: str,
    checked: Sequence[Mart] = (),
    config_schema: Mapping[str, dg.Field] | None = None,
) -> dg.AssetsDefinition:
    """Return the asset. A partition that fails does not stop the others, and is named at the end.

    Args:
        source: The mart, or the table that is exported.
        inputs: The datasets that are read, whose loads Dagster has to know first.
        done: What is done with partitions, such as `built`.
        checked: The mart whose checks the step reports.
    """

    @event_asset(spec, config_schema=config_schema)
    def make(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        tag_with_account(context, warehouse.names)
        keys: Sequence[str | None] = (None,) if spec.partitions_def is None else context.partition_keys
        accounts = {read_partition_key(key)[0] for key in keys if key is not None}
        report(context.instance, warehouse.database, placement, inputs, accounts=accounts or None)
        versions = input_versions(context.instance, [each.asset_key for each in spec.deps])
        loop = PartitionLoop(context.log, placement, f"{source.name} of ")
        for _, made in loop.attempt(keys, maker(context, warehouse, keys)):
            yield derived_event(spec.key, str(spec.code_version), made, versions, warehouse.names)
        yield from outputs(context)
        report_after_step(context, warehouse.database, placement, *checked)
        loop.fail_partitions(source.name, done, len(keys))

    return make


def newest_event(instance: dg.DagsterInstance) -> int:
    """Return the number of the newest event; read it before the inputs."""
    # Dagster has no public name for it.
    return instance.event_log_storage.get_maximum_record_id() or 0


def input_versions(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey]) -> dict[dg.AssetKey, str]:
    """Return the data version of the newest materialization of each asset."""
    events = {key: instance.get_latest_materialization_event(key) for key in keys}
    return {key: ((event and event.tags) or {}).get("dagster/data_version", "unknown") for key, event in events.items()}


def derived_event(
    asset: dg.AssetKey, code_version: str, made: Made, versions: Mapping[dg.AssetKey, str], names: AccountNames
) -> dg.AssetMaterialization:
    """Return the materialization of a partition, given the data version of each input."""
    inputs = {key.to_user_string(): version for key, version in versions.items()}
    account = None if made.key is None else names.get(read_partition_key(made.key)[0])
    return dg.AssetMaterialization(
        asset_key=asset,
        partition=made.key,
        tags={
            "dagster/data_version": f"{made.version}.{code_version}",
            "dagster/data_version_is_user_provided": "true",
            "dagster/code_version": code_version,
            **{f"dagster/input_data_version/{key}": version for key, version in inputs.items()},
            **{f"dagster/input_event_pointer/{key}": str(made.read_after or "NULL") for key in inputs},
            **partition_tags(made.key),
        },
        metadata={
            **account_metadata(account),
            **({} if made.key is None else {"dagster/partition_row_count": made.rows}),
            "rows": made.rows,
            **made.metadata,
        },
    )
