"""What is true of the list of one dataset only."""

import calendar
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime

from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS, TRANSACTIONS
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.http.parameters import Parameter
from seller_platform.service.lists.replica import Need
from seller_platform.service.lists.sql import PageSource
from seller_platform.service.lists.velocity import (
    VELOCITY_END,
    VELOCITY_RULES,
    VELOCITY_START,
    velocity_needs,
    velocity_source,
)


def one_month_after(day: date) -> date:
    """Return the same day of the next month, or that month's last day where it has no such day."""
    year, month = (day.year, day.month + 1) if day.month < 12 else (day.year + 1, 1)
    if year > date.max.year:
        return date.max
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


LATEST_END: Mapping[str, Callable[[date], date]] = {ORDERS.name: one_month_after}
"""The latest `end_date` that goes with a `start_date`, by the name of the dataset; any where none is listed."""

OWN_DAYS: Mapping[str, tuple[Parameter[date], ...]] = {INVENTORY.name: (VELOCITY_START, VELOCITY_END)}
"""Parameters that only this dataset's list takes, by the name of the dataset."""

RULES: Mapping[str, str] = {
    ORDERS.name: "`end_date` may be at most one calendar month after `start_date`; what follows 31 January is the last "
    "day of February. Without `sales_channel` the list has the orders of all channels.",
    DAILY_PRODUCT_SALES.name: "Without `sales_channel` the list has a row for each channel in which a SKU was sold.",
    TRANSACTIONS.name: "Two entries may be equal in every field; both are true, and count.",
    INVENTORY.name: VELOCITY_RULES,
}
"""What a caller of this dataset's list must know, by the name of the dataset."""

OWN_NEEDS: Mapping[str, Callable[[SelectedAccounts, Mapping[str, date | None], datetime], Sequence[Need]]] = {
    INVENTORY.name: velocity_needs
}
"""What the list is made of beside its own rows, by those parameters."""

SOURCES: Mapping[str, Callable[[SelectedAccounts, Mapping[str, date | None], datetime], PageSource | None]] = {
    INVENTORY.name: velocity_source
}
"""What makes the pages of a list from those parameters, where it is not the stored rows themselves."""
