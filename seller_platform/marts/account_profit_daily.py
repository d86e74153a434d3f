"""Sales, cost, fees, profit and net profit of an account by day."""

from dataclasses import replace

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.marts import columns
from seller_platform.marts.common_queries import COST_INPUTS, PROFIT, profit_sums
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartCheck, MartColumn

_QUERY = """
WITH {costed},
days AS (
    SELECT costed.local_day, own.currency, {figures}
    FROM costed CROSS JOIN own
    GROUP BY costed.local_day, own.currency
),
{ledger},
charged AS (
    SELECT local_day, currency, {steps} FROM entries WHERE {counted} GROUP BY local_day, currency
),
merged AS (
    SELECT local_day, currency, coalesce(taxes, 0) AS taxes, coalesce(sales_without_cost, 0) AS sales_without_cost,
           {merged}
    FROM days FULL JOIN charged USING (local_day, currency)
)
SELECT local_day, currency, units, sales, taxes, shipping_credits, rebates, refunds, fees, cost,
       sales - cost - fees AS profit, round(100 * (sales - cost - fees) / nullif(sales, 0), 2),
       round(100 * (sales - cost - fees) / nullif(cost, 0), 2), units_without_cost, sales_without_cost,
       advertising, storage, subscriptions, reimbursements, other_entries, sales - cost - fees + {bridge}
FROM merged
"""

_IMPOSSIBLE = """
SELECT local_day, currency, units, units_without_cost, product_cost, profit, net_profit
FROM marts.account_profit_daily
WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
  AND (units < 0 OR units_without_cost NOT BETWEEN 0 AND units OR product_cost < 0
       OR profit IS DISTINCT FROM product_sales - product_cost - platform_fees
       OR net_profit IS DISTINCT FROM profit + {bridge})
"""

_CHART = """
SELECT local_day AS label, currency, product_sales AS "Product sales", profit AS "Profit",
       net_profit AS "Net profit"
FROM marts.account_profit_daily
WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
ORDER BY local_day
"""

ACCOUNT_PROFIT_DAILY = Mart(
    name="account_profit_daily",
    doc="Sales, cost, fees, profit and net profit of an account on one day, in one currency.",
    day="local_day",
    columns=(
        MartColumn(
            "local_day",
            Kind.DATE,
            "The day, in the account's time zone.",
            ("daily_product_sales.date", "transactions.posted_date"),
            key=True,
        ),
        columns.CURRENCY,
        columns.UNITS,
        columns.PRODUCT_SALES,
        MartColumn("taxes", Kind.MONEY, "Tax collected on the sales.", ("daily_product_sales.taxes",)),
        columns.SHIPPING_CREDITS,
        columns.REBATES,
        columns.REFUNDS,
        columns.PLATFORM_FEES,
        columns.PRODUCT_COST,
        columns.nullable(
            "profit",
            Kind.MONEY,
            "`product_sales - product_cost - platform_fees`, as the statistics compute it: too high by the cost of "
            "`units_without_cost`; null where `product_cost` is.",
            columns.OF_PROFIT,
        ),
        columns.PROFIT_MARGIN,
        columns.ROI,
        columns.UNITS_WITHOUT_COST,
        replace(columns.SALES_WITHOUT_COST, doc="The part of `product_sales` that those units made."),
        *columns.STEPS,
        columns.NET_PROFIT,
    ),
    inputs=(Input(DAILY_PRODUCT_SALES), Input(TRANSACTIONS), *COST_INPUTS),
    query=sql.SQL(_QUERY).format(**PROFIT),
    checks=(
        MartCheck(
            "sums_agree_with_the_inputs",
            "Units and amounts of sales add up to those of seller.daily_product_sales, fees, refunds and all other "
            "entries that count to those of seller.transactions.",
            profit_sums("account_profit_daily", "local_day", taxes="coalesce(taxes, 0) + "),
        ),
        MartCheck(
            "values_are_possible",
            "Units and costs are not negative, units without cost are a part of the units, and profit and net profit "
            "follow from the amounts beside them.",
            sql.SQL(_IMPOSSIBLE).format(**PROFIT),
            is_warning=True,
        ),
    ),
    chart=Chart(
        "lines",
        "Sales and profit by day",
        "{currency} per day",
        sql.SQL(_CHART),
        "Nothing was sold and nothing was charged.",
    ),
)
