"""Public names for other Dagster projects: the component, resources, the IO manager, specs and a condition of assets.

A project that runs our assets mounts `SellerPlatformComponent`, or merges the definitions that its method `definitions`
returns. A project that only reads their partitions declares `seller_asset_specs()` and the resource
`WarehouseIOManager`; it needs the warehouse, but neither the API nor its settings:

    import dagster as dg
    import pandas as pd
    from seller_platform.dagster import IO_MANAGER_KEY, WarehouseIOManager, seller_month_partitions, seller_asset_specs


    @dg.asset(partitions_def=seller_month_partitions(), ins={"orders": dg.AssetIn(["seller", "orders"])})
    def revenue(orders: pd.DataFrame) -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={"orders": len(orders)})


    defs = dg.Definitions(
        assets=[*seller_asset_specs(), revenue], resources={IO_MANAGER_KEY: WarehouseIOManager()}
    )
"""

from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.downstream import (
    IO_MANAGER_KEY,
    WarehouseIOManager,
    seller_account_partitions,
    seller_asset_specs,
    seller_month_partitions,
    settled,
)
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource

__all__ = [
    "IO_MANAGER_KEY",
    "SellerApiResource",
    "SellerPlatformComponent",
    "WarehouseIOManager",
    "WarehouseResource",
    "seller_account_partitions",
    "seller_asset_specs",
    "seller_month_partitions",
    "settled",
]
