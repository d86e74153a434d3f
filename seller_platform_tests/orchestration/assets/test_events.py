"""Tests that a step which reports by events lets the later steps of its run follow."""

from collections.abc import Iterator

import dagster as dg

from seller_platform.contract import dataset_named
from seller_platform.orchestration.assets.events import dataset_asset, outputs, partition_tags
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts, asset_key

INVENTORY, STOCK = dataset_named("inventory"), dataset_named("warehouse_stock")


def test_each_partition_is_reported_once_and_the_next_step_runs() -> None:
    @dataset_asset(INVENTORY, ACCOUNT_PARTITIONS)
    def first(context: dg.AssetExecutionContext) -> Iterator[object]:
        for partition in context.partition_keys:
            yield dg.AssetMaterialization(asset_key(INVENTORY), partition=partition, tags=partition_tags(partition))
        yield from outputs(context)

    @dataset_asset(STOCK, ACCOUNT_PARTITIONS, deps=[asset_key(INVENTORY)])
    def second(context: dg.AssetExecutionContext) -> Iterator[object]:
        for partition in context.partition_keys:
            yield dg.AssetMaterialization(asset_key(STOCK), partition=partition)
        yield from outputs(context)

    tags = {"dagster/asset_partition_range_start": "S1.US", "dagster/asset_partition_range_end": "S2.DE"}
    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, ["S1.US", "S2.DE"])
        result = dg.materialize([first, second], instance=instance, tags=tags)

    reported = [
        (event.asset_key, event.materialization.partition) for event in result.get_asset_materialization_events()
    ]
    assert reported == [(asset_key(each), account) for each in (INVENTORY, STOCK) for account in ("S1.US", "S2.DE")]
