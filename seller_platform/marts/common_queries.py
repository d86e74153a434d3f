"""Parts of queries that several marts begin with, and the datasets that they read.

The parts are items of WITH, all of one account.
"""

from typing import LiteralString

from psycopg import sql

from seller_platform.contract import Dataset
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.contract.datasets.stock import INVENTORY, WAREHOUSE_STOCK
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.marts.rules.formulas import FEE_LINES, PAYOUTS, STANDARD
from seller_platform.warehouse.derived.declaration import MARTS_SCHEMA, Input
from seller_platform.warehouse.schema.tables import SELLER

NO_CURRENCY = "XXX"
"""What ISO 4217 calls the absence of a currency: the account's own is not known."""

_NUMBER = "^-?[0-9]{1,30}([.][0-9]{1,30})?$"

_NEWEST_DAY = """greatest(
        (SELECT max(local_day) FROM {table} WHERE account = %(account)s),
        (SELECT newest_day FROM platform.slices WHERE dataset = {dataset} AND account = %(account)s)
    )"""

_IS_LOADED = """EXISTS (
        SELECT FROM platform.slices
        WHERE dataset = {dataset} AND account = %(account)s AND slices.month = {month}
          AND (SELECT count(moment) = max(number) FILTER (WHERE moment IS NOT NULL)
               FROM unnest(days_read) WITH ORDINALITY AS day (moment, number))
    )"""

_UNITS_BEFORE = """CASE WHEN (
        SELECT count(moment)
        FROM platform.slices CROSS JOIN unnest(days_read) WITH ORDINALITY AS read (moment, number)
        WHERE dataset = {dataset} AND account = %(account)s
          AND month + CAST(number AS integer) - 1 BETWEEN newest.day - {days} AND newest.day - 1
    ) = {days} THEN coalesce(demand.{units}, 0)::bigint END"""

_OWN = """
own AS MATERIALIZED (
    SELECT coalesce(
        (SELECT currency_code FROM platform.accounts WHERE key = %(account)s),
        {no_currency}
    ) AS currency
)"""

# Elements in another currency than the account's cannot be added: the warehouse holds no exchange rates.
_COSTED = """
costs AS MATERIALIZED (
    SELECT period.sku, period.from_date, coalesce(period.to_date, 'infinity') AS to_date,
           sum(element.amount) AS amount, coalesce(bool_or(element.currency <> own.currency), false) AS is_foreign
    FROM own
    CROSS JOIN seller.cost_periods AS period
    CROSS JOIN LATERAL (
        SELECT coalesce(sent ->> 'currency', own.currency) AS currency,
               CASE WHEN replace(sent ->> 'amount', ',', '') ~ {number}
                    THEN replace(sent ->> 'amount', ',', '')::numeric END AS amount
        FROM jsonb_array_elements(
            CASE WHEN jsonb_typeof(period.cost_elements) = 'array' THEN period.cost_elements ELSE '[]' END
        ) AS sent
    ) AS element
    WHERE period.account = %(account)s AND period.local_day = {newest_day} AND element.amount IS NOT NULL
    GROUP BY period.sku, period.from_date, period.to_date
),
sold AS MATERIALIZED (
    SELECT sku, local_day, max(asin) AS asin, max(product_name) AS product_name,
           sum(coalesce(units_ordered, 0)) AS units, sum(coalesce(product_sales, 0)) AS sales,
           sum(coalesce(taxes, 0)) AS taxes, sum(coalesce(shipping_credits, 0)) AS shipping_credits,
           sum(coalesce(rebates, 0)) AS rebates
    FROM seller.daily_product_sales
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s
    GROUP BY sku, local_day
),
unit_costs AS MATERIALIZED (
    SELECT sold.sku, sold.local_day, sum(costs.amount) AS amount, bool_or(costs.is_foreign) AS is_foreign
    FROM sold
    JOIN costs ON costs.sku = sold.sku AND sold.local_day BETWEEN costs.from_date AND costs.to_date
    GROUP BY sold.sku, sold.local_day
),
costed AS MATERIALIZED (
    SELECT sold.*, CASE WHEN unit_costs.is_foreign THEN NULL ELSE unit_costs.amount END AS unit_cost,
           unit_costs.is_foreign
    FROM sold
    LEFT JOIN unit_costs ON unit_costs.sku = sold.sku AND unit_costs.local_day = sold.local_day
)"""

_FIGURES = """
           sum(costed.units)::bigint AS units, sum(costed.sales) AS sales, sum(costed.taxes) AS taxes,
           sum(costed.shipping_credits) AS shipping_credits, sum(costed.rebates) AS rebates,
           sum(costed.units * costed.unit_cost) AS known_cost,
           coalesce(sum(costed.units) FILTER (WHERE costed.unit_cost IS NULL), 0)::bigint AS units_without_cost,
           coalesce(sum(costed.sales) FILTER (WHERE costed.unit_cost IS NULL), 0) AS sales_without_cost"""

