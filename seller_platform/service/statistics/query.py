"""Reads a page of statistics: one SQL statement counts, sums and encodes it.

Amounts are summed by day and product first, and named and grouped afterwards, so that the sums of all groupings agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import cache
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.contract.datasets.stock import INVENTORY, WAREHOUSE_STOCK
from seller_platform.service.lists.daily_totals import WITHOUT_SUMS, answer_from_sums, kept_sums
from seller_platform.service.lists.endpoints import START
from seller_platform.service.lists.page_queries import EXACT_RATE, Days, Need, RowPage, newest_day
from seller_platform.service.lists.replica import find_gaps
from seller_platform.service.pool import Connection
from seller_platform.service.statistics.months import store_months
from seller_platform.service.statistics.output import answered_rows
from seller_platform.service.statistics.plan import (
    SETTINGS,
    Grouping,
    Plan,
    StatisticsRequest,
    named_products,
    statistics_values,
)
from seller_platform.service.statistics.sums import segments, sums, sums_from_rows

_CHOSEN = """
WITH {kept},
chosen AS MATERIALIZED (
    SELECT account, coalesce(currency, '') AS currency, first_day, last_day, before_first, before_last,
           coalesce(before_first, first_day) AS summed_from, {stock_day} AS stock_day, {shelf_day} AS shelf_day
    FROM unnest(
        %(accounts)s::text[], %(currencies)s::text[], %(first_days)s::date[], %(last_days)s::date[],
        %(before_first_days)s::date[], %(before_last_days)s::date[]
    ) AS requested (account, currency, first_day, last_day, before_first, before_last)
    WHERE (SELECT is_current FROM kept)
)"""


# `rates`: the factor from a currency that occurs to the target, on each day of the months asked for.
_RATES: LiteralString = """,
converted_currencies AS MATERIALIZED (
    SELECT array_agg(currency) AS currencies
    FROM (
        SELECT currency FROM chosen
        UNION
        SELECT sums.currency
        FROM {day_sums} AS sums
        WHERE sums.account = ANY(%(accounts)s)
          AND sums.local_day BETWEEN %(months_from)s::date AND %(months_until)s::date
    ) AS used
    WHERE currency NOT IN ('', %(target)s::text)
),
per_euro AS MATERIALIZED (
    SELECT day, currency, per_euro
    FROM service.exchange_rates
    WHERE (SELECT currencies FROM converted_currencies) IS NOT NULL
      AND day BETWEEN %(months_from)s::date AND %(months_until)s::date AND currency <> 'EUR'
      AND (currency = ANY((SELECT currencies FROM converted_currencies)::text[]) OR currency = %(target)s::text)
    UNION ALL
    SELECT DISTINCT day, 'EUR', 1
    FROM service.exchange_rates
    WHERE ('EUR' = ANY((SELECT currencies FROM converted_currencies)::text[])
           OR %(target)s::text = 'EUR' AND (SELECT currencies FROM converted_currencies) IS NOT NULL)
      AND day BETWEEN %(months_from)s::date AND %(months_until)s::date
),
rates AS MATERIALIZED (
    SELECT own.day, own.currency, {rate} AS rate
    FROM per_euro AS own
    JOIN per_euro AS other ON other.day = own.day AND other.currency = %(target)s::text
    WHERE own.currency <> %(target)s::text
)""".replace("{rate}", EXACT_RATE)


async def read_statistics(
    connection: Connection, request: StatisticsRequest
) -> tuple[RowPage, Mapping[str | None, date]]:
    """Return a page of statistics; total and rows are of one moment.

    Where an exchange rate is missing, the rows must not be used: its currency is returned with the first such day.

    Of a replica, the sales of all requested days must have been read. Costs and fees that were not read are null. Where
    the days before were not read, nothing is compared.

    Raises:
        ApiError: An account is a replica whose sales were never read for some of the days.
    """
    selected, grouping = request.selected, request.grouping
    before, knows_costs, knows_fees = await _known_days(connection, request)
    values = {**statistics_values(request, before), "knows_costs": knows_costs, "knows_fees": knows_fees}

    async def read(
        is_kept: bool, *, names_unnamed: bool = False, uses_months: bool = True, may_store: bool = True
    ) -> tuple[RowPage, Mapping[str | None, date]] | None:
        uses_months = uses_months and is_kept and grouping.dimension is not None
        plan = Plan(grouping, len(selected.accounts) == 1, is_kept, names_unnamed, uses_months)
        async with connection.transaction():
            await connection.execute(SETTINGS)
            row = await (await connection.execute(_statement(plan), values, prepare=False)).fetchone()
        is_current, total, missing, has_unnamed, lacks_months, rows = row or (True, 0, None, False, False, "")
        if is_current and lacks_months:
            is_stored = may_store and await store_months(connection, selected.keys, _beginning(plan), plan, values)
            return await read(True, uses_months=is_stored, may_store=False)
        if is_current and has_unnamed and not names_unnamed:
            return await read(is_kept, names_unnamed=True, uses_months=uses_months)
        missing_rates = {missing[0]: date.fromisoformat(missing[1])} if missing else {}
        return (RowPage((rows or "").encode(), total), missing_rates) if is_current else None

    return await answer_from_sums(connection, (DAILY_PRODUCT_SALES, TRANSACTIONS), selected, read)


async def _known_days(connection: Connection, request: StatisticsRequest) -> tuple[Sequence[Days] | None, bool, bool]:
    """Return the days to compare with, if any, and whether costs and fees were read."""
    before = _days_before(request.grouping, request.days)
    sales, fees = (Need(dataset, START.name, request.days) for dataset in (DAILY_PRODUCT_SALES, TRANSACTIONS))
    sales_before, fees_before = replace(sales, days=before), replace(fees, days=before)
    costs = Need(COST_PERIODS)
    needs = [sales, fees, costs, *((sales_before, fees_before) if before else ())]
    lacking = []
    for gap in await find_gaps(connection, request.selected, needs, request.now):
        if gap.need is sales:
            raise gap.error
        lacking.append(gap.need)
    knows_fees = fees not in lacking
    if sales_before in lacking or (knows_fees and fees_before in lacking):
        before = None
    return before, costs not in lacking, knows_fees


def _days_before(grouping: Grouping, days: Sequence[Days]) -> Sequence[Days] | None:
    """Return as many days before those of each account, or in a date view the calendar period; None without any."""
    by_date = grouping.dimension is None
    starts = [_start_of(grouping.period, each.first) if by_date else each.first for each in days]
    if grouping.is_combined or date.min in starts:
        return None
    lasts = [start - timedelta(days=1) for start in starts]
    if by_date:
        return [Days(_start_of(grouping.period, last), last) for last in lasts]
    lengths = [each.last.toordinal() - each.first.toordinal() for each in days]
    return [
        Days(date.fromordinal(max(1, last.toordinal() - length)), last)
        for last, length in zip(lasts, lengths, strict=True)
    ]


def _start_of(period: str | None, day: date) -> date:
    match period:
        case "Week":
            return date.fromordinal(day.toordinal() - day.weekday())
        case "Month":
            return day.replace(day=1)
        case "Year":
            return day.replace(month=1, day=1)
        case _:
            return day


@cache
def _statement(plan: Plan) -> sql.Composed:
    rows = answered_rows(plan.grouping)
    return sql.Composed((_beginning(plan), segments(plan), named_products(plan), sums(plan), rows))


def _beginning(plan: Plan) -> sql.Composed:
    """Return the items of WITH up to `rates`."""
    chosen = sql.SQL(_CHOSEN).format(
        kept=kept_sums() if plan.is_kept else sql.SQL(WITHOUT_SUMS),
        stock_day=newest_day(INVENTORY),
        shelf_day=newest_day(WAREHOUSE_STOCK),
    )
    from_rows = sql.SQL("") if plan.is_kept else sums_from_rows()
    return sql.Composed((chosen, from_rows, sql.SQL(_RATES).format(**plan.tables)))
