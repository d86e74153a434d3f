"""Sums sales, costs and fees by product and period.

A view of products first finds the rows of the requested page, from the days on which products have sums; only
these rows are summed. Sums of whole months are those of `product_months`, all others are made of the sums of days.
"""

from typing import LiteralString

from psycopg import sql

from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.service.statistics.months import CURRENCY, months
from seller_platform.service.statistics.plan import PERIOD_OF, STEP, UNNAMED, Plan, looked_up
from seller_platform.service.sums.costs import PERIODS, STEPS
from seller_platform.service.sums.statistics import DAYS_OF, PRODUCT_COLUMNS, SELECT_DAYS, SELECTED, items_of

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
product_days AS MATERIALIZED ({product_days}),
day_sums AS MATERIALIZED ({day_sums})"""

_SEGMENTS = """,
segments AS MATERIALIZED (
    SELECT account, currency, month, rates_hash, {period} AS period, is_requested, first_day, last_day, is_whole,
           (((1::bigint << (last_day - first_day + 1)) - 1) << (first_day - month))::integer AS bits
    FROM (
        SELECT months.account, months.currency, months.month, months.rates_hash, months.month AS local_day,
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
    FROM (
        SELECT account, month, segments.period, segments.bits, unnest(sums.skus) AS sku,
               unnest(sums.day_bits) AS day_bits
        FROM segments
        JOIN {product_months} AS sums USING (account, month, rates_hash)
        WHERE segments.is_requested AND sums.target = %(target)s::text
    ) AS sums{looked_up}
    WHERE sums.day_bits & sums.bits <> 0"""

_LISTED = """,
listed AS MATERIALIZED (
    SELECT DISTINCT sums.period, coalesce(products.position, {unnamed}) AS position, {is_unnamed} AS is_unnamed{marked}
),
whole AS (SELECT count(*) AS total FROM listed),
keys AS MATERIALIZED (
    SELECT period, position FROM listed ORDER BY period, position OFFSET %(offset)s::bigint LIMIT %(limit)s
),
page_segments AS MATERIALIZED (SELECT * FROM segments WHERE period IN (SELECT period FROM keys))"""

# The days that products have rows on are the bits of a number for each month.
_DAYS_LISTED = """,
listed AS MATERIALIZED (
    SELECT sums.month, coalesce(products.position, {unnamed}) AS position, bit_or(sums.day_bits & sums.bits) AS bits,
           bool_or({is_unnamed}) AS is_unnamed{marked}
    GROUP BY sums.month, coalesce(products.position, {unnamed})
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
    SELECT account, currency, month, period, is_requested, greatest(first_day, keys.first_key) AS first_day,
           least(last_day, keys.last_key) AS last_day
    FROM segments
    CROSS JOIN (SELECT min(period) AS first_key, max(period) + {length} - 1 AS last_key FROM keys) AS keys
    WHERE is_requested AND last_day >= keys.first_key AND first_day <= keys.last_key
)"""

# The bit of a week is that of its Monday, also where that lies in the month before. Shifts by 1, 2 and 3 move the days
# of a week onto it; 270549121 has the bits 0, 7, 14, 21 and 28.
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

_PAGE_PRODUCTS = """,
page_products AS MATERIALIZED (SELECT * FROM products WHERE position IN (SELECT position FROM keys))"""

_OF_MONTHS = """,
of_months AS (
    SELECT coalesce(products.position, CASE WHEN sums.sku IS NULL THEN {unnamed} END) AS position, sums.period,
           sums.is_requested, sums.units, sums.sales, sums.cost, sums.fees, sums.conversions,
           sums.is_requested AND sums.day_bits & sums.bits <> 0 AS is_listed
    FROM (
        SELECT account, segments.period, segments.is_requested, segments.bits, unnest(sums.skus) AS sku,
               unnest(sums.day_bits) AS day_bits, unnest(CASE WHEN segments.is_whole THEN sums.units END) AS units,
               unnest(CASE WHEN segments.is_whole THEN sums.sales END) AS sales,
               unnest(CASE WHEN segments.is_whole THEN sums.costs END) AS cost,
               unnest(CASE WHEN segments.is_whole THEN sums.fees END) AS fees,
               unnest(CASE WHEN segments.is_whole THEN sums.conversions END) AS conversions
        FROM {segments} AS segments
        JOIN {product_months} AS sums USING (account, month, rates_hash)
        WHERE sums.target = %(target)s::text
    ) AS sums{looked_up_of_months}
)"""

# Where each product has one row, its months are read once, for the list and for the sums.
_LISTED_BY_MONTHS = """,
listed AS MATERIALIZED (SELECT DISTINCT position, position IS NULL AS is_unnamed FROM of_months WHERE is_listed),
whole AS (SELECT count(*) AS total FROM listed),
keys AS MATERIALIZED (
    SELECT position FROM listed ORDER BY position OFFSET %(offset)s::bigint LIMIT %(limit)s
)"""

_OF_DAYS = """
    SELECT stored.position, stored.period, stored.is_requested, {of_kind}, false AS is_listed
    FROM (
        SELECT *, {period_of_day} AS period
        FROM (
            SELECT position, period_of_month, is_requested, first_day, last_day, kind, currency,
                   unnest(days) AS local_day, unnest(units_of_days) AS units, unnest(amounts_of_days) AS amount
            FROM (
                SELECT coalesce(
                           products.position, CASE WHEN sums.sku IS NULL AND sums.kind = 'sales' THEN {unnamed} END
                       ) AS position, segments.period AS period_of_month, segments.is_requested, segments.first_day,
                       segments.last_day, {currency} AS currency, sums.kind, sums.days, sums.units_of_days,
                       sums.amounts_of_days
                FROM {segments} AS segments
                JOIN {product_days} AS sums
                  ON {same_account}sums.month = segments.month AND sums.account = ANY(%(accounts)s){looked_up_on_page}
                WHERE {needs_days}
                  AND sums.month = ANY(ARRAY(SELECT month FROM {segments} AS segments WHERE {needs_days}))
            ) AS sums
            WHERE position IS NOT NULL
        ) AS stored
        WHERE local_day BETWEEN first_day AND last_day
    ) AS stored
    LEFT JOIN (SELECT DISTINCT ON (day, currency) * FROM rates) AS rates
      ON rates.day = stored.local_day AND rates.currency = stored.currency"""

_OF_ALL = """
    SELECT 0 AS position, {period} AS period, stored.is_requested, {of_kind}, false AS is_listed
    FROM (
        SELECT sums.local_day, sums.local_day >= segments.first_day AS is_requested, sums.kind, sums.units, sums.amount,
               {currency} AS currency
        FROM chosen AS segments
        JOIN {day_sums} AS sums ON sums.account = segments.account
        WHERE sums.local_day BETWEEN segments.first_day AND segments.last_day
           OR sums.local_day BETWEEN segments.before_first AND segments.before_last
    ) AS stored
    LEFT JOIN (SELECT DISTINCT ON (day, currency) * FROM rates) AS rates
      ON rates.day = stored.local_day AND rates.currency = stored.currency"""

# The bits of `conversions` say which amounts are in another currency than that in which they are stored.
_OF_KIND: LiteralString = """stored.units, CASE WHEN stored.kind = 'sales' THEN {amount} END AS sales,
           CASE WHEN stored.kind = 'cost' THEN {amount} END AS cost,
           CASE WHEN stored.kind = 'fees' THEN {amount} END AS fees,
           CASE WHEN stored.currency = %(target)s::text THEN 0 WHEN stored.kind = 'sales' THEN 1
                WHEN stored.kind = 'cost' THEN 2 ELSE 4 END AS conversions""".replace(
    "{amount}",
    "CASE WHEN stored.currency = %(target)s::text THEN stored.amount"
    " ELSE stored.amount * coalesce(rates.rate, 'NaN') END",
)

# Converted amounts are added unrounded; what is answered is rounded once.
_SUMMED = """,
entries AS ({entries}),
summed AS MATERIALIZED (
    SELECT position, period, is_requested, coalesce(sum(units), 0) AS units,
           CASE WHEN bit_or(conversions) & 1 <> 0 THEN round(sum(sales), 2) ELSE coalesce(sum(sales), 0) END AS sales,
           CASE WHEN bit_or(conversions) & 2 <> 0 THEN round(sum(cost), 2) ELSE coalesce(sum(cost), 0) END AS cost,
           CASE WHEN bit_or(conversions) & 4 <> 0 THEN round(sum(fees), 2) ELSE coalesce(sum(fees), 0) END AS fees
    FROM entries{of_keys}
    GROUP BY position, period, is_requested
),
lacking AS (
    SELECT (
        SELECT ARRAY[nullif(rate_of.currency, ''), needed.day::text]
        FROM (
            SELECT sums.local_day AS day, {currency} AS currency
            FROM chosen AS segments
            JOIN {day_sums} AS sums ON sums.account = segments.account
            WHERE sums.local_day BETWEEN segments.first_day AND segments.last_day AND sums.amount IS NOT NULL
              AND (sums.is_of_product OR {is_by_date})
        ) AS needed
        LEFT JOIN rates USING (day, currency)
        CROSS JOIN LATERAL (VALUES (needed.currency), (%(target)s::text)) AS rate_of (currency)
        LEFT JOIN per_euro ON per_euro.day = needed.day AND per_euro.currency = rate_of.currency
        WHERE needed.currency <> %(target)s::text AND rates.rate IS NULL AND rate_of.currency <> 'EUR'
          AND per_euro.per_euro IS NULL
        ORDER BY needed.day, 1
        LIMIT 1
    ) AS missing_rate, {has_unnamed} AS has_unnamed, {lacks_months} AS lacks_months
)"""

# Products by period are compared with nothing: no days before are summed.
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


def sums_from_rows() -> sql.Composed:
    """Return `product_days` and `day_sums`, summed from the rows of the months asked for."""
    selected = [sql.SQL(SELECTED[dataset.name]) for dataset in (DAILY_PRODUCT_SALES, TRANSACTIONS)]
    products = sql.SQL(" UNION ALL ").join(selected)
    days = sql.SQL(DAYS_OF).format(sign=sql.SQL("1"), products=sql.SQL("product_days"))
    return sql.SQL(_FROM_ROWS).format(
        periods=sql.SQL(PERIODS),
        steps=sql.SQL(STEPS),
        sold=items_of(DAILY_PRODUCT_SALES),
        charged=items_of(TRANSACTIONS),
        product_days=sql.SQL("SELECT {} FROM ({}) AS sums").format(sql.SQL(PRODUCT_COLUMNS), products),
        day_sums=sql.SQL(SELECT_DAYS).format(days=days),
    )


def segments(plan: Plan) -> sql.Composable:
    """Return `segments`: the requested days and those compared with, by month; nothing in a date view."""
    if plan.grouping.dimension is None:
        return sql.SQL("")
    return sql.Composed((months(plan), _formatted(_SEGMENTS, plan)))


def sums(plan: Plan) -> sql.Composable:
    """Return `grouped`, which has the rows of the page, and `whole` with the total, and `lacking`."""
    if plan.grouping.dimension is None:
        return _formatted(_SUMMED + _DATES, plan)
    if plan.grouping.has_days:
        return _formatted(_DAYS_LISTED + _PAGE_PRODUCTS + _SUMMED + _PRODUCTS, plan)
    if plan.grouping.is_combined:
        return _formatted(_LISTED + _PAGE_PRODUCTS + _OF_MONTHS + _SUMMED + _PRODUCTS, plan)
    return _formatted(_OF_MONTHS + _LISTED_BY_MONTHS + _PAGE_PRODUCTS + _SUMMED + _PRODUCTS, plan)


def _formatted(template: LiteralString, plan: Plan) -> sql.Composed:
    grouping, is_by_date, is_plain = plan.grouping, plan.grouping.dimension is None, plan.grouping.period is None
    is_by_week, has_months = grouping.period == "Week", not (is_by_date or grouping.has_days)
    counts = [f"count(*) FILTER (WHERE bits & {1 << day} <> 0)" for day in range(31)]
    of_keys = "" if is_by_date else f" JOIN keys USING ({'position' if is_plain else 'period, position'})"
    no_join: sql.Composable = sql.SQL("")
    parts: dict[str, sql.Composable] = {
        **plan.tables,
        "same_account": sql.SQL("" if plan.is_one_account else "sums.account = segments.account AND "),
        "looked_up": no_join if is_by_date else looked_up(plan, "products"),
        "looked_up_on_page": no_join if is_by_date else looked_up(plan, "page_products"),
        "is_unnamed": sql.SQL("sums.sku IS NOT NULL AND products.position IS NULL"),
        "unnamed": sql.SQL(UNNAMED),
        "currency": sql.SQL(CURRENCY),
        "segments": sql.SQL("segments" if is_plain else "page_segments"),
        "period": sql.SQL(PERIOD_OF[grouping.period]),
        "period_of_day": sql.SQL(PERIOD_OF[grouping.period] if grouping.has_days else "period_of_month"),
        "needs_days": sql.SQL("true" if grouping.has_days else "NOT segments.is_whole"),
        "of_kind": sql.SQL(_OF_KIND),
    }
    parts["looked_up_of_months"] = parts["looked_up" if is_plain else "looked_up_on_page"]
    days = sql.SQL(_OF_ALL if is_by_date else _OF_DAYS).format(**parts)
    return sql.SQL(template).format(
        **parts,
        marked=sql.SQL(_MARKED).format(**parts),
        marks=sql.SQL("weeks" if is_by_week else "listed"),
        weeks=sql.SQL(_WEEKS if is_by_week else ""),
        step=sql.Literal(STEP.get(grouping.period or "", "")),
        length=sql.Literal(7 if is_by_week else 1),
        counts=sql.SQL(", ".join(counts)),
        entries=sql.Composed((sql.SQL("SELECT * FROM of_months UNION ALL"), days)) if has_months else days,
        of_keys=sql.SQL(of_keys),
        is_by_date=sql.Literal(is_by_date),
        has_unnamed=sql.SQL("false" if is_by_date else "EXISTS (SELECT FROM listed WHERE is_unnamed)"),
        lacks_months=sql.SQL("EXISTS (SELECT FROM months WHERE NOT is_stored)" if plan.uses_months else "false"),
    )