_LEDGER = """
entries AS MATERIALIZED (
    SELECT stored.local_day, stored.sku, stored.transaction_type, stored.quantity, stored.amount,
           coalesce(stored.currency, own.currency) AS currency, {line} AS line
    FROM seller.transactions AS stored CROSS JOIN own
    WHERE stored.account = %(account)s AND stored.local_day >= %(first_day)s AND stored.local_day < %(end_day)s
)"""

_STEPS = """
           coalesce(-sum(amount) FILTER (WHERE line IN ({fees})), 0) AS fees,
           coalesce(-sum(amount) FILTER (WHERE line = 'refunds'), 0) AS refunds,
           coalesce(-sum(amount) FILTER (WHERE line = 'advertising'), 0) AS advertising,
           coalesce(-sum(amount) FILTER (WHERE line = 'storage'), 0) AS storage,
           coalesce(-sum(amount) FILTER (WHERE line = 'subscriptions'), 0) AS subscriptions,
           coalesce(sum(amount) FILTER (WHERE line = 'reimbursements'), 0) AS reimbursements,
           coalesce(sum(amount) FILTER (WHERE line = 'other'), 0) AS other_entries"""

_MERGED = """coalesce(units, 0) AS units, coalesce(sales, 0) AS sales,
           coalesce(shipping_credits, 0) AS shipping_credits, coalesce(rebates, 0) AS rebates,
           coalesce(refunds, 0) AS refunds, coalesce(advertising, 0) AS advertising,
           coalesce(storage, 0) AS storage, coalesce(subscriptions, 0) AS subscriptions,
           coalesce(reimbursements, 0) AS reimbursements, coalesce(other_entries, 0) AS other_entries,
           coalesce(fees, 0) AS fees, coalesce(units_without_cost, 0) AS units_without_cost,
           CASE WHEN coalesce(units_without_cost, 0) = 0 THEN coalesce(known_cost, 0) ELSE known_cost END AS cost"""

_BRIDGE = (
    "shipping_credits - rebates - refunds - advertising - storage - subscriptions + reimbursements + other_entries"
)

_PROFIT_SUMS = """
SELECT * FROM (
    SELECT sum(units) AS units, sum(product_sales) AS sales, sum({taxes}shipping_credits - rebates) AS others,
           sum(platform_fees) AS fees, sum(refunds) AS refunds,
           sum(reimbursements + other_entries - platform_fees - refunds - advertising - storage - subscriptions)
               AS counted
    FROM {table}
    WHERE account = %(account)s AND {day} >= %(first_day)s AND {day} < %(end_day)s
) AS here
CROSS JOIN (
    SELECT sum(units_ordered) AS units_of_input, sum(product_sales) AS sales_of_input,
           sum({taxes}coalesce(shipping_credits, 0) - coalesce(rebates, 0)) AS others_of_input
    FROM seller.daily_product_sales
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND {named}
) AS sold
CROSS JOIN (
    SELECT -sum(amount) FILTER (WHERE transaction_type = 'Fee') AS fees_of_input,
           -sum(amount) FILTER (WHERE transaction_type = 'Refund') AS refunds_of_input,
           sum(amount) FILTER (WHERE {counted}) AS counted_of_input
    FROM (SELECT *, {line} AS line FROM seller.transactions) AS entries
    WHERE account = %(account)s AND local_day >= %(first_day)s AND local_day < %(end_day)s AND {named}
) AS ledger
WHERE (coalesce(units, 0), coalesce(sales, 0), coalesce(others, 0), coalesce(fees, 0), coalesce(refunds, 0),
       coalesce(counted, 0))
   <> (coalesce(units_of_input, 0), coalesce(sales_of_input, 0), coalesce(others_of_input, 0),
       coalesce(fees_of_input, 0), coalesce(refunds_of_input, 0), coalesce(counted_of_input, 0))
"""

