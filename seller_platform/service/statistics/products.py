"""Finds the costs of products on each day, their names and their rows."""

from typing import LiteralString

from psycopg import sql

from seller_platform.service.statistics.plan import Plan

NUMBER = "^-?[0-9]{1,30}([.][0-9]{1,30})?$"
"""The amounts of cost elements that count, after commas are removed."""

COSTS: LiteralString = """,
elements AS MATERIALIZED (
    SELECT period.account, period.sku, period.from_date, coalesce(period.to_date, 'infinity') AS to_date,
           coalesce(element ->> 'currency', chosen.currency) AS currency, chosen.currency AS own_currency,
           CASE WHEN replace(element ->> 'amount', ',', '') ~ %(number)s
                THEN replace(element ->> 'amount', ',', '')::numeric END AS amount
    FROM chosen
    JOIN seller.cost_periods AS period ON period.account = chosen.account AND period.local_day = chosen.cost_day
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE WHEN jsonb_typeof(period.cost_elements) = 'array' THEN period.cost_elements ELSE '[]' END
    ) AS element
),
own_elements AS (
    SELECT account, sku, from_date, to_date, sum(amount) AS amount
    FROM elements
    WHERE currency = own_currency
    GROUP BY account, sku, from_date, to_date
),
edges AS (
    SELECT account, sku, from_date AS day FROM own_elements
    UNION SELECT account, sku, to_date + 1 FROM own_elements
),
steps AS (
    SELECT account, sku, edges.day, sum(own_elements.amount) AS amount
    FROM edges
    LEFT JOIN own_elements USING (account, sku)
    WHERE edges.day BETWEEN own_elements.from_date AND own_elements.to_date
    GROUP BY account, sku, edges.day
    UNION ALL
    SELECT account, sku, to_date + 1, NULL
    FROM own_elements AS ended
    WHERE NOT EXISTS (
        SELECT FROM own_elements AS other
        WHERE other.account = ended.account AND other.sku = ended.sku
          AND ended.to_date + 1 BETWEEN other.from_date AND other.to_date
    )
),
costs AS MATERIALIZED (
    SELECT account, sku, array_agg(day ORDER BY day) AS days, array_agg(amount ORDER BY day) AS amounts
    FROM steps
    GROUP BY account, sku
),
other_elements AS MATERIALIZED (
    SELECT * FROM elements WHERE currency <> own_currency AND amount IS NOT NULL
)"""
"""`costs`: costs in the account's currency, from each day on; `other_elements`: those in other currencies."""

_NAMED = """,
candidates AS MATERIALIZED (
    SELECT account, sku, asin, coalesce(parent_asin, asin) AS parent_asin, product_name, buybox_price, sales_rank,
           1 AS choice, NULL::date AS day
    FROM chosen JOIN service.products USING (account)
    UNION ALL
    SELECT stored.account, stored.sku, stored.asin, stored.asin, stored.product_name, NULL, NULL, 2, NULL
    FROM chosen
    JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
),
named AS MATERIALIZED (
    SELECT DISTINCT ON (account, sku) account, sku, asin, parent_asin, product_name, buybox_price, sales_rank
    FROM (
        SELECT * FROM candidates{unnamed}
    ) AS named
    ORDER BY account, sku, choice, day DESC, asin, product_name
),
products AS MATERIALIZED (
    SELECT named.*, dense_rank() OVER (ORDER BY {dimension} COLLATE "C")::integer AS position, {dimension} AS dimension,
           costs.days, costs.amounts
    FROM named
    LEFT JOIN costs USING (account, sku)
)"""

# Products without a name in the service's table and in the newest stock get the name of their latest sale.
_UNNAMED: LiteralString = """
        UNION ALL
        SELECT stored.account, stored.sku, stored.asin, stored.asin, stored.product_name, NULL, NULL, 3,
               stored.local_day
        FROM seller.daily_product_sales AS stored
        WHERE stored.account = ANY(%(accounts)s)
          AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
          AND NOT EXISTS (
              SELECT FROM candidates WHERE candidates.account = stored.account AND candidates.sku = stored.sku
          )
        UNION ALL
        SELECT DISTINCT stored.account, stored.sku, NULL, NULL, NULL, NULL::numeric, NULL::bigint, 4, NULL::date
        FROM charged AS stored
        WHERE stored.sku IS NOT NULL
          AND NOT EXISTS (
              SELECT FROM candidates WHERE candidates.account = stored.account AND candidates.sku = stored.sku
          )"""

_LOOKED_UP = """
    LEFT JOIN (SELECT DISTINCT ON ({key}) * FROM {source}) AS products ON {condition}"""


def named_products(plan: Plan) -> sql.Composable:
    """Return `products`: row, name and costs of each product; nothing in a date view."""
    if plan.grouping.dimension is None:
        return sql.SQL("")
    unnamed = sql.SQL(_UNNAMED if plan.names_unnamed else "")
    return sql.SQL(_NAMED).format(dimension=sql.Identifier(plan.grouping.dimension), unnamed=unnamed)


def looked_up(plan: Plan) -> sql.Composable:
    """Return the join of `stored` with its product, or in a date view its costs.

    Each product occurs once. DISTINCT lets PostgreSQL see that; without it, the planner would hash the rows instead.
    """
    # Comparisons of texts take longest; the accounts are equal where there is one, and not compared.
    key: tuple[LiteralString, ...] = ("sku",) if plan.is_one_account else ("account", "sku")
    return sql.SQL(_LOOKED_UP).format(
        key=sql.SQL(", ".join(key)),
        source=sql.Identifier("costs" if plan.grouping.dimension is None else "products"),
        condition=sql.SQL(" AND ".join(f"products.{name} = stored.{name}" for name in key)),
    )
