"""What to look at today, from the marts: stock that runs out, margins that fell, sales without a cost."""

from collections.abc import Sequence
from datetime import date, timedelta

from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.marts.account_profit_daily import ACCOUNT_PROFIT_DAILY
from seller_platform.marts.cost_coverage import COST_COVERAGE
from seller_platform.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.marts.restock_plan import RESTOCK_PLAN
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.due import Derived, partition_states
from seller_platform.warehouse.postgres.database import Database

_FEWEST_UNITS = 10
_MONTHLY = (ACCOUNT_PROFIT_DAILY, COST_COVERAGE, PRODUCT_PERFORMANCE_MONTHLY)

_OUT_OF_STOCK = """
SELECT format('Out of stock, although sold within 90 days: %s of %s%s.', coalesce(product_name, sku), title,
              CASE WHEN count(*) OVER () > 1 THEN format('; %s products are in all', count(*) OVER ()) END)
FROM marts.inventory_health JOIN platform.accounts ON key = account
WHERE account = ANY(:accounts) AND stock_out_risk = 'out of stock'
ORDER BY units_90_days DESC NULLS LAST, account, sku
LIMIT 1
"""

_RUNS_OUT = """
SELECT format('Runs out this week at the pace of the last 30 days: %s of %s, on %s%s.', coalesce(product_name, sku),
              title, stock_out_date,
              CASE WHEN count(*) OVER () > 1 THEN format('; %s products do in all', count(*) OVER ()) END)
FROM marts.inventory_health JOIN platform.accounts ON key = account
WHERE account = ANY(:accounts) AND fulfillable_units > 0 AND stock_out_date < snapshot_day + 7
ORDER BY stock_out_date, velocity DESC, account, sku
LIMIT 1
"""

_MARGIN_FELL = """
SELECT format('Margin fell most in %s, of products with %s units or more in both months: %s of %s, from %s to %s '
              'percent of its sales.', to_char(after.month, 'FMMonth YYYY'), CAST(:units AS integer),
              coalesce(after.product_name, after.sku), title,
              round(before.profit_margin, 1), round(after.profit_margin, 1))
FROM marts.product_performance_monthly AS after
JOIN marts.product_performance_monthly AS before USING (account, sku, currency)
JOIN platform.accounts ON key = account
WHERE account = ANY(:accounts) AND after.month = :month AND before.month = :month_before
  AND least(after.units, before.units) >= :units AND after.profit_margin < before.profit_margin
ORDER BY before.profit_margin - after.profit_margin DESC, account, sku
LIMIT 1
"""

_WITHOUT_COST = """
SELECT format('Sales without a cost in %s: %s %s of %s, which are %s percent of its sales.',
              to_char(month, 'FMMonth YYYY'), to_char(sales, 'FM999,999,999,999,990.00'), currency, title, percent)
FROM (
    SELECT account, currency, month, sum(sales_without_cost) AS sales,
           round(100 * sum(sales_without_cost) / sum(product_sales), 1) AS percent
    FROM marts.cost_coverage
    WHERE account = ANY(:accounts) AND month = :month
    GROUP BY account, currency, month
    HAVING sum(sales_without_cost) > 0 AND sum(product_sales) > 0
) AS without_cost JOIN platform.accounts ON key = account
ORDER BY percent DESC, account
LIMIT 1
"""


def build_insights(database: Database, accounts: Sequence[str], today: date) -> list[str]:
    """Build the marts of stock, profit and costs of two whole months and this one, and return what they say.

    Margins and costs are those of the last whole month. The tools of agents answer from these partitions, too.
    """
    month_of_today = Window.month_of(today)
    month = Window.month_of(month_of_today.start - timedelta(days=1))
    month_before = Window.month_of(month.start - timedelta(days=1))
    for account in accounts:
        for mart in (INVENTORY_HEALTH, RESTOCK_PLAN):
            build_partition(database, mart, account, None)
        for mart in _MONTHLY:
            for each in (month_before, month):
                build_partition(database, mart, account, each)
    with database.begin() as connection:  # not each account has begun this month
        begun = [
            (mart, state.account)
            for mart in _MONTHLY
            for state in partition_states(connection, Derived.of(mart), accounts, [month_of_today])
            if not state.missing
        ]
    for mart, account in begun:
        build_partition(database, mart, account, month_of_today)
    bound = {
        "accounts": list(accounts),
        "month": month.start,
        "month_before": month_before.start,
        "units": _FEWEST_UNITS,
    }
    out, runs_out, *others = (
        database.execute(text(query), bound).scalar_one_or_none()
        for query in (_OUT_OF_STOCK, _RUNS_OUT, _MARGIN_FELL, _WITHOUT_COST)
    )
    return [*filter(None, (out, runs_out or f"Nothing {'else ' if out else ''}runs out this week.", *others))]
