"""Sums sales, costs and fees by product and period.

A view of products first finds the rows of the requested page, from the months and days on which products have sums.
Only these rows are summed: from the sums of whole months where nothing is converted, else from the sums of days.
"""

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
    SELECT *, (month + interval '1 month')::date - 1 AS month_end
    FROM (
        SELECT sums.account, date_trunc('month', sums.local_day::timestamp)::date AS month,
               bool_or({currency} <> %(target)s::text) AS is_converted
        FROM {day_sums} AS sums
        JOIN chosen AS segments USING (account)
        WHERE sums.account = ANY(%(accounts)s)
          AND sums.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
        GROUP BY 1, 2
    ) AS months
),
segments AS MATERIALIZED (
    SELECT account, currency, month, {period} AS period, is_requested, first_day, last_day, is_whole,
           is_converted OR NOT is_whole AS needs_days,
           (((1::bigint << (last_day - first_day + 1)) - 1) << (first_day - month))::integer AS bits
    FROM (
        SELECT months.account, chosen.currency, months.month, months.month AS local_day, months.is_converted,
               part.is_requested, greatest(part.first_day, months.month) AS first_day,
               least(part.last_day, months.month_end) AS last_day,
               part.first_day <= months.month AND part.last_day >= months.month_end AS is_whole
        FROM chosen
        JOIN months USING (account)
        CROSS JOIN LATERAL (
            VALUES (true, chosen.first_day, chosen.last_day), (false, chosen.before_first, chosen.before_last)
        ) AS part (is_requested, first_day, last_day)
        WHERE part.first_day <= months.month_end AND part.last_day >= months.month
    ) AS stored
)"""

_MARKED = """
    FROM segments
    JOIN {product_sums} AS sums ON {of_segment}{looked_up}
    WHERE segments.is_requested AND {is_listed} AND sums.day_bits & segments.bits <> 0
      AND sums.month = ANY(ARRAY(SELECT month FROM segments WHERE is_requested))"""

_LISTED = """,
listed AS MATERIALIZED (
    SELECT DISTINCT segments.period, coalesce(products.position, {unnamed}) AS position, {is_unnamed} AS is_unnamed
    {marked}
),
whole AS (SELECT count(*) AS total FROM listed),
keys AS MATERIALIZED (
    SELECT period, position FROM listed ORDER BY period, position OFFSET %(offset)s::bigint LIMIT %(limit)s
),
page_segments AS MATERIALIZED (SELECT * FROM segments WHERE period IN (SELECT period FROM keys))"""

# The days that products have rows on are the bits of a number for each month.
_DAYS_LISTED = """,
listed AS MATERIALIZED (
    SELECT segments.month, coalesce(products.position, {unnamed}) AS position,
           bit_or(sums.day_bits & segments.bits) AS bits, bool_or({is_unnamed}) AS is_unnamed
    {marked}
    GROUP BY segments.month, coalesce(products.position, {unnamed})
),{weeks}
amounts AS MATERIALIZED (SELECT month, sum(bit_count(bits::bit(32))) AS amount FROM {marks} GROUP BY month),
blocks AS MATERIALIZED (SELECT *, sum(amount) OVER (ORDER BY month) - amount AS before FROM amounts),
whole AS (SELECT coalesce(sum(amount), 0)::bigint AS total FROM blocks),
counted AS (
    SELECT month, number, month + number::integer - 1 AS period, amount,
           before + sum(amount) OVER (PARTITION BY month ORDER BY number) - amount AS before
    FROM (
        SELECT month, before, ARRAY[{counts}] AS amounts
        FROM {marks}
        JOIN (
            SELECT month, before FROM blocks
            WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s
        ) AS blocks USING (month)
        GROUP BY month, before
    ) AS months
    CROSS JOIN LATERAL unnest(amounts) WITH ORDINALITY AS counted (amount, number)
    WHERE amount > 0
),
touched AS MATERIALIZED (
    SELECT * FROM counted
    WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s
),
keys AS MATERIALIZED (
    SELECT touched.period, marks.position
    FROM touched
    JOIN {marks} AS marks USING (month)
    WHERE marks.bits & (1 << (touched.number::integer - 1)) <> 0
    ORDER BY touched.period, marks.position
    OFFSET %(offset)s::bigint - (SELECT min(before)::bigint FROM touched) LIMIT %(limit)s
),
page_segments AS MATERIALIZED (
    SELECT account, currency, month, is_requested, greatest(first_day, keys.first_key) AS first_day,
           least(last_day, keys.last_key) AS last_day
    FROM segments
    CROSS JOIN (SELECT min(period) AS first_key, max(period) + {length} - 1 AS last_key FROM keys) AS keys
    WHERE is_requested AND last_day >= keys.first_key AND first_day <= keys.last_key
)"""

# The bit of a week is that of its Monday, also where that lies in the month before. Three shifts move the days of a
# week onto it.
_WEEKS = """
mondays AS (
    SELECT month, first_monday, date_trunc('month', (month + first_monday - 7)::timestamp)::date AS month_before
    FROM (
        SELECT DISTINCT month, (7 - (month - date '0001-01-01') %% 7) %% 7 AS first_monday FROM segments
    ) AS months
),
weeks AS MATERIALIZED (
    SELECT month, position, bit_or(bits) AS bits
    FROM (
        SELECT month, position, ((bits | (bits >> 3)) & 270549121) << first_monday AS bits
        FROM (
            SELECT month, position, first_monday, bits | (bits >> 2) AS bits
            FROM (
                SELECT month, position, first_monday, (bits >> first_monday) | (bits >> (first_monday + 1)) AS bits
                FROM listed JOIN mondays USING (month)
            ) AS shifted
        ) AS shifted
        WHERE bits <> 0
        UNION ALL
        SELECT month_before, position, 1 << (month - month_before + first_monday - 7)
        FROM listed JOIN mondays USING (month)
        WHERE bits & ((1 << first_monday) - 1) <> 0
    ) AS marks
    GROUP BY month, position
),"""

_CURRENCY: LiteralString = "CASE WHEN sums.currency = '' THEN segments.currency ELSE sums.currency END"
_IS_UNNAMED: LiteralString = "sums.sku IS NOT NULL AND products.position IS NULL"

_PAGE_PRODUCTS = """,
page_products AS MATERIALIZED (SELECT * FROM products WHERE position IN (SELECT position FROM keys))"""

_OF_PAGE: LiteralString = """coalesce(
                   products.position, CASE WHEN sums.sku IS NULL AND sums.kind = 'sales' THEN {unnamed} END
               ) AS position"""

# Units and amounts in the currency of the answer are those of whole months, all others those of days.
_OF_MONTHS = """,
entries AS (
    SELECT stored.position, stored.period, stored.is_requested, stored.kind, stored.units, stored.amount,
           false AS is_converted
    FROM (
        SELECT {of_page}, segments.period, segments.is_requested, sums.kind, sums.units,
               CASE WHEN {currency} = %(target)s::text THEN sums.amount END AS amount
        FROM page_segments AS segments
        JOIN {product_sums} AS sums ON {of_segment}{looked_up_on_page}
        WHERE segments.is_whole AND sums.month = ANY(ARRAY(SELECT month FROM page_segments WHERE is_whole))
    ) AS stored
    JOIN keys USING (period, position)
    UNION ALL
    SELECT stored.position, stored.period, stored.is_requested, stored.kind, stored.units,
           CASE WHEN currency_key IS NULL THEN stored.amount ELSE stored.amount * coalesce(rates.rate, 'NaN') END,
           currency_key IS NOT NULL
    FROM (
        SELECT position, period, is_requested, first_day, last_day, kind, currency_key, unnest(days) AS local_day,
               unnest(CASE WHEN NOT is_whole THEN units_of_days END) AS units, unnest(amounts_of_days) AS amount
        FROM (
            SELECT {of_page}, segments.period, segments.is_requested, segments.is_whole, segments.first_day,
                   segments.last_day, sums.kind, sums.days, sums.units_of_days, sums.amounts_of_days,
                   CASE WHEN {currency} <> %(target)s::text
                        THEN coalesce(array_position(converted.currencies, {currency}), 0)::bigint * 10000000
                   END AS currency_key
            FROM page_segments AS segments
            CROSS JOIN converted_currencies AS converted
            JOIN {product_days} AS sums ON {of_segment}{looked_up_on_page}
            WHERE segments.needs_days AND (NOT segments.is_whole OR {currency} <> %(target)s::text)
              AND sums.month = ANY(ARRAY(SELECT month FROM page_segments WHERE needs_days))
        ) AS sums
        JOIN keys USING (period, position)
    ) AS stored
    LEFT JOIN (SELECT DISTINCT ON (key) key, rate FROM rates) AS rates
      ON rates.key = stored.currency_key + (stored.local_day - date '0001-01-01')
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
            FROM (
                SELECT {of_page}, segments.first_day, segments.last_day, {currency} AS currency, sums.kind, sums.days,
                       sums.units_of_days, sums.amounts_of_days
                FROM page_segments AS segments
                JOIN {product_days} AS sums ON {of_segment}{looked_up_on_page}
                WHERE sums.month = ANY(ARRAY(SELECT month FROM page_segments))
            ) AS sums
            WHERE position IS NOT NULL
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
kinds AS (
    SELECT position, period, is_requested, kind, sum(units) AS units, sum(amount) AS amount,
           bool_or(is_converted) AS is_converted
    FROM entries
    GROUP BY position, period, is_requested, kind
),
summed AS MATERIALIZED (
    SELECT position, period, is_requested, coalesce(sum(units), 0) AS units, {sales} AS sales, {cost} AS cost,
           {fees} AS fees
    FROM kinds
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

_SHORT = ("Date", "Week")


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
    if plan.grouping.period in _SHORT:
        return _formatted(_DAYS_LISTED + _PAGE_PRODUCTS + _OF_DAYS + _SUMMED + _COMBINED, plan)
    rows = _COMBINED if plan.grouping.is_combined else _PRODUCTS
    return _formatted(_LISTED + _PAGE_PRODUCTS + _OF_MONTHS + _SUMMED + rows, plan)


def _formatted(template: LiteralString, plan: Plan) -> sql.Composed:
    period, is_by_date, is_by_week = (
        plan.grouping.period,
        plan.grouping.dimension is None,
        plan.grouping.period == "Week",
    )
    counts = [f"count(*) FILTER (WHERE bits & {1 << day} <> 0)" for day in range(31)]
    same_account = "" if plan.is_one_account else "sums.account = segments.account AND "
    no_join: sql.Composable = sql.SQL("")
    parts: dict[str, sql.Composable] = {
        "product_sums": sql.SQL(plan.product_sums),
        "product_days": sql.SQL(plan.product_days),
        "day_sums": sql.SQL(plan.day_sums),
        "of_segment": sql.SQL(f"{same_account}sums.month = segments.month AND sums.account = ANY(%(accounts)s)"),
        "looked_up": no_join if is_by_date else looked_up(plan, "products"),
        "looked_up_on_page": no_join if is_by_date else looked_up(plan, "page_products"),
        "is_listed": sql.SQL(IS_LISTED),
        "is_unnamed": sql.SQL(_IS_UNNAMED),
        "unnamed": sql.SQL(UNNAMED),
        "currency": sql.SQL(_CURRENCY),
    }
    parts["of_page"] = sql.SQL(_OF_PAGE).format(**parts)
    of_kinds = {kind: sql.SQL(_SUM_OF_KIND).format(kind=sql.Literal(kind)) for kind in ("sales", "cost", "fees")}
    return sql.SQL(template).format(
        **parts,
        **of_kinds,
        marked=sql.SQL(_MARKED).format(**parts),
        marks=sql.SQL("weeks" if is_by_week else "listed"),
        weeks=sql.SQL(_WEEKS if is_by_week else ""),
        period=sql.SQL(PERIOD_OF[period]),
        step=sql.Literal(STEP.get(period or "", "")),
        length=sql.Literal(7 if is_by_week else 1),
        counts=sql.SQL(", ".join(counts)),
        amount=sql.SQL(_AMOUNT),
        is_converted=sql.SQL(_IS_CONVERTED),
        is_by_date=sql.Literal(is_by_date),
        has_unnamed=sql.SQL("false" if is_by_date else "EXISTS (SELECT FROM listed WHERE is_unnamed)"),
    )
