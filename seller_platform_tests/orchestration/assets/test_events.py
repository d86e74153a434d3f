"""Tests that a step which reports by events lets the later steps of its run follow."""

from collections.abc import Iterator

import dagster as dg

from seller_platform.contract import dataset_named
from seller_platform.orchestration.assets.events import dataset_asset, outputs, partition_tags
from seller_platform.orchestration.partitions import ACCOUNT_PARTITIONS, add_accounts, asset_key

INVENTORY, STOCK = dataset_named("inventory"), dataset_named("warehouse_stock")


def _assets(*, fails: bool = False) -> list[dg.AssetsDefinition]:
    """Return two assets that follow one another; the first reports two partitions."""

    @dataset_asset(INVENTORY, ACCOUNT_PARTITIONS)
    def first(context: dg.AssetExecutionContext) -> Iterator[object]:
        for partition in context.partition_keys:
            yield dg.AssetMaterialization(asset_key(INVENTORY), partition=partition, tags=partition_tags(partition))
        if fails:
            raise dg.Failure("a partition failed", allow_retries=False)
        yield from outputs(context)

    @dataset_asset(STOCK, ACCOUNT_PARTITIONS, deps=[asset_key(INVENTORY)])
    def second(context: dg.AssetExecutionContext) -> Iterator[object]:
        for partition in context.partition_keys:
            yield dg.AssetMaterialization(asset_key(STOCK), partition=partition)
        yield from outputs(context)

    return [first, second]


def _run(instance: dg.DagsterInstance, *, fails: bool = False) -> dg.ExecuteInProcessResult:
    add_accounts(instance, ["S1.US", "S2.DE"])
    tags = {"dagster/asset_partition_range_start": "S1.US", "dagster/asset_partition_range_end": "S2.DE"}
    return dg.materialize(_assets(fails=fails), instance=instance, tags=tags, raise_on_error=False)


def test_each_partition_is_reported_once_and_the_next_step_runs() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = _run(instance)

        reported = {
            dataset.name: [
                event.materialization.partition
                for event in result.get_asset_materialization_events()
                if event.asset_key == asset_key(dataset)
            ]
            for dataset in (INVENTORY, STOCK)
        }

    assert result.success
    assert reported == {"inventory": ["S1.US", "S2.DE"], "warehouse_stock": ["S1.US", "S2.DE"]}


def test_steps_after_a_failed_one_do_not_run() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        result = _run(instance, fails=True)

        done = {
            dataset.name: instance.get_materialized_partitions(asset_key(dataset)) for dataset in (INVENTORY, STOCK)
        }

    assert not result.success
    assert done == {"inventory": {"S1.US", "S2.DE"}, "warehouse_stock": set()}
