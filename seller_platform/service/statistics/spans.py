"""The days that statistics are made of: those asked for, those that a trend compares with, and what of both is known.

All days asked for must have been read of the sales of a copy. Its costs and fees may lack: then they are not told.
Where the days before were not read, nothing is compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.service.access import ACCOUNT, SelectedAccounts
from seller_platform.service.lists.endpoints import START
from seller_platform.service.lists.replica import Need, find_gaps
from seller_platform.service.lists.sql import Days
from seller_platform.service.pool import Connection
from seller_platform.service.statistics.plan import ComparedDays, Grouping


@dataclass(frozen=True)
class KnownSpans:
    """The days of each selected account, and whether the costs and fees on them are known."""

    spans: Sequence[ComparedDays]
    knows_costs: bool
    knows_fees: bool


async def read_spans(
    connection: Connection, selected: SelectedAccounts, grouping: Grouping, days: Sequence[Days], now: datetime
) -> KnownSpans:
    """Return what is known of the days asked for.

    Args:
        days: Those of each selected account.

    Raises:
        NotReadError: An account is a copy whose sales were never read for some of them.
    """
    spans = [_span(grouping, each) for each in days]
    sales, fees = (Need(dataset, START.name, days) for dataset in (DAILY_PRODUCT_SALES, TRANSACTIONS))
    costs, needs = Need(COST_PERIODS, ACCOUNT), [sales, fees]
    before = [Days(span.before_first, span.before_last) for span in spans if span.before_first and span.before_last]
    sales_before, fees_before = (replace(need, days=before) for need in needs)
    needs.append(costs)
    if len(before) == len(spans):
        needs += [sales_before, fees_before]
    lacking = []
    for gap in await find_gaps(connection, selected, needs, now):
        if gap.need is sales:
            raise gap.error
        lacking.append(gap.need)
    knows_fees = fees not in lacking
    if sales_before in lacking or (knows_fees and fees_before in lacking):
        spans = [replace(span, before_first=None, before_last=None) for span in spans]
    return KnownSpans(spans, costs not in lacking, knows_fees)


def _span(grouping: Grouping, days: Days) -> ComparedDays:
    if grouping.is_combined:
        return ComparedDays(days.first, days.last)
    before = _period_before(grouping.period, days) if grouping.dimension is None else _as_many_days_before(days)
    return ComparedDays(days.first, days.last, *before)


def _as_many_days_before(days: Days) -> tuple[date | None, date | None]:
    if days.first == date.min:
        return None, None
    ordinal = days.first.toordinal()
    length = days.last.toordinal() - ordinal + 1
    return date.fromordinal(max(1, ordinal - length)), date.fromordinal(ordinal - 1)


def _period_before(period: str | None, days: Days) -> tuple[date | None, date | None]:
    """Return the calendar period before the one that the first day lies in; there is none before the year 1."""
    start = _start_of(period, days.first)
    if start == date.min:
        return None, None
    last = start - timedelta(days=1)
    return _start_of(period, last), last


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
