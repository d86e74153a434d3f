"""Sums the days of products by month, in the currency of an answer, and stores these sums.

`service.product_months` has a row for each month and currency that was asked for, whose arrays have sales, costs and
fees side by side. Whatever changes the days of a month marks it in `service.changed_months`, and rows name the exchange
rates by a hash. A request that finds sums missing stores them for the next ones.
"""

from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import errors, sql

from seller_platform.service.pool import Connection
from seller_platform.service.statistics.plan import SETTINGS, Plan
from seller_platform.service.sums.keeping import lock_name
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK

CURRENCY: LiteralString = "CASE WHEN sums.currency = '' THEN segments.currency ELSE sums.currency END"
"""The currency of the amounts of a row `sums`, of an account in `segments`."""

_MONTHS: LiteralString = """,
months AS MATERIALIZED (
    SELECT months.*, (months.month + interval '1 month')::date - 1 AS month_end, {is_stored} AS is_stored
    FROM (
        SELECT sums.account, segments.currency, date_trunc('month', sums.local_day::timestamp)::date AS month,
               coalesce(sum(hash_record_extended((sums.local_day, rates.currency, rates.rate), 0))
                   FILTER (WHERE {currency} <> %(target)s::text), 0) AS rates_hash
        FROM {day_sums} AS sums
        JOIN chosen AS segments USING (account)
        LEFT JOIN rates ON rates.day = sums.local_day AND rates.currency = {currency}
        WHERE sums.account = ANY(%(accounts)s)
          AND sums.local_day BETWEEN %(months_from)s::date AND %(months_until)s::date
        GROUP BY 1, 2, 3
    ) AS months{stored}
)"""
"""`months`: the months of the requested days and of those compared with, and whether their sums are stored."""

_STORED: LiteralString = """
    LEFT JOIN service.product_months AS stored
      ON stored.account = months.account AND stored.month = months.month AND stored.target = %(target)s::text
    LEFT JOIN (SELECT DISTINCT account, month FROM service.changed_months) AS changed
      ON changed.account = months.account AND changed.month = months.month"""
_IS_STORED: LiteralString = "changed.month IS NULL AND stored.rates_hash IS NOT DISTINCT FROM months.rates_hash"

# Fees that name no product count in no view of products; a month of which there is nothing else has sums, too.
_UNSTORED: LiteralString = """,
unstored AS NOT MATERIALIZED (
    SELECT segments.account, segments.month, segments.rates_hash, sums.sku,
           CASE WHEN sums.kind = 'fees' AND sums.sku IS NULL THEN 'other' ELSE sums.kind END AS kind, sums.units,
           sums.amount, sums.day_bits, sums.days, sums.amounts_of_days, {currency} AS currency,
           {currency} <> %(target)s::text AS is_converted
    FROM months AS segments
    JOIN {product_days} AS sums ON sums.account = segments.account AND sums.month = segments.month
    WHERE NOT segments.is_stored
)"""

_COMPUTED: LiteralString = """
SELECT account, %(target)s::text AS target, month, rates_hash, array_agg(sku) AS skus, array_agg(day_bits) AS day_bits,
       array_agg(units) AS units, array_agg(sales) AS sales, array_agg(cost) AS costs, array_agg(fees) AS fees,
       array_agg(conversions) AS conversions
FROM (
    SELECT account, month, rates_hash, sku, bit_or(day_bits) FILTER (WHERE kind IN ('sales', 'fees')) AS day_bits,
           sum(units) AS units, sum(amount) FILTER (WHERE kind = 'sales') AS sales,
           sum(amount) FILTER (WHERE kind = 'cost') AS cost, sum(amount) FILTER (WHERE kind = 'fees') AS fees,
           bit_or(CASE kind WHEN 'sales' THEN 1 WHEN 'cost' THEN 2 WHEN 'fees' THEN 4 END)
               FILTER (WHERE is_converted) AS conversions
    FROM (
        SELECT account, month, rates_hash, sku, kind, units, CASE WHEN NOT is_converted THEN amount END AS amount,
               day_bits, is_converted
        FROM unstored
        UNION ALL
        SELECT account, month, rates_hash, sku, kind, NULL, sum(amount * coalesce(rate, 'NaN')), NULL, true
        FROM (
            SELECT account, month, rates_hash, sku, kind, currency, unnest(days) AS day,
                   unnest(amounts_of_days) AS amount
            FROM unstored
            WHERE is_converted
        ) AS days
        LEFT JOIN rates USING (day, currency)
        GROUP BY account, month, rates_hash, sku, kind
    ) AS converted
    GROUP BY account, month, rates_hash, sku
) AS products
GROUP BY account, month, rates_hash"""

_STORE: LiteralString = """
INSERT INTO service.product_months
       (account, target, month, rates_hash, skus, day_bits, units, sales, costs, fees, conversions){computed}
ON CONFLICT (account, target, month) DO UPDATE
SET rates_hash = excluded.rates_hash, skus = excluded.skus, day_bits = excluded.day_bits, units = excluded.units,
    sales = excluded.sales, costs = excluded.costs, fees = excluded.fees, conversions = excluded.conversions,
    summed_at = now()
""".replace("{computed}", _COMPUTED)

_FORGET_CHANGED = """
WITH changed AS (DELETE FROM service.changed_months WHERE account = %(account)s RETURNING month)
DELETE FROM service.product_months AS sums USING changed
WHERE sums.account = %(account)s AND sums.month = changed.month
"""

_FORGET_CURRENCIES = """
DELETE FROM service.product_months WHERE account = %(account)s AND target NOT IN (
    SELECT target FROM service.product_months WHERE account = %(account)s
    GROUP BY target ORDER BY max(summed_at) DESC LIMIT %(limit)s
)
"""


def months(plan: Plan, more: LiteralString = "") -> sql.Composed:
    """Return `months` and the statement after it; by default `product_months`, unless sums of months are stored."""
    computed = "" if plan.uses_months else f"{_UNSTORED},\nproduct_months AS MATERIALIZED ({_COMPUTED})"
    return sql.SQL(_MONTHS + (more or computed)).format(
        **plan.tables,
        currency=sql.SQL(CURRENCY),
        is_stored=sql.SQL(_IS_STORED if plan.uses_months else "false"),
        stored=sql.SQL(_STORED if plan.uses_months else ""),
    )


async def store_months(
    connection: Connection, accounts: Sequence[str], days: sql.Composable, plan: Plan, values: Mapping[str, object]
) -> bool:
    """Store sums of months and return True, unless others are written now, or the service may not write.

    Of an account, the sums in the currencies that were summed last are kept.

    Args:
        days: The beginning of the statement, up to the item `rates`.
    """
    statement = sql.Composed((days, months(plan, _UNSTORED + _STORE)))
    try:
        async with connection.transaction():
            for account in accounts:
                if await (await connection.execute(TRY_LOCK, {"name": lock_name(account)})).fetchone() != (True,):
                    return False
                await connection.execute(_FORGET_CHANGED, {"account": account})
            await connection.execute(SETTINGS)
            await connection.execute(statement, values, prepare=False)
            for account in accounts:
                await connection.execute(_FORGET_CURRENCIES, {"account": account, "limit": 4})
    except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
        return False
    return True
