"""The marts: tables of schema `marts`, computed from the datasets and declared once.

- `declaration`: what a mart is
- `registry`: every mart
- `tables`: the tables, and receipts of builds
- `builds`: replaces a partition of a mart
- `columns`: columns of several marts
- `common_queries`: queries that several marts begin with
- `account_profit_daily`: profit of an account by day
- `product_performance_monthly`: sales of a product by month
- `inventory_health`: days that the stock of a product lasts
- `restock_plan`: products to order, how many, and by when
- `cost_coverage`: sales without a cost
- `settlement_reconciliation`: differences between orders, sales, ledger and statistics
"""

from seller_platform.warehouse.marts.declaration import (
    Chart,
    ChartForm,
    Input,
    Mart,
    MartCheck,
    MartColumn,
    MartParameter,
)
from seller_platform.warehouse.marts.registry import MARTS, mart_named

__all__ = ["MARTS", "Chart", "ChartForm", "Input", "Mart", "MartCheck", "MartColumn", "MartParameter", "mart_named"]
