"""The marts: tables of schema `marts`, computed from the datasets and declared once.

- `capability`: what this folder contributes
- `settings`: which rules marts have
- `registry`: every mart of this folder
- `columns`: columns of several marts
- `rules`: what counts towards profit, of each entry of the ledger
- `common_queries`: queries that several marts begin with
- `account_profit_daily`: profit of an account by day
- `profit_bridge_monthly`: profit and net profit, line by line
- `product_performance_monthly`: sales of a product by month
- `inventory_health`: days that the stock of a product lasts
- `restock_plan`: products to order, how many, and by when
- `cost_coverage`: sales without a cost
- `settlement_reconciliation`: differences between orders, sales, ledger, payouts and statistics
- `insights`: what to look at today
- `commands`: builds marts
- `assets`: an asset for each mart
- `figures`: charts of marts
"""
