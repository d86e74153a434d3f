"""Sums sales, costs and fees by product and period.

A view of products first finds the rows of the requested page, from the months and days on which products have sums.
Only these rows are summed: from the sums of whole months where nothing is converted, else from the sums of days.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.service.statistics.plan import PERIOD_OF, STEP, Plan
from seller_platform.service.statistics.products import IS_LISTED, UNNAMED, looked_up
from seller_platform.warehouse.sums.costs import PERIODS, STEPS
from seller_platform.warehouse.sums.statistics import (
    DAYS_OF,
    PRODUCT_COLUMNS,
    SELECT_DAYS,
    SELECTED,
    items_of,
)

# The same sums from the rows, for accounts whose sums are not stored.
_FROM_ROWS = """,
windows AS MATERIALIZED (
    SELECT chosen.account, month::date AS first_day, (month + interval '1 month')::date AS end_day
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT min(first_day)::timestamp AS first_day, max(last_day)::timestamp AS last_day
        FROM (
            SELECT min(local_day) AS first_day, max(local_day) AS last_day
            FROM seller.daily_product_sales WHERE account = chosen.account
            UNION ALL
            SELECT min(local_day), max(local_day) FROM seller.transactions WHERE account = chosen.account
        ) AS stored
    ) AS stored
    CROSS JOIN LATERAL generate_series(
        date_trunc('month', greatest(chosen.summed_from, stored.first_day)),
        least(chosen.last_day, stored.last_day), interval '1 month'
    ) AS month
),{periods},
steps AS MATERIALIZED ({steps}),{sold},{charged},
product_sums AS MATERIALIZED ({product_sums}),
day_sums AS MATERIALIZED ({day_sums})"""

_SEGMENTS = """,
months AS (
    SELECT account, month, (month + interval '1 month')::date - 1 AS last_day
    FROM (
        SELECT DISTINCT account, date_trunc('month', local_day::timestamp)::date AS month
        FROM {day_sums}
        WHERE account = ANY(%(accounts)s)
          AND local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
    ) AS months
),
segments AS MATERIALIZED (
    SELECT account, currency, month, {period} AS period, is_requested, first_day, last_day, is_whole,
           (((1::bigint << (last_day - first_day + 1)) - 1) << (first_day - month))::integer AS bits
    FROM (
        SELECT chosen.account, chosen.currency, months.month, months.month AS local_day, part.is_requested,
               greatest(part.first_day, months.month) AS first_day, least(part.last_day, months.last_day) AS last_day,
               part.first_day <= months.month AND part.last_day >= months.last_day AS is_whole
        FROM chosen
        JOIN months USING (account)
        CROSS JOIN LATERAL (
            VALUES (true, chosen.first_day, chosen.last_day), (false, chosen.before_first, chosen.before_last)
        ) AS part (is_requested, first_day, last_day)
        WHERE part.first_day <= months.last_day AND part.last_day >= months.month
    ) AS stored
)"""

_MARKS = """,
marks AS MATERIALIZED (
    SELECT coalesce(products.position, {unnamed}) AS position, segments.period, segments.month,
           sums.day_bits & segments.bits AS bits, sums.sku IS NOT NULL AND products.position IS NULL AS is_unnamed
    FROM segments
    JOIN {product_sums} AS sums ON {of_segment}{looked_up}
    WHERE segments.is_requested AND {is_listed} AND sums.day_bits & segments.bits <> 0
)"""

_LISTED = """,
listed AS MATERIALIZED (SELECT DISTINCT period, position FROM marks),
whole AS (SELECT count(*) AS total FROM listed),
keys AS MATERIALIZED (
    SELECT period, position FROM listed ORDER BY period, position OFFSET %(offset)s::bigint LIMIT %(limit)s
)"""

# Days and weeks are counted in blocks of eight weeks, whose days are the bits of a number.
_BLOCK_DAYS = 56
_COUNTED = """,
blocks AS MATERIALIZED (
    SELECT part.block, marks.position, bit_or(part.bits) AS bits
    FROM (
        SELECT position, bits::bigint AS bits, (month - date '0001-01-01') / 56 AS block,
               (month - date '0001-01-01') %% 56 AS shift
        FROM marks
    ) AS marks
    CROSS JOIN LATERAL (
        VALUES (block, (bits << shift) & ((1::bigint << 56) - 1)), (block + 1, bits >> (56 - shift))
    ) AS part (block, bits)
    WHERE part.bits <> 0
    GROUP BY part.block, marks.position
),
counted AS MATERIALIZED (
    SELECT block, number, date '0001-01-01' + block * 56 + (number::integer - 1) * {length} AS period, amount,
           sum(amount) OVER (ORDER BY block, number) - amount AS before
    FROM (SELECT block, ARRAY[{counts}] AS amounts FROM blocks GROUP BY block) AS blocks
    CROSS JOIN LATERAL unnest(amounts) WITH ORDINALITY AS counted (amount, number)
    WHERE amount > 0
),
whole AS (SELECT coalesce(sum(amount), 0)::bigint AS total FROM counted),
touched AS MATERIALIZED (
    SELECT * FROM counted
    WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s
),
keys AS MATERIALIZED (
    SELECT touched.period, blocks.position
    FROM touched
    JOIN blocks USING (block)
    WHERE blocks.bits & ({mask}::bigint << ((touched.number::integer - 1) * {length})) <> 0
    ORDER BY touched.period, blocks.position
    OFFSET %(offset)s::bigint - (SELECT min(before)::bigint FROM touched) LIMIT %(limit)s
)"""

_CURRENCY: LiteralString = "CASE WHEN sums.currency = '' THEN segments.currency ELSE sums.currency END"

_IS_TOUCHED = """segments.last_day >= (SELECT min(period) FROM touched)
          AND segments.first_day < (SELECT max(period) FROM touched) + {length}"""

_OF_PAGE = """,
page_products AS MATERIALIZED (
    SELECT keys.position, keys.period, products.account, products.sku FROM keys JOIN products USING (position)
),
found AS MATERIALIZED (
    SELECT of_page.position, segments.period, segments.is_requested, segments.is_whole, segments.first_day,
           segments.last_day, {currency} AS currency, sums.kind, sums.units, sums.amount, sums.days,
           sums.units_of_days, sums.amounts_of_days
    FROM (SELECT DISTINCT ON ({page_key}) position, {page_key} FROM page_products) AS of_page
    JOIN {product_sums} AS sums ON {of_page}
    JOIN segments ON {of_segment}
    WHERE {is_touched}
    UNION ALL
    SELECT {unnamed}, segments.period, segments.is_requested, segments.is_whole, segments.first_day,
           segments.last_day, {currency}, sums.kind, sums.units, sums.amount, sums.days, sums.units_of_days,
           sums.amounts_of_days
    FROM segments
    JOIN {product_sums} AS sums ON {of_segment}
    WHERE {is_touched} AND sums.sku IS NULL AND sums.kind = 'sales'
      AND EXISTS (SELECT FROM keys WHERE position = {unnamed})
)"""

_OF_MONTHS = """,
entries AS (
    SELECT found.position, found.period, found.is_requested, found.kind, found.units, found.amount,
           false AS is_converted
    FROM found
    JOIN keys USING (period, position)
    WHERE found.is_whole AND found.currency = %(target)s::text
    UNION ALL
    SELECT stored.position, stored.period, stored.is_requested, stored.kind, stored.units, {amount}, {is_converted}
    FROM (
        SELECT found.position, found.period, found.is_requested, found.first_day, found.last_day, found.kind,
               found.currency, unnest(found.days) AS local_day, unnest(found.units_of_days) AS units,
               unnest(found.amounts_of_days) AS amount
        FROM found
        JOIN keys USING (period, position)
        WHERE NOT found.is_whole OR found.currency <> %(target)s::text
    ) AS stored
    LEFT JOIN (SELECT DISTINCT ON (day, currency) * FROM rates) AS rates
      ON rates.day = stored.local_day AND rates.currency = stored.currency
    WHERE stored.local_day BETWEEN stored.first_day AND stored.last_day
)"""

_OF_DAYS = """,
entries AS (
    SELECT stored.position, keys.period, true AS is_requested, stored.kind, stored.units, {amount} AS amount,
           {is_converted} AS is_converted
    FROM (
        SELECT *, {period} AS period
        FROM (
            SELECT position, first_day, last_day, kind, currency, unnest(days) AS local_day,
                   unnest(units_of_days) AS units, unnest(amounts_of_days) AS amount
            FROM found
        ) AS stored
        WHERE local_day BETWEEN first_day AND last_day
    ) AS stored
    JOIN keys ON keys.position = stored.position AND keys.period = stored.period
    LEFT JOIN (SELECT DISTINCT ON (day, currency) * FROM rates) AS rates
      ON rates.day = stored.local_day AND rates.currency = stored.currency
)"""

_OF_ALL = """,
entries AS (
    SELECT 0 AS position, {period} AS period, stored.is_requested, stored.kind, stored.units, {amount} AS amount,
           {is_converted} AS is_converted
    FROM (
        SELECT sums.local_day, sums.local_day >= segments.first_day AS is_requested, sums.kind, sums.units, sums.amount,
               {currency} AS currency
        FROM chosen AS segments
        JOIN {day_sums} AS sums ON sums.account = segments.account
        WHERE sums.local_day BETWEEN segments.first_day AND segments.last_day
           OR sums.local_day BETWEEN segments.before_first AND segments.before_last
    ) AS stored
    LEFT JOIN (SELECT DISTINCT ON (day, currency) * FROM rates) AS rates
      ON rates.day = stored.local_day AND rates.currency = stored.currency
)"""

_AMOUNT: LiteralString = """CASE WHEN stored.currency = %(target)s::text THEN stored.amount
                ELSE stored.amount * coalesce(rates.rate, 'NaN') END"""
_IS_CONVERTED: LiteralString = "stored.currency <> %(target)s::text"

# Converted amounts are added unrounded; what is answered is rounded once.
_SUM_OF_KIND = """CASE WHEN bool_or(is_converted) FILTER (WHERE kind = {kind})
                THEN round(sum(amount) FILTER (WHERE kind = {kind}), 2)
                ELSE coalesce(sum(amount) FILTER (WHERE kind = {kind}), 0) END"""

_SUMMED = """,
summed AS MATERIALIZED (
    SELECT position, period, is_requested, coalesce(sum(units), 0) AS units, {sales} AS sales, {cost} AS cost,
           {fees} AS fees
    FROM entries
    GROUP BY position, period, is_requested
),
lacking AS (
    SELECT EXISTS (
        SELECT FROM (
            SELECT sums.local_day AS day, {currency} AS currency
            FROM chosen AS segments
            JOIN {day_sums} AS sums ON sums.account = segments.account
            WHERE sums.local_day BETWEEN segments.first_day AND segments.last_day AND sums.amount IS NOT NULL
              AND (sums.is_of_product OR {is_by_date})
        ) AS needed
        LEFT JOIN rates USING (day, currency)
        WHERE needed.currency <> %(target)s::text AND rates.rate IS NULL
    ) AS lacks_rates, {has_unnamed} AS has_unnamed
)"""

_COMBINED: LiteralString = """,
grouped AS (
    SELECT *, NULL::numeric AS units_before, NULL::numeric AS sales_before, NULL::numeric AS profit_before
    FROM summed
)"""

_PRODUCTS: LiteralString = """,
grouped AS MATERIALIZED (
    SELECT requested.*, before.units AS units_before, before.sales AS sales_before,
           before.sales - before.cost - before.fees AS profit_before
    FROM summed AS requested
    LEFT JOIN summed AS before ON before.position = requested.position AND NOT before.is_requested
    WHERE requested.is_requested
)"""

_DATES = """,
whole AS (SELECT count(*) AS total FROM summed WHERE is_requested),
grouped AS MATERIALIZED (
    SELECT requested.*, before.units AS units_before, before.sales AS sales_before,
           before.sales - before.cost - before.fees AS profit_before
    FROM summed AS requested
    LEFT JOIN (
        SELECT period, sum(units) AS units, sum(sales) AS sales, sum(cost) AS cost, sum(fees) AS fees
        FROM summed
        GROUP BY period
    ) AS before ON before.period = (requested.period - {step}::interval)::date
    WHERE requested.is_requested
    ORDER BY requested.period
    OFFSET %(offset)s::bigint LIMIT %(limit)s
)"""

_LENGTH: Mapping[str | None, int] = MappingProxyType({"Date": 1, "Week": 7})


def sums_from_rows() -> sql.Composed:
    """Return `product_sums` and `day_sums`, summed from the rows of the months asked for."""
    selected = [sql.SQL(SELECTED[dataset.name]) for dataset in (DAILY_PRODUCT_SALES, TRANSACTIONS)]
    products = sql.SQL(" UNION ALL ").join(selected)
    days = sql.SQL(DAYS_OF).format(sign=sql.SQL("1"), products=sql.SQL("product_sums"))
    return sql.SQL(_FROM_ROWS).format(
        periods=sql.SQL(PERIODS),
        steps=sql.SQL(STEPS),
        sold=items_of(DAILY_PRODUCT_SALES),
        charged=items_of(TRANSACTIONS),
        product_sums=sql.SQL("SELECT {} FROM ({}) AS sums").format(sql.SQL(PRODUCT_COLUMNS), products),
        day_sums=sql.SQL(SELECT_DAYS).format(days=days),
    )


def segments(plan: Plan) -> sql.Composable:
    """Return `segments`: the requested days and those compared with, by month; nothing in a date view."""
    if plan.grouping.dimension is None:
        return sql.SQL("")
    return _formatted(_SEGMENTS, plan)


def sums(plan: Plan) -> sql.Composable:
    """Return `grouped`, which has the rows of the page, and `whole` with the total, and `lacking`."""
    if plan.grouping.dimension is None:
        return _formatted(_OF_ALL + _SUMMED + _DATES, plan)
    if plan.grouping.period in _LENGTH:
        return _formatted(_MARKS + _COUNTED + _OF_PAGE + _OF_DAYS + _SUMMED + _COMBINED, plan)
    rows = _COMBINED if plan.grouping.is_combined else _PRODUCTS
    return _formatted(_MARKS + _LISTED + _OF_PAGE + _OF_MONTHS + _SUMMED + rows, plan)


def _formatted(template: LiteralString, plan: Plan) -> sql.Composed:
    period, is_by_date = plan.grouping.period, plan.grouping.dimension is None
    length, is_short = _LENGTH.get(period, 1), period in _LENGTH
    mask = (1 << length) - 1
    counts = [f"count(*) FILTER (WHERE bits & {mask << first} <> 0)" for first in range(0, _BLOCK_DAYS, length)]
    same_account = "" if plan.is_one_account else "sums.account = segments.account AND "
    page_key = ("sku",) if plan.is_one_account else ("account", "sku")
    of_page = " AND ".join(f"of_page.{name} = sums.{name}" for name in page_key)
    is_touched = _IS_TOUCHED if is_short else "true"
    of_kinds = {kind: sql.SQL(_SUM_OF_KIND).format(kind=sql.Literal(kind)) for kind in ("sales", "cost", "fees")}
    return sql.SQL(template).format(
        **of_kinds,
        product_sums=sql.SQL(plan.product_sums),
        day_sums=sql.SQL(plan.day_sums),
        of_segment=sql.SQL(f"{same_account}sums.month = segments.month AND sums.account = ANY(%(accounts)s)"),
        period=sql.SQL(PERIOD_OF[period]),
        step=sql.Literal(STEP.get(period or "", "")),
        length=sql.Literal(length),
        mask=sql.Literal(mask),
        counts=sql.SQL(", ".join(counts)),
        looked_up=sql.SQL("") if is_by_date else looked_up(plan),
        unnamed=sql.SQL(UNNAMED),
        page_key=sql.SQL(", ".join(page_key)),
        of_page=sql.SQL(of_page),
        is_touched=sql.SQL(is_touched).format(length=sql.Literal(length)),
        is_listed=sql.SQL(IS_LISTED),
        currency=sql.SQL(_CURRENCY),
        amount=sql.SQL(_AMOUNT),
        is_converted=sql.SQL(_IS_CONVERTED),
        is_by_date=sql.Literal(is_by_date),
        has_unnamed=sql.SQL("false" if is_by_date else "EXISTS (SELECT FROM marks WHERE is_unnamed)"),
    )
