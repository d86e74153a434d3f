"""How long the stock of each product lasts."""

from psycopg import sql

from seller_platform.contract import Kind
from seller_platform.marts import columns
from seller_platform.marts.common_queries import STOCK, STOCK_INPUTS
from seller_platform.warehouse.derived.declaration import Chart, Mart, MartCheck, MartColumn, MartParameter

_OF_UNITS = ("daily_product_sales.units_ordered", "daily_product_sales.date")
_OF_COVER = ("inventory.afn_fulfillable_quantity", *_OF_UNITS)
_OF_RISK = ("inventory.afn_inbound_quantity", *_OF_COVER)

# Beyond ten years of cover there is no stock-out to plan for, and its day may lie beyond the calendar. Only what is
# shown is rounded: 13.96 days are fewer than 14, and a velocity of 20 / 30 would have no last digit.
_QUERY = """
WITH {stock},
snapshots AS (
    SELECT sku, count(*) AS days, count(*) FILTER (WHERE units <= 0) AS empty_days
    FROM (
        SELECT sku, local_day, sum(afn_fulfillable_quantity) AS units
        FROM seller.inventory
        WHERE account = %(account)s AND local_day > (SELECT day - 30 FROM newest)
          AND local_day <= (SELECT day FROM newest)
        GROUP BY sku, local_day
    ) AS days
    GROUP BY sku
),
covered AS (
    SELECT stock.*, snapshots.days AS snapshot_days, snapshots.empty_days,
           fulfillable * 30.0 / nullif(units_30, 0) AS cover,
           (fulfillable + inbound) * 30.0 / nullif(units_30, 0) AS cover_with_inbound
    FROM stock
    LEFT JOIN snapshots ON snapshots.sku = stock.sku
)
SELECT sku, snapshot_day, asin, product_name, fulfillable, reserved, inbound, on_shelves, units_30, units_90,
       round(velocity, 2), stated_velocity, round(cover, 1), round(cover_with_inbound, 1),
       CASE WHEN cover < 3650 THEN snapshot_day + floor(cover)::integer END,
       CASE WHEN fulfillable IS NULL THEN 'unknown'
            WHEN fulfillable <= 0 AND known_units > 0 THEN 'out of stock'
            WHEN velocity IS NULL THEN 'unknown'
            WHEN velocity <= 0 THEN 'no demand'
            WHEN cover < %(critical_days)s::integer THEN 'critical'
            WHEN cover < %(low_days)s::integer THEN 'low'
            WHEN coalesce(cover_with_inbound, cover) > %(overstock_days)s::integer THEN 'overstock'
            ELSE 'healthy' END,
       empty_days, snapshot_days
FROM covered
"""

_SUMS = """
SELECT * FROM (
    SELECT count(*) AS skus, sum(fulfillable_units) AS fulfillable, sum(reserved_units) AS reserved,
           sum(inbound_units) AS inbound, max(snapshot_day) AS day
    FROM marts.inventory_health WHERE account = %(account)s
) AS here
CROSS JOIN LATERAL (
    SELECT count(*) AS skus_of_input, sum(afn_fulfillable_quantity) AS fulfillable_of_input,
           sum(afn_reserved_quantity) AS reserved_of_input, sum(afn_inbound_quantity) AS inbound_of_input
    FROM seller.inventory WHERE account = %(account)s AND local_day = coalesce(here.day, local_day) AND sku IS NOT NULL
      AND local_day = (SELECT max(local_day) FROM seller.inventory WHERE account = %(account)s)
) AS there
WHERE (skus, fulfillable, reserved, inbound)
      IS DISTINCT FROM (skus_of_input, fulfillable_of_input, reserved_of_input, inbound_of_input)
"""

_IMPOSSIBLE = """
SELECT sku, fulfillable_units, inbound_units, velocity, days_of_cover, out_of_stock_days, snapshot_days
FROM marts.inventory_health
WHERE account = %(account)s
  AND (least(fulfillable_units, reserved_units, inbound_units, own_warehouse_units, velocity, days_of_cover) < 0
       OR out_of_stock_days > snapshot_days OR units_30_days > units_90_days OR stock_out_date < snapshot_day)
"""

# The days of the API may end at another midnight than the account's, and its figures may be a day or two old: its 30
# days may end a day later than the account's, or two days earlier.
_VELOCITY = """
WITH newest AS (
    SELECT max(snapshot_day) AS day FROM marts.inventory_health WHERE account = %(account)s
),
computed AS (
    SELECT sku, shift, sum(coalesce(units_ordered, 0)) / 30 AS velocity
    FROM newest
    CROSS JOIN generate_series(-2, 1) AS shift
    JOIN seller.daily_product_sales
      ON account = %(account)s AND local_day >= day + shift - 30 AND local_day < day + shift
    GROUP BY sku, shift
)
SELECT health.sku, health.velocity, health.stated_velocity
FROM marts.inventory_health AS health
CROSS JOIN generate_series(-2, 1) AS shift
LEFT JOIN computed ON computed.sku = health.sku AND computed.shift = shift.shift
WHERE health.account = %(account)s
GROUP BY health.sku, health.velocity, health.stated_velocity
HAVING min(abs(coalesce(computed.velocity, 0) - health.stated_velocity))
       > greatest(0.1, health.stated_velocity * %(velocity_percent)s::integer / 100)
"""

