"""What is true of the list of one dataset only."""

import calendar
from collections.abc import Callable, Mapping
from datetime import date

from seller_platform.contract.datasets.sales import ORDERS


def one_month_after(day: date) -> date:
    """Return the same day of the next month, or that month's last day where it has no such day."""
    year, month = (day.year, day.month + 1) if day.month < 12 else (day.year + 1, 1)
    if year > date.max.year:
        return date.max
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


LATEST_END: Mapping[str, Callable[[date], date]] = {ORDERS.name: one_month_after}
"""The latest `end_date` that goes with a `start_date`, by the name of the dataset; any where none is listed."""
