"""The slices that a person asks for: whole months, or what may have changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from seller_platform.contract import Dataset, Source, Window
from seller_platform.ingest.loads.due_slices import Division, DueSlice, divide, due_slices, slices_of_months
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.receipts import AccountDay
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class LoadRequest:
    """The slices that a person asks for.

    Attributes:
        accounts: The keys of the accounts.
        since: The first day of history.
        months: The months to read as a whole, oldest first; None for what may have changed.
        lookups_too: Datasets that take a request for each product are read again, even if they were read today.
    """

    datasets: Sequence[Dataset]
    accounts: Sequence[str]
    since: date
    months: Sequence[Window] | None = None
    lookups_too: bool = True


def divide_load(
    database: Database, request: LoadRequest, *, now: datetime, adaptive: bool, requests_per_day: int | None
) -> Division:
    """Divide the requested slices into those that the requests of today suffice for, and those for later.

    Args:
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    slices = requested_slices(database, request, now=now, adaptive=adaptive, ranked=requests_per_day is not None)
    return divide(database, slices, requests_per_day=requests_per_day, now=now)


def requested_slices(
    database: Database, request: LoadRequest, *, now: datetime, adaptive: bool, ranked: bool = False
) -> list[DueSlice]:
    """Return the slices that a request asks for, by dataset.

    Args:
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
        ranked: Tell slices that are read in the background from the others; otherwise none counts as such.
    """
    # The loads of an account without a zone fail by name.
    days = [
        AccountDay.at(now, each.key, each.zone_or_utc) for each in accounts(database) if each.key in request.accounts
    ]
    daily = [each for each in request.datasets if each.source is Source.PRODUCT_LOOKUP and not request.lookups_too]
    others = [each for each in request.datasets if each not in daily]

    def due(datasets: Sequence[Dataset], *, scheduled: bool = False) -> list[DueSlice]:
        return due_slices(
            database, datasets, days, since=request.since, scheduled=scheduled, adaptive=adaptive, ranked=ranked
        )

    if request.months is None:
        slices = due(others)
    else:
        slices = slices_of_months(database, others, days, request.months, ranked=ranked)
    # Last, because the products are those of the inventory; and as by a schedule, which reads nothing twice on a day.
    return [*slices, *due(daily, scheduled=True)]
