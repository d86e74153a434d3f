"""The finance team's assets, which read Seller Platform's assets in different ways.

It imports the public names of Seller Platform, but not its definitions. It needs the warehouse
and the Dagster instance, but neither the API nor its settings.
"""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from seller_platform.dagster import (
    IO_MANAGER_KEY,
    WarehouseIOManager,
    seller_account_partitions,
    seller_asset_specs,
    seller_month_partitions,
)

MONTHS = seller_month_partitions()


@dg.asset(
    key_prefix="finance",
    group_name="finance",
    partitions_def=seller_account_partitions(),
    ins={"orders": dg.AssetIn(["seller", "orders"])},
)
def whole_history(orders: pd.DataFrame) -> dg.MaterializeResult[None]:
    """All months of an account; Dagster maps them by the name of the dimension."""
    days = orders["local_day"]
    return dg.MaterializeResult(
        metadata={"orders": len(orders), "first_day": str(days.min().date()), "last_day": str(days.max().date())}
    )


@dg.asset(
    key_prefix="finance",
    group_name="finance",
    partitions_def=MONTHS,
    ins={"ledger": dg.AssetIn(["seller", "transactions"])},
)
def ledger_total(ledger: pa.Table) -> dg.MaterializeResult[None]:
    """The same partition as an Arrow table, whose decimals Arrow adds."""
    total = pc.sum(ledger["amount"]).as_py()
    return dg.MaterializeResult(metadata={"entries": ledger.num_rows, "total": f"{total:f}"})


@dg.asset(
    key_prefix="finance",
    group_name="finance",
    partitions_def=MONTHS,
    ins={
        "orders": dg.AssetIn(
            ["seller", "orders"],
            partition_mapping=dg.MultiPartitionMapping(
                {
                    "account": dg.DimensionPartitionMapping("account", dg.IdentityPartitionMapping()),
                    "month": dg.DimensionPartitionMapping("month", dg.TimeWindowPartitionMapping(start_offset=-1)),
                }
            ),
        ),
        "stock": dg.AssetIn(["seller", "inventory"]),
        "accounts": dg.AssetIn(["seller", "accounts"]),
        "profit": dg.AssetIn(["marts", "account_profit_daily"]),
    },
)
def outlook(
    orders: pd.DataFrame, stock: pd.DataFrame, accounts: pd.DataFrame, profit: pd.DataFrame
) -> dg.MaterializeResult[None]:
    """Two months of orders, the account's newest stock, all accounts, and a mart."""
    return dg.MaterializeResult(
        metadata={
            "orders": len(orders),
            "first_day": str(orders["local_day"].min().date()),
            "skus": len(stock),
            "accounts": len(accounts),
            "days_of_profit": len(profit),
        }
    )


ASSETS: list[dg.AssetsDefinition | dg.AssetSpec] = [*seller_asset_specs(), whole_history, ledger_total, outlook]

defs = dg.Definitions(assets=ASSETS, resources={IO_MANAGER_KEY: WarehouseIOManager()}, executor=dg.in_process_executor)
