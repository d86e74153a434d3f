"""Tests that an account that is not read fails the check `is_fresh` of its datasets alone, and Dagster's policies."""

from collections.abc import Iterator
from datetime import timedelta

import dagster as dg
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.assets.reporting import SENSOR, check_definitions
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import newest_checks
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts
from seller_platform_tests.support.ticks import tick

ORDERS, INVENTORY, BY_DATE = (dataset_named(name) for name in ("orders", "inventory", "sales_by_date"))
TODAY = Window.day(utc_now().date())
MONTH = Window.month_of(TODAY.start)
EARLIER = Window.month_of(MONTH.start - timedelta(days=1))
US, JP = "us-1", "jp-2"


class Readings:
    """Accounts with readings."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def discover(self, key: str, zone: str, *, days_ago: int = 90) -> None:
        others = [(each.key, each.account) for each in accounts(self.database)]
        connect_accounts(self.database, [*others, (key, Account(1, key, None, None, zone, "M", "S"))])
        seen = "UPDATE platform.accounts SET first_seen_at = now() - :days * interval '1 day' WHERE key = :key"
        self.database.execute(text(seen), {"key": key, "days": days_ago})

    def age(self, *keys: str) -> None:
        """Let the readings of accounts be 27 hours old."""
        aged = "SET read_at = now() - interval '27 hours', current_at = now() - interval '27 hours'"
        self.database.execute(text(f"UPDATE platform.slices {aged} WHERE account = ANY (:keys)"), {"keys": [*keys]})

    def late(self, dataset: Dataset = ORDERS) -> dict[str, str]:
        """Return the accounts that the table of the check names, with the reason."""
        (check,) = [each for each in judgements(self.database, dataset) if each.check_name == "is_fresh"]
        table = check.metadata.get("failing")
        records = table.records if isinstance(table, dg.TableMetadataValue) else []
        assert check.passed is not bool(records)
        return {str(each.data["account"]): str(each.data["reason"]) for each in records}


@pytest.fixture
def readings(database: Database) -> Iterator[Readings]:
    keep_history_start(database, MONTH.start)
    opened = Readings(database)
    for account, zone in ((US, "America/New_York"), (JP, "Asia/Tokyo")):
        opened.discover(account, zone)
        mark_loaded(database, ORDERS, account, MONTH)
        mark_loaded(database, INVENTORY, account, TODAY)
    yield opened


def test_an_account_that_is_not_read_fails_alone_and_recovers(readings: Readings) -> None:
    fresh = readings.late()
    readings.age(US)
    late = readings.late(), readings.late(INVENTORY)
    mark_loaded(readings.database, ORDERS, US, MONTH)

    assert fresh == {}
    assert [[*each] for each in late] == [[US], [US]]
    assert late[0][US].startswith("It was not read up to the present day for more than 26 hours.")
    assert (readings.late(), [*readings.late(INVENTORY)]) == ({}, [US])


def test_new_accounts_have_a_day_and_retired_ones_are_not_expected(readings: Readings) -> None:
    readings.discover("de-3", "Europe/Berlin", days_ago=0)
    new = readings.late()
    readings.discover("de-3", "Europe/Berlin", days_ago=2)
    # Only a reading of recent days makes an account fresh. One that is held is another problem.
    readings.age(US, JP)
    mark_loaded(readings.database, ORDERS, US, EARLIER)
    store_receipt(readings.database, ORDERS, JP, MONTH, verdict="held", notes={"held": {"reason": "no row was read"}})
    never_read = readings.late()

    assert (new, {*never_read}, {*readings.late(INVENTORY)}) == ({}, {"de-3", US}, {"de-3", JP, US})
    assert never_read["de-3"] == "It was never loaded."
    readings.database.execute(text("UPDATE platform.accounts SET retired_at = now() WHERE key = 'de-3'"))
    assert [*readings.late()] == [US]


def test_what_is_not_offered_is_not_expected(readings: Readings) -> None:
    before = readings.late(BY_DATE)
    mark_loaded(readings.database, BY_DATE, US, MONTH)
    readings.age(US, JP)

    assert (before, {*readings.late(BY_DATE)}) == ({}, {JP, US})


def test_the_sensor_looks_each_hour_whether_slices_are_late(readings: Readings, database_url: str) -> None:
    resources = dg.Definitions(resources={"warehouse": WarehouseResource(database_url=database_url)})
    definitions = dg.Definitions.merge(check_definitions([ORDERS]), resources)
    with dg.DagsterInstance.ephemeral() as instance:
        first = tick(definitions, SENSOR, instance)
        before = newest_checks(instance, ORDERS)["is_fresh"].passed
        with time_machine.travel(utc_now() + timedelta(hours=1)):
            readings.age(US)  # no load has changed the slice
            tick(definitions, SENSOR, instance, first.cursor)
        after = newest_checks(instance, ORDERS)["is_fresh"].passed

    assert (before, after) == (True, False)


@pytest.mark.parametrize(
    ("name", "hours"), [("accounts", (3, 12)), ("orders", (26, 50)), ("inventory", (26, 50)), ("report_rows", None)]
)
def test_the_daemon_gets_a_policy_of_freshness_for_each_dataset(name: str, hours: tuple[int, int] | None) -> None:
    policy = freshness_for(dataset_named(name))

    warn, fail = (timedelta(hours=each) for each in hours) if hours else (None, None)
    assert policy == (dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn) if fail and warn else None)
