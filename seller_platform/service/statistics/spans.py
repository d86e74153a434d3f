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
from seller_platform.service.statistics.plan import Grouping


@dataclass(frozen=True)
class ReadSpans:
    """The days of each selected account, those compared with, if any, and whether their costs and fees were read."""

    days: Sequence[Days]
    before: Sequence[Days] | None
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
    before = _days_before(grouping, days)
    sales, fees = (Need(dataset, START.name, days) for dataset in (DAILY_PRODUCT_SALES, TRANSACTIONS))
    costs, sales_before, fees_before = (
        Need(COST_PERIODS, ACCOUNT),
        replace(sales, days=before),
        replace(fees, days=before),
    )
    needs = [sales, fees, costs, *((sales_before, fees_before) if before else ())]
    lacking = []
    for gap in await find_gaps(connection, selected, needs, now):
        if gap.need is sales:
            raise gap.error
        lacking.append(gap.need)
    knows_fees = fees not in lacking
    if sales_before in lacking or (knows_fees and fees_before in lacking):
        before = None
    return ReadSpans(days, before, costs not in lacking, knows_fees)


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
