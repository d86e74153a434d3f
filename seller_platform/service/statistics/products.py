"""Finds the names of products, and the rows of a view that they belong to."""

from typing import LiteralString

from psycopg import sql

from seller_platform.service.statistics.plan import Plan

UNNAMED: LiteralString = "2147483647"
"""The position of sales that name no product, after all others."""

_NAMED = """,
stocked AS MATERIALIZED (
    SELECT DISTINCT ON (account, sku COLLATE "C") stored.account, stored.sku, stored.asin, stored.product_name
    FROM chosen
    JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
     AND stored.account = ANY(%(accounts)s::text[])
    WHERE NOT EXISTS (
        SELECT FROM service.products AS product WHERE product.account = stored.account AND product.sku = stored.sku
    )
    ORDER BY account, sku COLLATE "C", asin, product_name
),{unnamed}
named AS MATERIALIZED (
    SELECT account, sku, asin, coalesce(parent_asin, asin) AS parent_asin, product_name, buybox_price, sales_rank
    FROM chosen JOIN service.products USING (account)
    UNION ALL SELECT account, sku, asin, asin, product_name, NULL, NULL FROM stocked{named_by_sales}
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
        SELECT DISTINCT sums.account, unnest(sums.skus) COLLATE "C" AS sku
        FROM months JOIN {product_months} AS sums USING (account, month, rates_hash)
        WHERE sums.target = %(target)s::text
    ) AS summed
    WHERE sku IS NOT NULL AND NOT EXISTS (
        SELECT FROM service.products AS product WHERE product.account = summed.account AND product.sku = summed.sku
    ) AND NOT EXISTS (SELECT FROM stocked WHERE stocked.account = summed.account AND stocked.sku = summed.sku)
),
named_by_sales AS MATERIALIZED (
    SELECT DISTINCT ON (unnamed.account, unnamed.sku) unnamed.account, unnamed.sku, stored.asin, stored.product_name
    FROM unnamed
    LEFT JOIN seller.daily_product_sales AS stored
      ON stored.account = unnamed.account AND stored.sku = unnamed.sku AND stored.account = ANY(%(accounts)s)
     AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
    ORDER BY unnamed.account, unnamed.sku, stored.local_day DESC, stored.asin, stored.product_name
),"""
_NAMED_BY_SALES: LiteralString = """
    UNION ALL SELECT account, sku, asin, asin, product_name, NULL, NULL FROM named_by_sales"""

_LOOKED_UP = """
    LEFT JOIN (SELECT DISTINCT ON ({key}) {key}, position FROM {products}) AS products ON {condition}"""


def named_products(plan: Plan) -> sql.Composable:
    """Return `products`: row and name of each product; nothing in a date view."""
    if plan.grouping.dimension is None:
        return sql.SQL("")
    unnamed = sql.SQL(_UNNAMED).format(**plan.tables)
    return sql.SQL(_NAMED).format(
        dimension=sql.Identifier(plan.grouping.dimension),
        unnamed=unnamed if plan.names_unnamed else sql.SQL(""),
        named_by_sales=sql.SQL(_NAMED_BY_SALES if plan.names_unnamed else ""),
    )


def looked_up(plan: Plan, products: LiteralString) -> sql.Composable:
    """Return the join of `sums` with its product, of `products` or of those on the page.

    Each product occurs once. DISTINCT lets PostgreSQL see that; without it, the planner would hash the rows instead.
    """
    # Comparisons of texts take longest; the accounts are equal where there is one, and not compared.
    key: tuple[LiteralString, ...] = ("sku",) if plan.is_one_account else ("account", "sku")
    return sql.SQL(_LOOKED_UP).format(
        products=sql.SQL(products),
        key=sql.SQL(", ".join(key)),
        condition=sql.SQL(" AND ".join(f"products.{name} = sums.{name}" for name in key)),
    )
