"""The sums that loads keep for statistics: of each product and day, and of each day.

`product_days` has one row for each product, month, kind and currency: the sums of the month, and arrays with its days
and their amounts, in the same order. `day_sums` has the sums of all products. The items of WITH here select them from
the stored rows, for the tables and for an answer without stored sums alike.

They are parts of a statement in which `windows` (account, first_day, end_day) names months, one by one, and `steps` the
costs of products.
"""

from collections.abc import Mapping
from typing import LiteralString

from psycopg import sql

from seller_platform.contract import Dataset
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS

PRODUCT_COLUMNS: LiteralString = (
    "account, month, sku, kind, currency, units, amount, day_bits, days, units_of_days, amounts_of_days"
)
DAY_COLUMNS: LiteralString = "account, local_day, kind, is_of_product, currency, entries, units, amount"

KINDS: Mapping[str, tuple[str, ...]] = {DAILY_PRODUCT_SALES.name: ("sales", "cost"), TRANSACTIONS.name: ("fees",)}
"""The kinds of amounts that follow from a dataset."""

# The days of a month are bits, so that the rows of a list can be counted without reading its days. Each month is
# grouped by itself, and by texts in the order of their bytes, because that is several times faster.
_SOLD = """
sold AS MATERIALIZED (
    SELECT windows.account, windows.first_day AS month, summed.*
    FROM windows
    CROSS JOIN LATERAL (
        SELECT stored.sku COLLATE "C" AS sku, 'sales' AS kind, '' AS currency, sum(stored.units_ordered) AS units,
               sum(stored.product_sales) AS amount, bit_or(1 << (stored.local_day - windows.first_day)) AS day_bits,
               array_agg(stored.local_day) AS days, array_agg(stored.units_ordered) AS units_of_days,
               array_agg(stored.product_sales) AS amounts_of_days
        FROM seller.daily_product_sales AS stored
        WHERE stored.account = windows.account
          AND stored.local_day >= windows.first_day AND stored.local_day < windows.end_day{of_touched}
        GROUP BY stored.sku COLLATE "C"
    ) AS summed
)"""

COSTED: LiteralString = """
costed AS MATERIALIZED (
    SELECT account, month, sku, 'cost' AS kind, currency, NULL::numeric AS units, sum(amount) AS amount,
           bit_or(1 << (local_day - month)) AS day_bits, array_agg(local_day) AS days,
           NULL::bigint[] AS units_of_days, array_agg(amount) AS amounts_of_days
    FROM (
        SELECT account, month, sku, currency, local_day,
               units * cost_amounts[width_bucket(local_day, cost_days)] AS amount
        FROM (
            SELECT sold.account, sold.month, sold.sku, steps.currency, steps.days AS cost_days,
                   steps.amounts AS cost_amounts, unnest(sold.days) AS local_day, unnest(sold.units_of_days) AS units
            FROM sold
            JOIN steps ON steps.account = sold.account AND steps.sku = sold.sku
        ) AS days
    ) AS costs
    WHERE amount <> 0
    GROUP BY account, month, sku, currency
)"""
"""`costed`: the costs of `sold`."""

_CHARGED = """
charged AS MATERIALIZED (
    SELECT windows.account, windows.first_day AS month, summed.*
    FROM windows
    CROSS JOIN LATERAL (
        SELECT sku, 'fees' AS kind, currency, NULL::numeric AS units, sum(amount) AS amount,
               bit_or(1 << (local_day - windows.first_day)) AS day_bits, array_agg(local_day) AS days,
               NULL::bigint[] AS units_of_days, array_agg(amount) AS amounts_of_days
        FROM (
            SELECT stored.local_day, stored.sku COLLATE "C" AS sku, coalesce(stored.currency, '') AS currency,
                   -sum(stored.amount) AS amount
            FROM seller.transactions AS stored
            WHERE stored.account = windows.account
              AND stored.local_day >= windows.first_day AND stored.local_day < windows.end_day{of_touched}
              AND stored.transaction_type = 'Fee' AND stored.amount IS NOT NULL
            GROUP BY stored.local_day, stored.sku COLLATE "C", stored.currency
        ) AS days
        GROUP BY sku, currency
    ) AS summed
)"""

_ITEMS: Mapping[str, LiteralString] = {DAILY_PRODUCT_SALES.name: f"{_SOLD},{COSTED}", TRANSACTIONS.name: _CHARGED}

SELECTED: Mapping[str, LiteralString] = {
    DAILY_PRODUCT_SALES.name: "SELECT * FROM sold UNION ALL SELECT * FROM costed",
    TRANSACTIONS.name: "SELECT * FROM charged",
}
"""Select the sums of products that follow from a dataset, with PRODUCT_COLUMNS."""

STORE_PRODUCTS: LiteralString = """
products_summed AS (INSERT INTO service.product_days ({columns}) SELECT {columns} FROM {new})""".replace(
    "{columns}", PRODUCT_COLUMNS
)
"""The item of WITH that stores the sums of products."""

DAYS_OF: LiteralString = """
    SELECT account, kind, kind <> 'fees' OR sku IS NOT NULL AS is_of_product, currency, {sign} AS entries,
           unnest(days) AS local_day, {sign} * unnest(units_of_days) AS units,
           {sign} * unnest(amounts_of_days) AS amount
    FROM {products}"""
"""Select the days of rows of `product_days`; `{sign}` is 1, or -1 to take them away."""

SELECT_DAYS: LiteralString = """
    SELECT account, local_day, kind, is_of_product, currency, sum(entries) AS entries, sum(units) AS units,
           sum(amount) AS amount
    FROM ({days}) AS days
    GROUP BY account, local_day, kind, is_of_product, currency"""
"""Select the rows of `day_sums`."""

_CHANGES = " UNION ALL ".join(
    DAYS_OF.replace("{sign}", sign).replace("{products}", products)
    for sign, products in (("1", "{new}"), ("-1", "old"))
)

_CHANGE_DAYS: LiteralString = """
differences AS MATERIALIZED ({differences}),
replaced AS (
    DELETE FROM service.day_sums AS sums USING differences
    WHERE sums.account = differences.account AND sums.local_day = differences.local_day
      AND sums.kind = differences.kind AND sums.is_of_product = differences.is_of_product
      AND sums.currency = differences.currency
    RETURNING sums.*
)
INSERT INTO service.day_sums ({columns})
SELECT account, local_day, kind, is_of_product, currency, sum(entries), sum(units), sum(amount)
FROM (SELECT {columns} FROM differences UNION ALL SELECT {columns} FROM replaced) AS days
GROUP BY account, local_day, kind, is_of_product, currency
HAVING sum(entries) > 0"""

CHANGE_DAYS: LiteralString = _CHANGE_DAYS.replace("{differences}", SELECT_DAYS.replace("{days}", _CHANGES)).replace(
    "{columns}", DAY_COLUMNS
)
"""The end of a statement that replaces the rows `old` of `product_days`: it changes the sums of their days."""


def items_of(dataset: Dataset, *, of_touched: bool = False) -> sql.Composed:
    """Return the items of WITH that add up the rows of a dataset, of all products or of those in `skus`."""
    condition = sql.SQL("\n          AND stored.sku = ANY(%(skus)s)" if of_touched else "")
    return sql.SQL(_ITEMS[dataset.name]).format(of_touched=condition)
