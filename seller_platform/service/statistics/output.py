"""Encodes the rows of one page of statistics: figures, names, stock and trends."""

from collections.abc import Mapping
from typing import LiteralString

from psycopg import sql

from seller_platform.service.statistics.plan import LABEL, Grouping

_ANSWER = """,
identities AS (
    SELECT {identity}
),
page AS MATERIALIZED (
    SELECT *, round(sales, greatest(2, min_scale(sales))) AS product_sales,
           round(cost, greatest(2, min_scale(cost))) AS product_cost,
           round(fees, greatest(2, min_scale(fees))) AS platform_fees,
           round(sales - cost - fees, greatest(2, min_scale(sales - cost - fees))) AS profit
    FROM (
        SELECT position, period, units, sales, CASE WHEN %(knows_costs)s THEN cost END AS cost,
               CASE WHEN %(knows_fees)s THEN fees END AS fees, units_before, sales_before, profit_before
        FROM grouped
    ) AS requested_page
    LEFT JOIN identities USING (position)
){extras}
SELECT (SELECT is_current FROM kept), whole.total, lacking.missing_rate, lacking.has_unnamed, lacking.lacks_months,
       (SELECT string_agg(row_to_json(answered)::text, ',') FROM (
           SELECT {fields} FROM page {joined} ORDER BY page.period, page.position
       ) AS answered)
FROM whole CROSS JOIN lacking
"""

_FIELDS: tuple[LiteralString, ...] = (
    "page.units AS units_ordered",
    "page.product_sales",
    "page.product_cost",
    "page.platform_fees",
    "page.profit",
    "round(100 * page.profit / nullif(page.product_cost, 0), 2) AS roi",
    "round(100 * page.profit / nullif(page.product_sales, 0), 2) AS profit_margin",
)

_TREND: LiteralString = """json_build_object(
    'units_ordered', round(100 * (units - units_before) / nullif(abs(units_before), 0), 2),
    'product_sales', round(100 * (sales - sales_before) / abs(nullif(nullif(sales_before, 'NaN'), 0)), 2),
    'profit', round(
        100 * (sales - cost - fees - profit_before) / abs(nullif(nullif(profit_before, 'NaN'), 0)), 2)
) AS trend"""

_STOCK: LiteralString = """,
stock AS (
    SELECT products.position, sum(stored.afn_fulfillable_quantity) AS inventory
    FROM chosen
    JOIN seller.inventory AS stored ON stored.account = chosen.account AND stored.local_day = chosen.stock_day
     AND stored.account = ANY(%(accounts)s::text[])
    JOIN page_products AS products ON products.account = stored.account AND products.sku = stored.sku
    GROUP BY 1
),
shelves AS (
    SELECT products.position, sum(stored.quantity) AS local_inventory
    FROM chosen
    JOIN seller.warehouse_stock AS stored ON stored.account = chosen.account AND stored.local_day = chosen.shelf_day
     AND stored.account = ANY(%(accounts)s::text[])
    JOIN page_products AS products ON products.account = stored.account AND products.sku = stored.sku
    GROUP BY 1
),
empty_days AS (
    SELECT position, count(*) FILTER (WHERE units = 0) AS out_of_stock_days
    FROM (
        SELECT products.position, stored.local_day, sum(stored.afn_fulfillable_quantity) AS units
        FROM chosen
        JOIN seller.inventory AS stored
          ON stored.account = chosen.account AND stored.local_day BETWEEN chosen.first_day AND chosen.last_day
         AND stored.account = ANY(%(accounts)s::text[])
        JOIN page_products AS products ON products.account = stored.account AND products.sku = stored.sku
        GROUP BY 1, 2
    ) AS days
    GROUP BY 1
),
offers AS (
    SELECT products.position, min(products.sales_rank) AS sales_rank,
           min(CASE WHEN chosen.currency = %(target)s::text THEN products.buybox_price
                    ELSE round(products.buybox_price * rate.rate, 2) END) AS buybox_price
    FROM page_products AS products
    JOIN chosen USING (account)
    LEFT JOIN (
        SELECT DISTINCT ON (currency) * FROM rates WHERE day <= %(last_day)s::date ORDER BY currency, day DESC
    ) AS rate ON rate.currency = chosen.currency
    GROUP BY 1
)"""

_STOCK_FIELDS: tuple[LiteralString, ...] = (
    "round(page.units / %(days)s, 2) AS velocity",
    "empty_days.out_of_stock_days",
    "stock.inventory",
    "shelves.local_inventory",
    "round(offers.buybox_price, greatest(2, min_scale(offers.buybox_price))) AS buybox_price",
    "offers.sales_rank",
)

_STOCK_JOINED: LiteralString = """
    LEFT JOIN stock ON stock.position = page.position
    LEFT JOIN shelves ON shelves.position = page.position
    LEFT JOIN empty_days ON empty_days.position = page.position
    LEFT JOIN offers ON offers.position = page.position"""

_IDENTITY: LiteralString = """position, min(dimension) AS dimension, min(asin) AS asin,
           min(product_name COLLATE "C") AS product_name
    FROM page_products GROUP BY position"""

_IDENTITIES: Mapping[str, tuple[LiteralString, ...]] = {
    "sku": ("page.dimension AS sku", "page.asin", "page.product_name"),
    "asin": ("page.dimension AS asin", "page.product_name"),
    "parent_asin": ("page.dimension AS parent_asin", "page.product_name"),
}


def answered_rows(grouping: Grouping) -> sql.Composed:
    """Return the end of the statement: `grouped` encoded, and `whole`."""
    is_by_product, is_by_period = grouping.dimension is not None, grouping.period is not None
    has_stock = is_by_product and not is_by_period
    fields: list[LiteralString] = []
    if grouping.dimension is not None:
        fields += _IDENTITIES[grouping.dimension]
    if grouping.period is not None:
        fields.append(f"{LABEL[grouping.period]} AS date")
    fields += [*_FIELDS, *(_STOCK_FIELDS if has_stock else ()), *(() if grouping.is_combined else (_TREND,))]
    return sql.SQL(_ANSWER).format(
        identity=sql.SQL(_IDENTITY if is_by_product else "NULL::integer AS position WHERE false"),
        extras=sql.SQL(_STOCK if has_stock else ""),
        joined=sql.SQL(_STOCK_JOINED if has_stock else ""),
        fields=sql.SQL(", ").join(map(sql.SQL, fields)),
    )
