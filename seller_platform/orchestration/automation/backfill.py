"""Plans the runs of a load that a person asks for: whole months, or what may have changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from seller_platform.contract import Dataset, Source, Window
from seller_platform.orchestration.automation.due import plan_refresh
from seller_platform.orchestration.automation.runs import PlannedRun, plan_runs
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


def plan_load(
    database: Database, request: LoadRequest, *, now: datetime, listed: Sequence[str], adaptive: bool
) -> list[PlannedRun]:
    """Return the runs that load the requested slices, newest months first.

    Args:
        listed: Every account partition, in Dagster's order.
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
    """
    # The loads of an account without a zone fail by name.
    days = [
        AccountDay.at(now, each.key, each.zone_or_utc) for each in accounts(database) if each.key in request.accounts
    ]
    daily = [each for each in request.datasets if each.source is Source.PRODUCT_LOOKUP and not request.lookups_too]
    others = [each for each in request.datasets if each not in daily]

    def refresh(datasets: Sequence[Dataset], *, scheduled: bool = False) -> list[PlannedRun]:
        return plan_refresh(
            database, datasets, days, listed=listed, since=request.since, scheduled=scheduled, adaptive=adaptive
        )

    if request.months is None:
        planned = refresh(others)
    else:
        planned = list(plan_runs(others, request.accounts, request.months, listed=listed))
    # Last, because the products are those of the inventory; and as by a schedule, which reads nothing twice on a day.
    return [*planned, *refresh(daily, scheduled=True)]
