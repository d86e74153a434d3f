"""Sales, cost, fees, profit and net profit of an account by day."""

from dataclasses import replace

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.warehouse.marts import columns
from seller_platform.warehouse.marts.common_queries import (
    BRIDGE,
    COST_INPUTS,
    COUNTED_LINES,
    FIGURES,
    LEDGER,
    MONTH_COSTED,
    STEPS,
)
from seller_platform.warehouse.marts.declaration import Chart, ChartForm, Input, Mart, MartCheck, MartColumn
from seller_platform.warehouse.marts.rules.formulas import STANDARD

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
    SELECT local_day, currency, coalesce(units, 0) AS units, coalesce(sales, 0) AS sales, coalesce(taxes, 0) AS taxes,
           coalesce(shipping_credits, 0) AS shipping_credits, coalesce(rebates, 0) AS rebates,
           coalesce(refunds, 0) AS refunds, coalesce(advertising, 0) AS advertising, coalesce(storage, 0) AS storage,
           coalesce(subscriptions, 0) AS subscriptions, coalesce(reimbursements, 0) AS reimbursements,
           coalesce(other_entries, 0) AS other_entries, coalesce(fees, 0) AS fees,
           CASE WHEN coalesce(units_without_cost, 0) = 0 THEN coalesce(known_cost, 0) ELSE known_cost END AS cost,
           coalesce(units_without_cost, 0) AS units_without_cost, coalesce(sales_without_cost, 0) AS sales_without_cost
    FROM days FULL JOIN charged USING (local_day, currency)
)
SELECT local_day, currency, units, sales, taxes, shipping_credits, rebates, refunds, fees, cost,
       sales - cost - fees AS profit, round(100 * (sales - cost - fees) / nullif(sales, 0), 2),
       round(100 * (sales - cost - fees) / nullif(cost, 0), 2), units_without_cost, sales_without_cost,
       advertising, storage, subscriptions, reimbursements, other_entries, sales - cost - fees + {bridge}
FROM merged
"""

_SUMS = """
SELECT * FROM (
    SELECT sum(units) AS units, sum(product_sales) AS sales, sum(taxes + shipping_credits - rebates) AS others,
           sum(platform_fees) AS fees, sum(refunds) AS refunds,
           sum(reimbursements + other_entries - platform_fees - refunds - advertising - storage - subscriptions)
               AS counted
    FROM marts.account_profit_daily
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
) AS here
CROSS JOIN (
    SELECT sum(units_ordered) AS units_of_input, sum(product_sales) AS sales_of_input,
           coalesce(sum(taxes), 0) + coalesce(sum(shipping_credits), 0) - coalesce(sum(rebates), 0) AS others_of_input
    FROM seller.daily_product_sales
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
) AS sold
CROSS JOIN (
    SELECT -sum(amount) FILTER (WHERE transaction_type = 'Fee') AS fees_of_input,
           -sum(amount) FILTER (WHERE transaction_type = 'Refund') AS refunds_of_input,
           sum(amount) FILTER (WHERE {counted}) AS counted_of_input
    FROM (SELECT *, {line} AS line FROM seller.transactions) AS entries
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
) AS ledger
WHERE (coalesce(units, 0), coalesce(sales, 0), coalesce(others, 0), coalesce(fees, 0), coalesce(refunds, 0),
       coalesce(counted, 0))
   <> (coalesce(units_of_input, 0), coalesce(sales_of_input, 0), coalesce(others_of_input, 0),
       coalesce(fees_of_input, 0), coalesce(refunds_of_input, 0), coalesce(counted_of_input, 0))
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
  AND currency = (
      SELECT currency FROM marts.account_profit_daily
      WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
      GROUP BY currency ORDER BY sum(product_sales) DESC, currency LIMIT 1
  )
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
        MartColumn(
            "profit",
            Kind.MONEY,
            "`product_sales - product_cost - platform_fees`, as the statistics compute it: too high by the cost of "
            "`units_without_cost`; null where `product_cost` is.",
            columns.OF_PROFIT,
            nullable=True,
        ),
        columns.PROFIT_MARGIN,
        columns.ROI,
        columns.UNITS_WITHOUT_COST,
        replace(columns.SALES_WITHOUT_COST, doc="The part of `product_sales` that those units made."),
        *columns.STEPS,
        columns.NET_PROFIT,
    ),
    inputs=(Input(DAILY_PRODUCT_SALES), Input(TRANSACTIONS), *COST_INPUTS),
    query=sql.SQL(_QUERY).format(
        costed=MONTH_COSTED, figures=FIGURES, ledger=LEDGER, steps=STEPS, counted=COUNTED_LINES, bridge=BRIDGE
    ),
    checks=(
        MartCheck(
            "sums_agree_with_the_inputs",
            "Units and amounts of sales add up to those of seller.daily_product_sales, fees, refunds and all other "
            "entries that count to those of seller.transactions.",
            sql.SQL(_SUMS).format(counted=COUNTED_LINES, line=STANDARD.line_of_entry),
        ),
        MartCheck(
            "values_are_possible",
            "Units and costs are not negative, units without cost are a part of the units, and profit and net profit "
            "follow from the amounts beside them.",
            sql.SQL(_IMPOSSIBLE).format(bridge=BRIDGE),
            is_warning=True,
        ),
    ),
    chart=Chart(
        ChartForm.LINES,
        "Sales and profit by day",
        "{currency} per day",
        sql.SQL(_CHART),
        "Nothing was sold and nothing was charged.",
    ),
)
