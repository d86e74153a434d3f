"""The marts: tables of schema `marts`, computed from the datasets and declared once.

- `declaration`: what a mart is
- `registry`: every mart
- `tables`: the tables, receipts of builds, and what may be wrong with partitions
- `builds`: replaces a partition of a mart
- `due`: partitions that can be built, and have changed
- `columns`: columns of several marts
- `rules`: what counts towards profit, and the account of the books, of each entry of the ledger
- `common_queries`: queries that several marts begin with
- `account_profit_daily`: profit of an account by day
- `profit_bridge_monthly`: profit and net profit, line by line
- `product_performance_monthly`: sales of a product by month
- `inventory_health`: days that the stock of a product lasts
- `restock_plan`: products to order, how many, and by when
- `cost_coverage`: sales without a cost
- `settlement_reconciliation`: differences between orders, sales, ledger, payouts and statistics
- `journal_entries`: what an accountant books for each payout and month
- `insights`: what to look at today
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
from seller_platform.warehouse.marts.registry import MARTS, marts_with

__all__ = ["MARTS", "Chart", "ChartForm", "Input", "Mart", "MartCheck", "MartColumn", "MartParameter", "marts_with"]
