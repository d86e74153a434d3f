"""Decides the days that statistics sum and compare, and whether they were read.

Of a replica, the sales of all requested days must have been read. Costs and fees that were not read are null. Where the
days before were not read, nothing is compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, TRANSACTIONS
from seller_platform.service.access import ACCOUNT, SelectedAccounts
from seller_platform.service.lists.endpoints import START
from seller_platform.service.lists.page_queries import Days, Need
from seller_platform.service.lists.replica import find_gaps
from seller_platform.service.pool import Connection
from seller_platform.service.statistics.plan import ComparedDays, Grouping


@dataclass(frozen=True)
class ReadSpans:
    """The days of each selected account, and whether their costs and fees were read."""

    spans: Sequence[ComparedDays]
    knows_costs: bool
    knows_fees: bool


async def read_spans(
    connection: Connection, selected: SelectedAccounts, grouping: Grouping, days: Sequence[Days], now: datetime
) -> ReadSpans:
    """Return the days to sum and to compare, after a check of what was read.

    Args:
        days: The requested days of each selected account.

    Raises:
        ApiError: An account is a replica whose sales were never read for some of the days.
    """
    spans = [_compared_days(grouping, account_days) for account_days in days]
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
    return ReadSpans(spans, costs not in lacking, knows_fees)


def _compared_days(grouping: Grouping, days: Days) -> ComparedDays:
    """Add the days before: as many, or in a date view the calendar period."""
    compared = ComparedDays(days.first, days.last)
    start = _start_of(grouping.period, days.first) if grouping.dimension is None else days.first
    if grouping.is_combined or start == date.min:
        return compared
    last = start - timedelta(days=1)
    if grouping.dimension is None:
        return replace(compared, before_first=_start_of(grouping.period, last), before_last=last)
    length = days.last.toordinal() - days.first.toordinal() + 1
    return replace(compared, before_first=date.fromordinal(max(1, start.toordinal() - length)), before_last=last)


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
