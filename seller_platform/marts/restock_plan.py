"""Which products to order, how many units, and by when."""

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.marts import columns
from seller_platform.marts.common_queries import STOCK, STOCK_INPUTS
from seller_platform.warehouse.derived.declaration import Chart, Mart, MartCheck, MartColumn, MartParameter

_OF_POSITION = ("inventory.afn_fulfillable_quantity", "inventory.afn_inbound_quantity")
_OF_PLAN = (*_OF_POSITION, "daily_product_sales.units_ordered", "daily_product_sales.date")
_OF_OWN = (*_OF_PLAN, "warehouse_stock.quantity", "warehouse_stock.status")

_QUERY = """
WITH {stock},
positions AS (
    SELECT *, coalesce(fulfillable, 0) + coalesce(inbound, 0) AS position,
           (coalesce(fulfillable, 0) + coalesce(inbound, 0)) * 30.0 / nullif(units_30, 0) AS cover
    FROM stock
),
planned AS (
    SELECT *,
           CASE WHEN velocity > 0 AND cover < 3650
                THEN snapshot_day + greatest(
                    0, floor(cover - %(lead_time_days)s::integer - %(safety_days)s::integer)
                )::integer END AS order_date,
           CASE WHEN velocity > 0 AND cover < 3650
                THEN ceil((
                    units_30 * %(target_cover_days)s::numeric + greatest(
                        0, units_30 * (%(lead_time_days)s::numeric + %(safety_days)s::numeric) - 30.0 * position
                    )
                ) / 30)::bigint
                WHEN velocity IS NOT NULL THEN 0 END AS order_units
    FROM positions
)
SELECT sku, snapshot_day, asin, product_name, round(velocity, 2), position::bigint, round(cover, 1), order_date,
       order_units, from_own, order_units - from_own,
       CASE WHEN velocity IS NULL THEN 'unknown'
            WHEN order_date IS NULL THEN 'none'
            WHEN order_date <= snapshot_day THEN 'now'
            WHEN order_date <= snapshot_day + 7 THEN 'this week'
            WHEN order_date <= snapshot_day + 30 THEN 'this month'
            ELSE 'later' END,
       CASE WHEN cover < 3650 THEN snapshot_day + floor(cover)::integer END,
       CASE WHEN velocity > 0 THEN ceil(greatest(0, %(lead_time_days)s::integer - cover))::bigint
            WHEN velocity IS NOT NULL THEN 0 END,
       stated_restock_date, stated_restock_units, %(lead_time_days)s::bigint, %(safety_days)s::bigint,
       %(target_cover_days)s::bigint
FROM planned
CROSS JOIN LATERAL (SELECT CASE WHEN order_units IS NOT NULL THEN least(order_units, on_shelves) END AS from_own) AS own
"""

_SUMS = """
SELECT * FROM (
    SELECT count(*) AS skus, sum(position_units) AS position FROM marts.restock_plan WHERE account = %(account)s
) AS here
CROSS JOIN (
    SELECT count(*) AS skus_of_input,
           sum(coalesce(afn_fulfillable_quantity, 0) + coalesce(afn_inbound_quantity, 0)) AS position_of_input
    FROM seller.inventory
    WHERE account = %(account)s AND sku IS NOT NULL
      AND local_day = (SELECT max(local_day) FROM seller.inventory WHERE account = %(account)s)
) AS there
WHERE (skus, position) IS DISTINCT FROM (skus_of_input, position_of_input)
"""

_IMPOSSIBLE = """
SELECT sku, velocity, position_units, order_date, order_units, from_own_warehouses, to_buy
FROM marts.restock_plan
WHERE account = %(account)s
  AND (least(order_units, from_own_warehouses, to_buy, days_without_stock) < 0 OR order_date < snapshot_day
       OR order_units <> from_own_warehouses + to_buy OR (order_date IS NULL) <> (urgency IN ('none', 'unknown'))
       OR (order_date IS NULL AND order_units > 0))
"""

