"""What to look at today, from the marts: stock that runs out, margins that fell, sales without a cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.warehouse.marts.builds import build_partition
from seller_platform.warehouse.marts.cost_coverage import COST_COVERAGE
from seller_platform.warehouse.marts.inventory_health import INVENTORY_HEALTH
from seller_platform.warehouse.marts.product_performance_monthly import PRODUCT_PERFORMANCE_MONTHLY
from seller_platform.warehouse.postgres.database import Database

_FEWEST_UNITS = 10

_RUNS_OUT = """
SELECT account, coalesce(product_name, sku) AS product, stock_out_date AS day, count(*) OVER () AS products
FROM marts.inventory_health
WHERE account = ANY(:accounts) AND fulfillable_units > 0 AND stock_out_date < snapshot_day + 7
ORDER BY stock_out_date, velocity DESC, account, sku
LIMIT 1
"""

_MARGIN_FELL = """
SELECT after.account, coalesce(after.product_name, after.sku) AS product, before.profit_margin AS before,
       after.profit_margin AS after
FROM marts.product_performance_monthly AS after
JOIN marts.product_performance_monthly AS before USING (account, sku, currency)
WHERE account = ANY(:accounts) AND after.month = :month AND before.month = :month_before
  AND least(after.units, before.units) >= :units AND after.profit_margin < before.profit_margin
ORDER BY before.profit_margin - after.profit_margin DESC, account, sku
LIMIT 1
"""

_WITHOUT_COST = """
SELECT account, currency, sum(sales_without_cost) AS sales, round(100 * sum(sales_without_cost) / sum(product_sales), 1)
       AS percent, count(*) FILTER (WHERE units_without_cost > 0) AS products
FROM marts.cost_coverage
WHERE account = ANY(:accounts) AND month = :month
GROUP BY account, currency
HAVING sum(sales_without_cost) > 0 AND sum(product_sales) > 0
ORDER BY percent DESC, account
LIMIT 1
"""


@dataclass(frozen=True)
class RunsOut:
    """The first product whose stock ends within a week of its snapshot.

    Attributes:
        products: How many such products there are.
    """

    account: str
    product: str
    day: date
    products: int


@dataclass(frozen=True)
class MarginFell:
    """The product whose profit margin, in percent, fell most from one month to the next."""

    account: str
    product: str
    before: Decimal
    after: Decimal


@dataclass(frozen=True)
class WithoutCost:
    """The account with the largest share of sales without a cost.

    Attributes:
        percent: That share.
        products: How many products they are of.
    """

    account: str
    currency: str
    sales: Decimal
    percent: Decimal
    products: int


@dataclass(frozen=True)
class Insights:
    """What to look at; None where there is nothing of the kind.

    Attributes:
        month: The last whole month, which margins and costs are of.
    """

    month: Window
    runs_out: RunsOut | None
    margin_fell: MarginFell | None
    without_cost: WithoutCost | None


def build_insights(database: Database, accounts: Sequence[str], today: date) -> Insights:
    """Build the partitions that the insights need, and return what they say."""
    month = Window.month_of(today.replace(day=1) - timedelta(days=1))
    month_before = Window.month_of(month.start - timedelta(days=1))
    for account in accounts:
        build_partition(database, INVENTORY_HEALTH, account, None)
        build_partition(database, COST_COVERAGE, account, month)
        for each in (month_before, month):
            build_partition(database, PRODUCT_PERFORMANCE_MONTHLY, account, each)
    bound = {
        "accounts": list(accounts),
        "month": month.start,
        "month_before": month_before.start,
        "units": _FEWEST_UNITS,
    }
    with database.begin() as connection:
        runs_out, margin_fell, without_cost = (
            connection.execute(text(query), bound).mappings().one_or_none()
            for query in (_RUNS_OUT, _MARGIN_FELL, _WITHOUT_COST)
        )
    return Insights(
        month,
        RunsOut(**runs_out) if runs_out else None,
        MarginFell(**margin_fell) if margin_fell else None,
        WithoutCost(**without_cost) if without_cost else None,
    )