_CHART = """
SELECT risk AS label, count(sku) AS "SKUs"
FROM unnest(ARRAY['out of stock', 'critical', 'low', 'healthy', 'overstock', 'no demand', 'unknown'])
     WITH ORDINALITY AS risks (risk, place)
LEFT JOIN marts.inventory_health ON stock_out_risk = risk AND account = %(account)s
WHERE EXISTS (SELECT FROM marts.inventory_health WHERE account = %(account)s)
GROUP BY risk, place
ORDER BY place
"""

INVENTORY_HEALTH = Mart(
    name="inventory_health",
    doc="Stock, velocity, days of cover and stock-out risk of one SKU, by the newest snapshot.",
    columns=(
        columns.SNAPSHOT_SKU,
        columns.SNAPSHOT_DAY,
        columns.SNAPSHOT_ASIN,
        columns.SNAPSHOT_NAME,
        columns.nullable(
            "fulfillable_units", Kind.INTEGER, "Units that can be sold now.", ("inventory.afn_fulfillable_quantity",)
        ),
        columns.nullable(
            "reserved_units", Kind.INTEGER, "Units reserved for open orders.", ("inventory.afn_reserved_quantity",)
        ),
        columns.nullable("inbound_units", Kind.INTEGER, "Units on their way in.", ("inventory.afn_inbound_quantity",)),
        MartColumn(
            "own_warehouse_units",
            Kind.INTEGER,
            "Units marked available in the seller's own warehouses, by their newest snapshot.",
            ("warehouse_stock.quantity", "warehouse_stock.status"),
        ),
        columns.nullable(
            "units_30_days",
            Kind.INTEGER,
            "Units ordered in the 30 days before the snapshot; null where not each of them is loaded.",
            _OF_UNITS,
        ),
        columns.nullable(
            "units_90_days",
            Kind.INTEGER,
            "Units ordered in the 90 days before the snapshot; null where not each of them is loaded.",
            _OF_UNITS,
        ),
        columns.VELOCITY,
        columns.nullable(
            "stated_velocity", Kind.NUMBER, "The velocity that the API states.", ("inventory.velocity_30_days",)
        ),
        columns.nullable(
            "days_of_cover",
            Kind.NUMBER,
            "Days the fulfillable units last at the velocity; null where nothing sells.",
            _OF_COVER,
        ),
        columns.nullable(
            "days_of_cover_with_inbound", Kind.NUMBER, "The same with the units on their way in.", _OF_RISK
        ),
        columns.nullable(
            "stock_out_date",
            Kind.DATE,
            "The day on which the fulfillable units will have run out; null where nothing sells or they last ten "
            "years.",
            _OF_COVER,
        ),
        MartColumn(
            "stock_out_risk",
            Kind.TEXT,
            "`out of stock` (no units, but sold within 90 days), `no demand` (nothing sold within 30 days), "
            "`critical` (cover below 14 days), `low` (below 30), `overstock` (above 180 with inbound units), "
            "`healthy`, or `unknown` (the API states no units, or sales are not loaded); the days are the "
            "parameters of the build.",
            _OF_RISK,
        ),
        MartColumn(
            "out_of_stock_days",
            Kind.INTEGER,
            "Snapshots of the last 30 days, this one included, that had no fulfillable units.",
            ("inventory.afn_fulfillable_quantity",),
        ),
        MartColumn("snapshot_days", Kind.INTEGER, "How many snapshots of those 30 days there are.", ("inventory.sku",)),
    ),
    inputs=STOCK_INPUTS,
    parameters=(
        MartParameter("critical_days", 14, "Cover below which the risk is `critical`: what a shipment takes at best."),
        MartParameter("low_days", 30, "Cover below which the risk is `low`."),
        MartParameter("overstock_days", 180, "Cover above which there is too much."),
        MartParameter("velocity_percent", 10, "Percent by which the velocity may differ from the API's."),
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
            "No units, velocities or days are negative, and parts are not more than the whole.",
            sql.SQL(_IMPOSSIBLE),
            is_warning=True,
        ),
        MartCheck(
            "velocity_agrees_with_the_api",
            "Where the sales of the 30 days are loaded, the velocity computed from them is the API's, whose 30 days "
            "may end a day later or two days earlier.",
            sql.SQL(_VELOCITY),
            is_warning=True,
        ),
    ),
    chart=Chart("bars", "SKUs by stock-out risk", "number of SKUs", sql.SQL(_CHART), "The inventory lists no SKU."),
)
