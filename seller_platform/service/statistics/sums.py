"""Sums sales, costs and fees by product and period.

A view of products by day or week has almost as many rows as are stored. Its statement first finds the rows of the view,
which give the total and the periods of the page, and sums only those periods.
"""

from typing import LiteralString

from psycopg import sql

from seller_platform.service.statistics.plan import PERIOD_OF, STEP, Plan
from seller_platform.service.statistics.products import looked_up
from seller_platform.warehouse.loads.daily_totals import CHARGED

_SHORT = ("Date", "Week")

# Most amounts are in the target's currency, and are not looked up among the rates.
_ENTRIES = """,
{name} AS (
    SELECT {position} AS position, {period} AS period, stored.local_day >= chosen.first_day AS is_requested, {sold}
    FROM seller.daily_product_sales AS stored
    JOIN {chosen} ON chosen.account = stored.account{looked_up}{rates}
    WHERE {is_inside}
    UNION ALL
    SELECT {position}, {period}, stored.local_day >= chosen.first_day, {other}
    FROM other_elements AS other
    JOIN {chosen} ON chosen.account = other.account
    JOIN seller.daily_product_sales AS stored
      ON stored.account = other.account AND stored.sku = other.sku
     AND stored.local_day BETWEEN other.from_date AND other.to_date{looked_up_again}
    LEFT JOIN rates ON rates.day = stored.local_day AND rates.currency = other.currency
    WHERE {is_inside}
    UNION ALL
    SELECT {position}, {period}, stored.local_day >= chosen.first_day, {charged}
    FROM charged AS stored
    JOIN {chosen} ON chosen.account = stored.account{looked_up_again}
    WHERE {is_charged} AND {is_inside} AND coalesce(stored.currency, chosen.currency) = %(target)s::text
    UNION ALL
    SELECT {position}, {period}, stored.local_day >= chosen.first_day, {converted}
    FROM charged AS stored
    JOIN {chosen} ON chosen.account = stored.account{looked_up_again}
    LEFT JOIN rates
      ON rates.day = stored.local_day AND rates.currency = coalesce(stored.currency, chosen.currency)
    WHERE {is_charged} AND {is_inside} AND coalesce(stored.currency, chosen.currency) <> %(target)s::text
)"""

# The one row of `chosen` in constants, so that PostgreSQL computes what depends on it once.
_ONLY: LiteralString = """(
        SELECT (%(accounts)s::text[])[1] AS account, coalesce((%(currencies)s::text[])[1], '') AS currency,
               (%(first_days)s::date[])[1] AS first_day, (%(before_last_days)s::date[])[1] AS before_last
        WHERE (SELECT is_current FROM kept)
    ) AS chosen"""

_RATES: LiteralString = """
    LEFT JOIN rates ON rates.day = stored.local_day AND rates.currency = chosen.currency"""

_IN_WINDOW: LiteralString = """stored.account = ANY(%(accounts)s)
      AND stored.local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date
      AND (stored.local_day >= chosen.first_day OR stored.local_day <= chosen.before_last)"""
_IN_WINDOW_OF_EACH: LiteralString = " AND stored.local_day BETWEEN chosen.summed_from AND chosen.last_day"
_IN_PAGE: LiteralString = """ AND stored.local_day >= (SELECT first_day FROM touched)
      AND stored.local_day < (SELECT end_day FROM touched)"""

_SALES: LiteralString = "stored.product_sales"
_COST: LiteralString = "stored.units_ordered * products.amounts[width_bucket(stored.local_day, products.days)]"
_CONVERTED: LiteralString = """CASE WHEN chosen.currency = %(target)s::text THEN {amount}
                ELSE round({amount} * coalesce(rates.rate, 'NaN'), 2) END"""

_SOLD_SUMS: LiteralString = """
           stored.units_ordered AS units, {sales} AS sales, {cost} AS cost, NULL::numeric AS fees"""
_OTHER_SUMS: LiteralString = """ NULL, NULL,
           CASE WHEN other.currency = %(target)s::text THEN stored.units_ordered * other.amount
                WHEN stored.units_ordered <> 0 THEN
                    round(stored.units_ordered * other.amount * coalesce(rates.rate, 'NaN'), 2) END,
           NULL"""
_CHARGED_SUMS: LiteralString = "NULL, NULL, NULL, stored.amount"
_CONVERTED_SUMS: LiteralString = """NULL, NULL, NULL,
           round(stored.amount * coalesce(rates.rate, 'NaN'), 2)"""

_SOLD_LACKS: LiteralString = """chosen.currency <> %(target)s::text AND rates.rate IS NULL
           AND coalesce(stored.product_sales, {cost}) IS NOT NULL AS lacks_rates"""
_OTHER_LACKS: LiteralString = "other.currency <> %(target)s::text AND rates.rate IS NULL AND stored.units_ordered <> 0"
_CHARGED_LACKS: LiteralString = "false"
_CONVERTED_LACKS: LiteralString = "rates.rate IS NULL"

_SUMMED: LiteralString = """,
summed AS MATERIALIZED (
    SELECT position, period, is_requested, coalesce(sum(units), 0)::bigint AS units, coalesce(sum(sales), 0) AS sales,
           coalesce(sum(cost), 0) AS cost, coalesce(sum(fees), 0) AS fees
    FROM entries
    GROUP BY position, period, is_requested
)"""

