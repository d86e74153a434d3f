"""Sales without a valid cost of the goods."""

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.marts import columns
from seller_platform.marts.common_queries import COST_INPUTS, FIGURES, MONTH_COSTED
from seller_platform.warehouse.derived.declaration import Chart, Input, Mart, MartCheck, MartColumn, MartParameter

_QUERY = """
WITH {costed},
products AS (
    SELECT costed.sku, own.currency,
           (array_agg(costed.asin ORDER BY costed.local_day DESC) FILTER (WHERE costed.asin IS NOT NULL))[1] AS asin,
           (array_agg(costed.product_name ORDER BY costed.local_day DESC)
               FILTER (WHERE costed.product_name IS NOT NULL))[1] AS product_name, {figures},
           count(*) AS days_sold, count(*) FILTER (WHERE costed.unit_cost IS NULL) AS days_without_cost,
           min(costed.local_day) FILTER (WHERE costed.unit_cost IS NULL) AS first_day_without_cost,
           max(costed.local_day) FILTER (WHERE costed.unit_cost IS NULL) AS last_day_without_cost,
           bool_or(costed.is_foreign) AS is_foreign
    FROM costed CROSS JOIN own
    WHERE costed.sku IS NOT NULL
    GROUP BY costed.sku, own.currency
)
SELECT %(first_day)s::date, sku, currency, asin, product_name, units, sales, units_without_cost, sales_without_cost,
       round(100 * (sales - sales_without_cost) / nullif(sales, 0), 2), days_sold, days_without_cost,
       first_day_without_cost, last_day_without_cost,
       CASE WHEN days_without_cost = 0 THEN NULL
            WHEN is_foreign THEN 'other currency'
            WHEN sku IN (SELECT sku FROM costs) THEN 'gap'
            ELSE 'no cost' END
FROM products
"""

_SUMS = """
SELECT * FROM (
    SELECT sum(units) AS units, sum(product_sales) AS sales
    FROM marts.cost_coverage
    WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s
) AS here
CROSS JOIN (
    SELECT sum(units_ordered) AS units_of_input, sum(product_sales) AS sales_of_input
    FROM seller.daily_product_sales
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND sku IS NOT NULL
) AS sold
WHERE (coalesce(units, 0), coalesce(sales, 0)) <> (coalesce(units_of_input, 0), coalesce(sales_of_input, 0))
"""

_IMPOSSIBLE = """
SELECT sku, units, units_without_cost, share_covered, days_sold, days_without_cost, problem
FROM marts.cost_coverage
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s
  AND (units_without_cost NOT BETWEEN 0 AND units OR share_covered NOT BETWEEN 0 AND 100
       OR days_without_cost > days_sold OR (days_without_cost = 0) <> (problem IS NULL))
"""

_UNCOVERED = """
SELECT sum(product_sales) AS product_sales, sum(sales_without_cost) AS sales_without_cost,
       round(100 * (1 - sum(sales_without_cost) / sum(product_sales)), 2) AS share_covered
FROM marts.cost_coverage
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s
HAVING 100 * sum(sales_without_cost) > (100 - %(least_percent)s::integer) * sum(product_sales)
"""

_CHART = """
SELECT sku AS label, currency, sales_without_cost AS "Sales without a valid cost"
FROM marts.cost_coverage
WHERE account = %(account)s AND month >= %(first_day)s AND month < %(end_day)s AND sales_without_cost > 0
ORDER BY sales_without_cost DESC, sku
LIMIT 10
"""

COST_COVERAGE = Mart(
    name="cost_coverage",
    doc="How much of what one SKU sold in one month has a valid cost.",
    day="month",
    columns=(
        columns.MONTH,
        columns.SKU,
        columns.OWN_CURRENCY,
        columns.ASIN,
        columns.PRODUCT_NAME,
        columns.UNITS,
        columns.PRODUCT_SALES,
        columns.UNITS_WITHOUT_COST,
        columns.SALES_WITHOUT_COST,
        columns.nullable(
            "share_covered",
            Kind.NUMBER,
            "The part of `product_sales` with a valid cost, in percent; null where there were none.",
            (*columns.OF_SALES, *columns.OF_COST),
        ),
        MartColumn("days_sold", Kind.INTEGER, "Days with sales of the SKU.", ("daily_product_sales.date",)),
        MartColumn("days_without_cost", Kind.INTEGER, "Those on which no cost was valid.", columns.OF_COST),
        columns.nullable(
            "first_day_without_cost", Kind.DATE, "The first of them; null where there is none.", columns.OF_COST
        ),
        columns.nullable(
            "last_day_without_cost", Kind.DATE, "The last of them; null where there is none.", columns.OF_COST
        ),
        columns.nullable(
            "problem",
            Kind.TEXT,
            "`no cost` where the SKU has none at all, `gap` where it has on other days, `other currency` where an "
            "element is not in the account's; null where every day is covered.",
            columns.OF_COST,
        ),
    ),
    inputs=(Input(DAILY_PRODUCT_SALES), *COST_INPUTS),
    parameters=(
        MartParameter(
            "least_percent", 80, "Percent of the sales that should have a valid cost; fewer are a warning.", maximum=100
        ),
    ),
    query=sql.SQL(_QUERY).format(costed=MONTH_COSTED, figures=FIGURES),
    checks=(
        MartCheck(
            "sums_agree_with_the_inputs",
            "Units and sales add up to those of seller.daily_product_sales that name a SKU.",
            sql.SQL(_SUMS),
        ),
        MartCheck(
            "values_are_possible",
            "What has no cost is a part of what was sold, and has a problem that is named.",
            sql.SQL(_IMPOSSIBLE),
            is_warning=True,
        ),
        MartCheck(
            "sales_are_covered",
            "At least 80 % of the sales of a month, or what least_percent says, have a valid cost.",
            sql.SQL(_UNCOVERED),
            is_warning=True,
            repair="enter costs of the products in marts.cost_coverage that lack them, load seller/cost_periods",
        ),
    ),
    chart=Chart(
        "bars",
        "Sales without a valid cost, the ten largest",
        "{currency} in the month",
        sql.SQL(_CHART),
        "Every unit that was sold has a valid cost.",
    ),
)
