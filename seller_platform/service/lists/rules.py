"""What only one list has, in one record for each dataset: parameters, bounds, notes."""

import calendar
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime

from seller_platform.contract import Dataset
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES, ORDERS, TRANSACTIONS
from seller_platform.service.access import SelectedAccounts
from seller_platform.service.http.parameters import Parameter
from seller_platform.service.lists.page_queries import PageSource
from seller_platform.service.lists.velocity import VELOCITY_END, VELOCITY_RULES, VELOCITY_START, velocity_source

SourceOf = Callable[[SelectedAccounts, Mapping[str, date | None], datetime], PageSource | None]


@dataclass(frozen=True)
class ListRules:
    """What only the list of one dataset has.

    Attributes:
        notes: What a caller must know beside parameters and fields.
        latest_end: Returns the latest `end_date` that goes with a `start_date`; without it, any may be sent.
        parameters: Parameters that only this list takes; `source` receives their values, by name.
        source: Returns what makes the pages, or None where the stored rows do.
    """

    dataset: Dataset
    notes: str = ""
    latest_end: Callable[[date], date] | None = None
    parameters: tuple[Parameter[date], ...] = ()
    source: SourceOf | None = None


def rules_for(dataset: Dataset) -> ListRules:
    """Return the rules of a dataset's list, which are empty for most."""
    return next((rules for rules in _RULES if rules.dataset.name == dataset.name), ListRules(dataset))


def one_month_after(day: date) -> date:
    """Return the same day of the next month, or that month's last day."""
    year, month = (day.year, day.month + 1) if day.month < 12 else (day.year + 1, 1)
    if year > date.max.year:
        return date.max
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


_RULES = (
    ListRules(
        ORDERS,
        "`end_date` may be at most one calendar month after `start_date`; what follows 31 January is the last "
        "day of February. Without `sales_channel` the list has the orders of all channels.",
        latest_end=one_month_after,
    ),
    ListRules(
        DAILY_PRODUCT_SALES,
        "Without `sales_channel` the list has one row for each day and SKU, in which both channels are added.",
    ),
    ListRules(TRANSACTIONS, "Two entries may be equal in every field; both are true, and count."),
    ListRules(INVENTORY, VELOCITY_RULES, parameters=(VELOCITY_START, VELOCITY_END), source=velocity_source),
)