_COUNTED = """,
marked AS MATERIALIZED (
    SELECT period, position, bool_or(lacks_rates) AS lacks_rates FROM marks GROUP BY period, position
),
counted AS MATERIALIZED (
    SELECT period, count(*) AS amount, sum(count(*)) OVER (ORDER BY period) - count(*) AS before,
           bool_or(lacks_rates) AS lacks_rates, bool_or(position IS NULL) AS has_unnamed
    FROM marked
    GROUP BY period
),
touched AS MATERIALIZED (
    SELECT min(period) AS first_day, (max(period) + {step}::interval)::date AS end_day, min(before)::bigint AS skipped
    FROM counted
    WHERE before + amount > %(offset)s::bigint AND before < %(offset)s::bigint + %(limit)s
),
whole AS (
    SELECT coalesce(sum(amount), 0)::bigint AS total, coalesce(bool_or(lacks_rates), false) AS lacks_rates,
           coalesce(bool_or(has_unnamed), false) AS has_unnamed
    FROM counted
)"""

_COMBINED: LiteralString = """,
grouped AS (
    SELECT *, NULL::bigint AS units_before, NULL::numeric AS sales_before, NULL::numeric AS profit_before
    FROM summed
)"""

_WHOLE = """,
touched AS (SELECT 0 AS skipped),
whole AS (
    SELECT count(*) AS total, coalesce(bool_or('NaN' IN (sales, cost, fees)), false) AS lacks_rates,
           coalesce(bool_or({is_unnamed}), false) AS has_unnamed
    FROM summed
    WHERE is_requested
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
days AS (
    SELECT period, sum(units) AS units, sum(sales) AS sales, sum(cost) AS cost, sum(fees) AS fees
    FROM summed
    GROUP BY period
),
grouped AS MATERIALIZED (
    SELECT requested.*, before.units AS units_before, before.sales AS sales_before,
           before.sales - before.cost - before.fees AS profit_before
    FROM summed AS requested
    LEFT JOIN days AS before ON before.period = (requested.period - {step}::interval)::date
    WHERE requested.is_requested
)"""

_KEPT: LiteralString = "SELECT account, local_day, sku, currency, amount FROM service.daily_fees WHERE {condition}"
_ASKED: LiteralString = "account = ANY(%(accounts)s) AND local_day BETWEEN %(summed_from)s::date AND %(last_day)s::date"


def fees(plan: Plan) -> sql.Composable:
    """Return `charged`: the fees by account, day, product and currency."""
    charged = sql.SQL(_KEPT if plan.is_kept else CHARGED).format(condition=sql.SQL(_ASKED))
    # Stored sums are read where they are used; the transactions are summed once only.
    return sql.SQL(",\ncharged AS {} ({})").format(
        sql.SQL("NOT MATERIALIZED" if plan.is_kept else "MATERIALIZED"), charged
    )


def sums(plan: Plan) -> sql.Composable:
    """Return `grouped`, `touched` and `whole`.

    `grouped` has the rows of the list, or of the periods of its page; `touched.skipped` is the number of rows of the
    list before them; `whole` has the total, and whether rates or names are missing.
    """
    grouping = plan.grouping
    step = sql.Literal(STEP[grouping.period]) if grouping.period is not None else None
    if grouping.is_combined and grouping.period in _SHORT:
        sold = sql.SQL(_SOLD_LACKS if plan.is_converted else "false AS lacks_rates").format(cost=sql.SQL(_COST))
        lacks = (sold, sql.SQL(_OTHER_LACKS), sql.SQL(_CHARGED_LACKS), sql.SQL(_CONVERTED_LACKS))
        counted = _entries(plan, "marks", _IN_WINDOW, lacks) + sql.SQL(_COUNTED).format(step=step)
        summed = _entries(plan, "entries", _IN_WINDOW + _IN_PAGE, _figures(plan)) + sql.SQL(_SUMMED)
        return counted + summed + sql.SQL(_COMBINED)
    is_unnamed = sql.SQL("false" if grouping.dimension is None else "position IS NULL")
    grouped = _COMBINED if grouping.is_combined else _PRODUCTS if grouping.period is None else _DATES
    summed = _entries(plan, "entries", _IN_WINDOW, _figures(plan)) + sql.SQL(_SUMMED)
    return summed + sql.SQL(_WHOLE).format(is_unnamed=is_unnamed) + sql.SQL(grouped).format(step=step)


def _entries(
    plan: Plan, name: LiteralString, is_inside: LiteralString, columns: tuple[sql.Composable, ...]
) -> sql.Composed:
    is_by_product = plan.grouping.dimension is not None
    sold, other, charged, converted = columns
    return sql.SQL(_ENTRIES).format(
        name=sql.SQL(name),
        position=sql.SQL("products.position" if is_by_product else "NULL::integer"),
        period=sql.SQL(PERIOD_OF[plan.grouping.period]),
        looked_up=looked_up(plan),
        looked_up_again=looked_up(plan) if is_by_product else sql.SQL(""),
        rates=sql.SQL(_RATES if plan.is_converted else ""),
        is_charged=sql.SQL("stored.sku IS NOT NULL" if is_by_product else "true"),
        is_inside=sql.SQL(is_inside if plan.is_one_account else is_inside + _IN_WINDOW_OF_EACH),
        sold=sold,
        other=other,
        charged=charged,
        converted=converted,
        chosen=sql.SQL(_ONLY if plan.is_one_account else "chosen"),
    )


def _figures(plan: Plan) -> tuple[sql.Composable, ...]:
    amount = sql.SQL(_CONVERTED if plan.is_converted else "{amount}")
    sold = sql.SQL(_SOLD_SUMS).format(
        sales=amount.format(amount=sql.SQL(_SALES)), cost=amount.format(amount=sql.SQL(_COST))
    )
    return sold, sql.SQL(_OTHER_SUMS), sql.SQL(_CHARGED_SUMS), sql.SQL(_CONVERTED_SUMS)
