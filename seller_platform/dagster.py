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

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # only a project that runs the assets needs the modules that call the API
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

_MODULES = {
    "IO_MANAGER_KEY": "seller_platform.orchestration.downstream",
    "SellerApiResource": "seller_platform.orchestration.resources",
    "SellerPlatformComponent": "seller_platform.orchestration.component",
    "WarehouseIOManager": "seller_platform.orchestration.downstream",
    "WarehouseResource": "seller_platform.orchestration.resources",
    "seller_month_partitions": "seller_platform.orchestration.downstream",
    "seller_account_partitions": "seller_platform.orchestration.downstream",
    "seller_asset_specs": "seller_platform.orchestration.downstream",
    "settled": "seller_platform.orchestration.downstream",
}


if not TYPE_CHECKING:  # for the type checker, other names do not exist

    def __getattr__(name: str) -> object:
        """Import the module of a public name on first use (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
