"""Tests what is due for a schedule and for a person."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from seller_platform.contract import LISTS, Dataset, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.orchestration.automation.due import plan_refresh
from seller_platform.orchestration.automation.runs import PlannedRun
from seller_platform.warehouse.loads.receipts import AccountDay
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.orchestration.automation.test_schedules import read

ORDERS, SALES_BY_DATE, INVENTORY = map(dataset_named, ("orders", "sales_by_date", "inventory"))
SINCE = date(2026, 1, 1)
NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
TODAY = [AccountDay.at(NOON, "A.DE", ZoneInfo("Europe/Berlin"))]


def plan(database: Database, *datasets: Dataset, scheduled: bool = False) -> list[PlannedRun]:
    return plan_refresh(database, datasets, TODAY, listed=["A.DE"], since=SINCE, scheduled=scheduled)


def test_a_person_can_read_today_again(database: Database) -> None:
    read(database, ["orders"], "A.DE", Window(SINCE, date(2026, 5, 21)), NOON)

    assert plan(database, ORDERS, scheduled=True) == []
    (run,) = plan(database, ORDERS)
    assert (run.first, run.last, run.slices) == ("A.DE|2026-04-01", "A.DE|2026-05-01", 2)


def test_a_person_gets_every_month_of_rows_that_an_upstream_may_compute(database: Database) -> None:
    (requested,) = plan(database, SALES_BY_DATE)
    (scheduled,) = plan(database, SALES_BY_DATE, scheduled=True)

    assert (requested.first, requested.slices) == ("A.DE|2026-01-01", 5)
    assert (scheduled.first, scheduled.slices) == ("A.DE|2026-05-01", 1)


def test_snapshots_come_first_and_what_follows_the_inventory_last(database: Database) -> None:
    runs = plan(database, COST_PERIODS, *LISTS)

    assert INVENTORY in runs[0].datasets
    assert ORDERS in runs[1].datasets
    assert runs[-1].datasets == (COST_PERIODS,)
    assert sum(run.slices for run in runs) == sum(5 if each.is_dated else 1 for each in (COST_PERIODS, *LISTS))