_CHART = """
SELECT sku AS label, from_own_warehouses AS "From own warehouses", to_buy AS "To buy"
FROM marts.restock_plan
WHERE account = %(account)s AND urgency IN ('now', 'this week') AND order_units > 0
ORDER BY order_date, order_units DESC, sku
LIMIT 10
"""

RESTOCK_PLAN = Mart(
    name="restock_plan",
    doc="When to order one SKU and how many units, so that it neither runs out nor piles up.",
    columns=(
        columns.SNAPSHOT_SKU,
        columns.SNAPSHOT_DAY,
        columns.SNAPSHOT_ASIN,
        columns.SNAPSHOT_NAME,
        columns.VELOCITY,
        MartColumn(
            "position_units", Kind.INTEGER, "Fulfillable units and those on their way in, together.", _OF_POSITION
        ),
        columns.nullable(
            "days_of_cover", Kind.NUMBER, "Days they last at the velocity; null where nothing sells.", _OF_PLAN
        ),
        columns.nullable(
            "order_date",
            Kind.DATE,
            "The day on which they last just as long as lead time and safety days together; the day of the snapshot "
            "where that is past; null where nothing sells or they last ten years.",
            _OF_PLAN,
        ),
        columns.nullable(
            "order_units",
            Kind.INTEGER,
            "Units that last for the target cover, and what is missing already for lead time and safety days.",
            _OF_PLAN,
        ),
        columns.nullable(
            "from_own_warehouses",
            Kind.INTEGER,
            "Those of them that are available in the seller's own warehouses.",
            _OF_OWN,
        ),
        columns.nullable("to_buy", Kind.INTEGER, "The rest of them.", _OF_OWN),
        MartColumn(
            "urgency",
            Kind.TEXT,
            "`now`, `this week` (7 days), `this month` (30 days) or `later`, by `order_date`; `none` without one, "
            "`unknown` where sales are not loaded.",
            _OF_PLAN,
        ),
        columns.nullable(
            "stock_out_date",
            Kind.DATE,
            "The day on which the position will have run out, if nothing is ordered.",
            _OF_PLAN,
        ),
        columns.nullable(
            "days_without_stock",
            Kind.INTEGER,
            "Days without stock until the units arrive, if they are ordered on the day of the snapshot.",
            _OF_PLAN,
        ),
        columns.nullable(
            "stated_restock_date", Kind.DATE, "The day that the API advises.", ("inventory.restock_date",)
        ),
        columns.nullable(
            "stated_restock_units",
            Kind.INTEGER,
            "The units that the API advises.",
            ("inventory.restock_quantity_suggested",),
        ),
        MartColumn("lead_time_days", Kind.INTEGER, "The lead time that was planned with."),
        MartColumn("safety_days", Kind.INTEGER, "The safety days that were planned with."),
        MartColumn("target_cover_days", Kind.INTEGER, "The target cover that was planned with."),
    ),
    inputs=STOCK_INPUTS,
    parameters=(
        MartParameter("lead_time_days", 21, "Days from an order until its units can be sold."),
        MartParameter("safety_days", 7, "Days of cover that should be left when they arrive."),
        MartParameter("target_cover_days", 30, "Days that an order should last.", minimum=1),
    ),
    query=sql.SQL(_QUERY).format(stock=STOCK),
    checks=(
        MartCheck(
            "sums_agree_with_the_inputs",
            "SKUs and units are those of the newest snapshot in seller.inventory, of the rows that name a SKU.",
            sql.SQL(_SUMS),
        ),
        MartCheck(
            "values_are_possible",
            "Nothing is negative, no order lies in the past, and an order is what comes from the shelves and what is "
            "bought.",
            sql.SQL(_IMPOSSIBLE),
        ),
    ),
    chart=Chart(
        "bars",
        "To order this week, the ten most urgent SKUs",
        "units",
        sql.SQL(_CHART),
        "Nothing has to be ordered this week.",
    ),
)
