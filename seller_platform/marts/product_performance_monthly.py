"""Sales and profit of each product in a month, compared with the month before."""

from dataclasses import replace

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.marts import columns
from seller_platform.marts.common_queries import COST_INPUTS, PROFIT, is_loaded, profit_sums
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartCheck, MartColumn, MartParameter

_HAS_BEFORE = is_loaded(DAILY_PRODUCT_SALES, "CAST(%(first_day)s::date - interval '1 month' AS date)")
_QUERY = """
WITH {costed},
now AS (
    SELECT costed.sku, own.currency,
           (array_agg(costed.asin ORDER BY costed.local_day DESC) FILTER (WHERE costed.asin IS NOT NULL))[1] AS asin,
           (array_agg(costed.product_name ORDER BY costed.local_day DESC)
               FILTER (WHERE costed.product_name IS NOT NULL))[1] AS product_name, {figures}
    FROM costed CROSS JOIN own
    WHERE costed.sku IS NOT NULL
    GROUP BY costed.sku, own.currency
),
before AS (
    SELECT stored.sku, own.currency, max(stored.asin) AS asin, max(stored.product_name) AS product_name,
           sum(coalesce(units_ordered, 0))::bigint AS units_before, sum(coalesce(product_sales, 0)) AS sales_before
    FROM seller.daily_product_sales AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day < %(first_day)s
      AND stored.local_day >= (%(first_day)s::date - interval '1 month')::date AND stored.sku IS NOT NULL
    GROUP BY stored.sku, own.currency
),
{ledger},
charged AS (
    SELECT sku, currency,
           coalesce(sum(quantity) FILTER (WHERE line = 'refunds'), 0)::bigint AS units_refunded, {steps}
    FROM entries
    WHERE {counted} AND sku IS NOT NULL
    GROUP BY sku, currency
),
merged AS (
    SELECT sku, currency, coalesce(now.asin, before.asin) AS asin,
           coalesce(now.product_name, before.product_name) AS product_name,
           CASE WHEN {has_before} THEN coalesce(units_before, 0) END AS units_before,
           CASE WHEN {has_before} THEN coalesce(sales_before, 0) END AS sales_before,
           coalesce(units_refunded, 0) AS units_refunded, {merged}
    FROM now FULL JOIN before USING (sku, currency) FULL JOIN charged USING (sku, currency)
),
ranked AS (
    SELECT *, CASE WHEN units_without_cost = 0 THEN sales - cost - fees END AS profit,
           sum(sales) OVER (PARTITION BY currency) AS all_sales,
           CASE WHEN sales > 0 THEN row_number() OVER by_sales END AS place,
           sum(greatest(sales, 0)) OVER (by_sales ROWS UNBOUNDED PRECEDING) - greatest(sales, 0) AS sales_above,
           sum(greatest(sales, 0)) OVER (PARTITION BY currency) AS positive_sales
    FROM merged
    WINDOW by_sales AS (PARTITION BY currency ORDER BY sales DESC, sku COLLATE "C")
)
SELECT %(first_day)s::date, sku, currency, asin, product_name, units, sales,
       round(100 * sales / nullif(all_sales, 0), 2), place,
       CASE WHEN place IS NULL THEN NULL
            WHEN 100 * sales_above < %(a_percent)s::integer * positive_sales THEN 'A'
            WHEN 100 * sales_above < %(b_percent)s::integer * positive_sales THEN 'B'
            ELSE 'C' END,
       rebates, units_refunded, refunds, fees, cost, profit, round(100 * profit / nullif(sales, 0), 2),
       round(100 * profit / nullif(cost, 0), 2), units_without_cost, units_before, sales_before,
       round(100 * (sales - sales_before) / nullif(abs(sales_before), 0), 2), shipping_credits,
       advertising, storage, subscriptions, reimbursements, other_entries, profit + {bridge}
FROM ranked
"""

_IMPOSSIBLE = """
SELECT sku, currency, units, units_without_cost, product_cost, profit, net_profit, rank, abc_class
FROM marts.product_performance_monthly
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s
  AND (units < 0 OR units_without_cost NOT BETWEEN 0 AND units OR product_cost < 0
       OR (rank IS NULL) <> (abc_class IS NULL) OR (units_without_cost > 0 AND profit IS NOT NULL)
       OR net_profit IS DISTINCT FROM profit + {bridge})
"""

