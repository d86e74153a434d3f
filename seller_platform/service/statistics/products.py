"""Finds the names of products, and the rows of a view that they belong to."""

from typing import LiteralString

from psycopg import sql

from seller_platform.service.statistics.plan import Plan

UNNAMED: LiteralString = "2147483647"
"""The position of sales that name no product, after all others."""

IS_LISTED: LiteralString = "(sums.kind = 'sales' OR sums.kind = 'fees' AND sums.sku IS NOT NULL)"
"""The condition for sums that give a product a row."""

_NAMED = """,
candidates AS MATERIALIZED (
    SELECT account, sku, asin, coalesce(parent_asin, asin) AS parent_asin, product_name, buybox_price, sales_rank,
           1 AS choice, NULL::date AS day
    FROM chosen JOIN service.products USING (account)
    UNION ALL
    SELECT stored.account, stored.sku, stored.asin, stored.asin, stored.product_name, NULL, NULL, 2, NULL
    FROM chosen
    JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
),{unnamed}
named AS MATERIALIZED (
    SELECT DISTINCT ON (account, sku COLLATE "C") account, sku, asin, parent_asin, product_name, buybox_price,
           sales_rank
    FROM (
        SELECT * FROM candidates{names_of_unnamed}
    ) AS named
    ORDER BY account, sku COLLATE "C", choice, day DESC, asin, product_name
),
products AS MATERIALIZED (
    SELECT named.*, dense_rank() OVER (ORDER BY {dimension} COLLATE "C")::integer AS position, {dimension} AS dimension
    FROM named
)"""

# Products without a name in the service's table and in the newest stock get the name of their latest sale.
_UNNAMED = """
unnamed AS MATERIALIZED (
    SELECT account, sku
    FROM (
        SELECT DISTINCT sums.account, sums.sku COLLATE "C" AS sku
        FROM segments
        JOIN {product_sums} AS sums ON sums.account = segments.account AND sums.month = segments.month
        WHERE {is_listed} AND sums.sku IS NOT NULL
    ) AS summed
    WHERE NOT EXISTS (
        SELECT FROM candidates WHERE candidates.account = summed.account AND candidates.sku = summed.sku
    )
),"""
_NAMES_OF_UNNAMED: LiteralString = """
        UNION ALL
        SELECT stored.account, stored.sku, stored.asin, stored.asin, stored.product_name, NULL, NULL, 3,
               stored.local_day
        FROM seller.daily_product_sales AS stored
        JOIN unnamed ON unnamed.account = stored.account AND unnamed.sku = stored.sku
        WHERE stored.account = ANY(%(accounts)s)
          AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
        UNION ALL
        SELECT account, sku, NULL, NULL, NULL, NULL, NULL, 4, NULL FROM unnamed"""

_LOOKED_UP = """
    LEFT JOIN (SELECT DISTINCT ON ({key}) {key}, position FROM products) AS products ON {condition}"""


def named_products(plan: Plan) -> sql.Composable:
    """Return `products`: row and name of each product; nothing in a date view."""
    if plan.grouping.dimension is None:
        return sql.SQL("")
    unnamed = sql.SQL(_UNNAMED).format(product_sums=sql.SQL(plan.product_sums), is_listed=sql.SQL(IS_LISTED))
    return sql.SQL(_NAMED).format(
        dimension=sql.Identifier(plan.grouping.dimension),
        unnamed=unnamed if plan.names_unnamed else sql.SQL(""),
        names_of_unnamed=sql.SQL(_NAMES_OF_UNNAMED if plan.names_unnamed else ""),
    )


def looked_up(plan: Plan) -> sql.Composable:
    """Return the join of `sums` with its product.

    Each product occurs once. DISTINCT lets PostgreSQL see that; without it, the planner would hash the rows instead.
    """
    # Comparisons of texts take longest; the accounts are equal where there is one, and not compared.
    key: tuple[LiteralString, ...] = ("sku",) if plan.is_one_account else ("account", "sku")
    return sql.SQL(_LOOKED_UP).format(
        key=sql.SQL(", ".join(key)),
        condition=sql.SQL(" AND ".join(f"products.{name} = sums.{name}" for name in key)),
    )
