"""Tests which partitions of their inputs the partitions of marts depend on."""

from datetime import UTC, date, datetime

import dagster as dg

from seller_platform.contract import Window, dataset_named
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.partitions import add_accounts, asset_key, partition_key
from seller_platform.settings import read_settings
from seller_platform.warehouse.marts import mart_named


def test_a_mart_depends_on_the_same_account_and_month_of_its_inputs() -> None:
    january, february = Window(date(2026, 1, 1), date(2026, 3, 1)).months()
    graph = SellerPlatformComponent().definitions(read_settings(), january.start).resolve_asset_graph()

    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, ["A", "B"])

        def inputs(mart: str, dataset: str, partition: str) -> set[str]:
            with dg.partition_loading_context(datetime(2026, 2, 9, tzinfo=UTC), instance):
                found = graph.get_parent_partition_keys_for_child(
                    partition, asset_key(dataset_named(dataset)), asset_key(mart_named(mart))
                )
                return set(found.partitions_subset.get_partition_keys())

        of_month, of_account = (
            str(partition_key("A", january)),
            {str(partition_key("A", m)) for m in (january, february)},
        )
        assert inputs("account_profit_daily", "transactions", of_month) == {of_month}
        assert inputs("account_profit_daily", "cost_periods", of_month) == {"A"}
        assert inputs("restock_plan", "inventory", "A") == {"A"}
        assert inputs("restock_plan", "daily_product_sales", "A") == of_account