_CHART = """
SELECT sku AS label, currency, product_sales AS "Product sales", profit AS "Profit"
FROM marts.product_performance_monthly
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s AND rank <= 10
ORDER BY currency, rank
LIMIT 10
"""

PRODUCT_PERFORMANCE_MONTHLY = Mart(
    name="product_performance_monthly",
    doc="Sales, cost, fees, profit and net profit of one SKU in one month and currency, its rank, and what it sold "
    "before.",
    day="month",
    columns=(
        columns.MONTH,
        replace(columns.SKU, of=("daily_product_sales.sku", "transactions.sku")),
        columns.CURRENCY,
        columns.ASIN,
        columns.PRODUCT_NAME,
        columns.UNITS,
        columns.PRODUCT_SALES,
        columns.nullable(
            "share_of_sales",
            Kind.NUMBER,
            "`product_sales` in percent of the account's sales of the month; null where there were none.",
            columns.OF_SALES,
        ),
        columns.nullable(
            "rank",
            Kind.INTEGER,
            "Place of the SKU by `product_sales`, from 1; null where it sold nothing.",
            columns.OF_SALES,
        ),
        columns.nullable(
            "abc_class",
            Kind.TEXT,
            "A for the SKUs that sell most and make 80 percent of the sales together, B for the next up to 95, C for "
            "the rest; null where it sold nothing.",
            columns.OF_SALES,
        ),
        columns.REBATES,
        MartColumn(
            "units_refunded",
            Kind.INTEGER,
            "Units that the refunds of the month concern.",
            ("transactions.quantity", "transactions.transaction_type"),
        ),
        columns.REFUNDS,
        replace(
            columns.PLATFORM_FEES,
            doc="Fees of the marketplace that name the SKU, by the day they were posted, as a positive cost; fees of "
            "the account as a whole are in account_profit_daily only.",
            of=(*columns.OF_LEDGER, "transactions.sku"),
        ),
        columns.PRODUCT_COST,
        columns.nullable(
            "profit",
            Kind.MONEY,
            "`product_sales - product_cost - platform_fees`; null where any unit has no valid cost.",
            columns.OF_PROFIT,
        ),
        columns.PROFIT_MARGIN,
        columns.ROI,
        columns.UNITS_WITHOUT_COST,
        columns.nullable(
            "units_before",
            Kind.INTEGER,
            "Units ordered in the month before, as a whole; null where that was never loaded.",
            ("daily_product_sales.units_ordered",),
        ),
        columns.nullable(
            "sales_before",
            Kind.MONEY,
            "Revenue from the product in the month before, as a whole; null where that was never loaded.",
            columns.OF_SALES,
        ),
        columns.nullable(
            "sales_change",
            Kind.NUMBER,
            "Change of `product_sales` against `sales_before` in percent; null where that is 0 or null. A month that "
            "is not over is compared with the whole month before.",
            columns.OF_SALES,
        ),
        columns.SHIPPING_CREDITS,
        *(replace(column, of=(*column.of, "transactions.sku")) for column in columns.STEPS),
        replace(columns.NET_PROFIT, of=(*columns.OF_NET_PROFIT, "transactions.sku")),
    ),
    inputs=(Input(DAILY_PRODUCT_SALES, months_before=1), Input(TRANSACTIONS), *COST_INPUTS),
    parameters=(
        MartParameter("a_percent", 80, "Percent of the sales that the SKUs of class A make together.", maximum=100),
        MartParameter(
            "b_percent", 95, "Percent of the sales that the SKUs of the classes A and B make together.", maximum=100
        ),
    ),
    query=sql.SQL(_QUERY).format(has_before=_HAS_BEFORE, **PROFIT),
    checks=(
        MartCheck(
            "sums_agree_with_the_inputs",
            "Units and sales add up to those of seller.daily_product_sales, fees, refunds and all other entries that "
            "count to those of seller.transactions, of the rows that name a SKU.",
            profit_sums("product_performance_monthly", "month", named="sku IS NOT NULL"),
        ),
        MartCheck(
            "values_are_possible",
            "Units and costs are not negative, units without cost are a part of the units and leave the profit open, "
            "net profit follows from the amounts beside it, and what has a rank has a class.",
            sql.SQL(_IMPOSSIBLE).format(**PROFIT),
            is_warning=True,
        ),
    ),
    chart=Chart("bars", "The ten SKUs that sold most", "{currency} in the month", sql.SQL(_CHART), "Nothing was sold."),
)