_STOCK = """
newest AS MATERIALIZED (
    SELECT {inventory_day} AS day, {shelf_day} AS shelf_day
),
demand AS MATERIALIZED (
    SELECT sku, sum(coalesce(units_ordered, 0)) FILTER (WHERE local_day >= (SELECT day - 30 FROM newest)) AS units_30,
           sum(coalesce(units_ordered, 0)) AS units_90
    FROM seller.daily_product_sales
    WHERE account = %(account)s AND local_day >= (SELECT day - 90 FROM newest)
      AND local_day < (SELECT day FROM newest)
    GROUP BY sku
),
shelves AS MATERIALIZED (
    SELECT sku, sum(coalesce(quantity, 0)) AS units
    FROM seller.warehouse_stock
    WHERE account = %(account)s AND local_day = (SELECT shelf_day FROM newest) AND lower(status) = 'available'
    GROUP BY sku
),
stock AS MATERIALIZED (
    SELECT stored.sku, stored.local_day AS snapshot_day, stored.asin, stored.product_name,
           stored.afn_fulfillable_quantity AS fulfillable, stored.afn_reserved_quantity AS reserved,
           stored.afn_inbound_quantity AS inbound, coalesce(shelves.units, 0)::bigint AS on_shelves,
           {units_30} AS units_30, {units_90} AS units_90, coalesce(demand.units_90, 0) AS known_units,
           {units_30} / 30.0 AS velocity, stored.velocity_30_days AS stated_velocity,
           stored.restock_date AS stated_restock_date, stored.restock_quantity_suggested AS stated_restock_units
    FROM seller.inventory AS stored
    JOIN newest ON newest.day = stored.local_day
    LEFT JOIN demand ON demand.sku = stored.sku
    LEFT JOIN shelves ON shelves.sku = stored.sku
    WHERE stored.account = %(account)s AND stored.sku IS NOT NULL
)"""


def newest_day(dataset: Dataset) -> sql.Composed:
    """Return the expression for the day of the account's newest snapshot, be it empty."""
    return sql.SQL(_NEWEST_DAY).format(table=sql.Identifier(SELLER, dataset.name), dataset=sql.Literal(dataset.name))


def is_loaded(dataset: Dataset, month: LiteralString) -> sql.Composed:
    """Return the expression for whether a month of the account was loaded from its first day on, be it empty."""
    return sql.SQL(_IS_LOADED).format(dataset=sql.Literal(dataset.name), month=sql.SQL(month))


OWN_CURRENCY = sql.SQL(_OWN).format(no_currency=sql.Literal(NO_CURRENCY))
"""`own.currency`: the currency of the account, in which its sales are."""

MONTH_COSTED = sql.SQL(", ").join(
    [OWN_CURRENCY, sql.SQL(_COSTED).format(number=sql.Literal(_NUMBER), newest_day=newest_day(COST_PERIODS))]
)
"""`own`, `costs`, `sold` and `costed`: the month's sales of all channels by SKU and day, with the cost of one unit.

The costs are those of the newest snapshot of the cost periods; null where none is valid.
"""

COST_INPUTS = (Input(COST_PERIODS, required=False), Input(ACCOUNTS, required=False))
"""What `MONTH_COSTED` reads beside the sales."""

FIGURES = sql.SQL(_FIGURES)
"""Sums over `costed`: what was sold, what it cost as far as is known, and what has no valid cost."""

PROFIT: dict[str, sql.Composable] = {
    "costed": MONTH_COSTED,
    "figures": FIGURES,
    # `entries`: the month's entries of the ledger, each with its line of the standard formula.
    "ledger": sql.SQL(_LEDGER).format(line=STANDARD.line_of_entry),
    # Sums over `entries`: fees, and the steps from profit to net profit.
    "steps": sql.SQL(_STEPS).format(fees=sql.SQL(", ").join(map(sql.Literal, FEE_LINES))),
    # The figures and the steps, 0 where a row has none.
    "merged": sql.SQL(_MERGED),
    # The condition for entries that count towards net profit, and what is added to profit for it.
    "counted": sql.SQL("line NOT IN ({}, {})").format(sql.Literal("payments"), sql.Literal(PAYOUTS)),
    "bridge": sql.SQL(_BRIDGE),
}
"""Parts of the queries of marts of profits, by name."""

_UNITS = {
    units: sql.SQL(_UNITS_BEFORE).format(
        dataset=sql.Literal(DAILY_PRODUCT_SALES.name), days=sql.Literal(days), units=sql.Identifier(units)
    )
    for units, days in (("units_30", 30), ("units_90", 90))
}

STOCK = sql.SQL(_STOCK).format(inventory_day=newest_day(INVENTORY), shelf_day=newest_day(WAREHOUSE_STOCK), **_UNITS)
"""`stock`: the newest snapshot of the inventory with what sold in the 30 and 90 days before it, by SKU.

What sold is null where not each of those days was loaded. Rows without a SKU are left out.
"""

STOCK_INPUTS = (Input(INVENTORY), Input(DAILY_PRODUCT_SALES), Input(WAREHOUSE_STOCK))
"""What `STOCK` reads."""


def profit_sums(mart: str, day: str, *, taxes: LiteralString = "", named: LiteralString = "true") -> sql.Composed:
    """Return the query for the sums of a mart of profits, where they are not those of its inputs.

    Args:
        taxes: What is added to shipping credits and rebates.
        named: The condition for rows of the inputs that the mart has.
    """
    parts = {"taxes": sql.SQL(taxes), "named": sql.SQL(named), "line": STANDARD.line_of_entry, **PROFIT}
    return sql.SQL(_PROFIT_SUMS).format(table=sql.Identifier(MARTS_SCHEMA, mart), day=sql.Identifier(day), **parts)
