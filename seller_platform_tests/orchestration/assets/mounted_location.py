"""A code location of another project, which mounts our component and has an asset of its own."""

import dagster as dg

from seller_platform import SellerPlatformComponent
from seller_platform.dagster import seller_month_partitions

PREFIX = "market"
_DATASETS = ("daily_product_sales", "transactions", "inventory", "cost_periods")


@dg.definitions
def location() -> dg.Definitions:
    """Return the definitions."""

    @dg.asset(
        key=["shop", "margin"],
        deps=[dg.AssetKey([PREFIX, "marts", "account_profit_daily"])],
        partitions_def=seller_month_partitions(),
        backfill_policy=dg.BackfillPolicy.multi_run(60),
    )
    def margin() -> None:
        """What the project computes of the profit of a month."""

    component = SellerPlatformComponent(key_prefix=[PREFIX], group=PREFIX, datasets=_DATASETS)
    executor = dg.in_process_executor.configured({"step_dependency_config": {"require_upstream_step_success": False}})
    return dg.Definitions.merge(component.definitions(), dg.Definitions([margin], executor=executor))
