"""Tests that an account that is not read fails the check of its freshness, and no other, and Dagster's policies."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.assets.freshness import FRESHNESS, SENSOR, check_name_of, freshness_definitions
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts
from seller_platform_tests.support.ticks import tick

ORDERS, INVENTORY, BY_DATE = (dataset_named(name) for name in ("orders", "inventory", "sales_by_date"))
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
TODAY = Window(date(2026, 3, 10), date(2026, 3, 11))
MARCH_SO_FAR = Window(date(2026, 3, 1), date(2026, 3, 11))
US, JP = "us-1", "jp-2"


class Freshness:
    """Accounts with readings, and the sensor over them."""

    def __init__(
        self, database: Database, url: str, instance: dg.DagsterInstance, datasets: tuple[Dataset, ...]
    ) -> None:
        self.database, self.instance, self.now = database, instance, NOON
        self.cursor: str | None = None
        self.last_event = 0
        self.resources = {"warehouse": WarehouseResource(database_url=url)}
        self.definitions = dg.Definitions.merge(
            freshness_definitions(datasets=datasets, clock=lambda: self.now), dg.Definitions(resources=self.resources)
        )

    def discover(self, key: str, zone: str, seen: datetime) -> None:
        others = [(each.key, each.account) for each in accounts(self.database)]
        connect_accounts(self.database, [*others, (key, Account(1, key, None, None, zone, "M", "S"))])
        with self.database.begin() as connection:
            statement = text("UPDATE platform.accounts SET first_seen_at = :seen WHERE key = :key")
            connection.execute(statement, {"key": key, "seen": seen})
        add_accounts(self.instance, [key])

    def read(self, dataset: Dataset, account: str, window: Window, at: datetime, verdict: str = "match") -> None:
        store_receipt(self.database, dataset, account, window, at=at, verdict=verdict)

    def tick(self) -> dict[str, dg.AssetCheckEvaluation]:
        """Evaluate the sensor, and return what it reports."""
        self.cursor = tick(self.definitions, SENSOR, self.instance, self.cursor, self.resources).cursor
        kind = dg.EventRecordsFilter(dg.DagsterEventType.ASSET_CHECK_EVALUATION, after_cursor=self.last_event)
        records = self.instance.event_log_storage.get_event_records(kind)
        self.last_event = max((each.storage_id for each in records), default=self.last_event)
        evaluations = [each.event_log_entry.get_dagster_event().asset_check_evaluation_data for each in records]
        return {each.check_name: each for each in evaluations}

    def execute(self, checks: Sequence[dg.AssetCheckKey]) -> Sequence[dg.AssetCheckEvaluation]:
        """Run checks alone, as the UI and the sensor do."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        chosen = job.get_subset(asset_selection=set(), asset_check_selection=set(checks))
        return chosen.execute_in_process(instance=self.instance).get_asset_check_evaluations()


@pytest.fixture
def freshness(database: Database, database_url: str) -> Iterator["Freshness"]:
    with dg.DagsterInstance.ephemeral() as instance:
        opened = Freshness(database, database_url, instance, (ORDERS, INVENTORY, BY_DATE))
        opened.discover(US, "America/New_York", NOON - timedelta(days=90))
        opened.discover(JP, "Asia/Tokyo", NOON - timedelta(days=90))
        for account in (US, JP):
            opened.read(ORDERS, account, MARCH_SO_FAR, NOON - timedelta(hours=1))
            opened.read(INVENTORY, account, TODAY, NOON - timedelta(hours=1))
        yield opened


def test_an_account_that_is_not_read_fails_alone_with_its_age_and_recovers(freshness: Freshness) -> None:
    fresh = freshness.tick()
    freshness.now = NOON + timedelta(hours=26)
    freshness.read(ORDERS, JP, Window(date(2026, 3, 1), date(2026, 3, 12)), freshness.now - timedelta(hours=2))
    freshness.read(INVENTORY, JP, Window(date(2026, 3, 11), date(2026, 3, 12)), freshness.now - timedelta(hours=2))
    late = freshness.tick()
    repeated = freshness.tick()
    freshness.read(ORDERS, US, Window(date(2026, 3, 1), date(2026, 3, 12)), freshness.now)
    recovered = freshness.tick()

    orders, inventory = check_name_of(ORDERS), check_name_of(INVENTORY)
    assert {name: each.passed for name, each in fresh.items()} == dict.fromkeys(fresh, True)
    assert {name: each.passed for name, each in late.items() if not each.passed} == {orders: False, inventory: False}
    assert {name: late[orders].metadata[name].value for name in ("accounts", "late_accounts", "oldest_hours")} == {
        "accounts": 2,
        "late_accounts": 1,
        "oldest_hours": 27.0,
    }
    assert str(late[orders].description).startswith(
        "1 of 2 accounts breaks this rule: seller.orders of every account was read within 26 hours. It is us-1: it "
        "was last read at 2026-03-10 11:00 UTC, 27 hours ago; the schedule reads it every day."
    )
    assert repeated == {}
    assert (recovered[orders].passed, inventory in recovered) == (True, False)


def _late(reported: dict[str, dg.AssetCheckEvaluation], dataset: Dataset = ORDERS) -> list[str]:
    """Return the accounts that the table of a check names."""
    table = reported[check_name_of(dataset)].metadata.get("failing")
    return [str(each.data["account"]) for each in table.records] if isinstance(table, dg.TableMetadataValue) else []


def test_new_accounts_have_a_day_and_retired_ones_are_not_expected(freshness: Freshness) -> None:
    freshness.discover("de-3", "Europe/Berlin", NOON)
    new = freshness.tick()
    freshness.now = NOON + timedelta(hours=30)
    # Only a reading of recent days, which is not held, makes an account fresh.
    freshness.read(ORDERS, US, Window(date(2026, 1, 1), date(2026, 2, 1)), freshness.now)
    freshness.read(ORDERS, JP, Window(date(2026, 3, 1), date(2026, 3, 12)), freshness.now, verdict="held")
    never_read = freshness.tick()
    with freshness.database.begin() as connection:
        connection.execute(text("UPDATE platform.accounts SET retired_at = now() WHERE key = 'de-3'"))
    retired = freshness.tick()

    assert _late(new) == []
    assert set(_late(never_read)) == {US, JP, "de-3"}
    assert "was never read since the account was discovered" in str(
        never_read[check_name_of(ORDERS)].metadata["failing"].value
    )
    assert set(_late(retired)) == {US, JP}


def test_what_is_not_offered_is_not_expected_also_by_an_executed_check(
    freshness: Freshness,
) -> None:
    before = freshness.tick()
    freshness.read(BY_DATE, US, MARCH_SO_FAR, NOON - timedelta(days=2, hours=1))
    offered = freshness.tick()
    freshness.now = NOON + timedelta(hours=30)
    (executed,) = freshness.execute([dg.AssetCheckKey(FRESHNESS, check_name_of(ORDERS))])

    assert before[check_name_of(BY_DATE)].metadata["accounts"].value == 0
    assert _late(offered, BY_DATE) == [US]
    assert (executed.passed, executed.partition, executed.metadata["late_accounts"].value) == (False, None, 2)


@pytest.mark.parametrize(
    ("name", "hours"), [("accounts", (3, 12)), ("orders", (26, 50)), ("inventory", (26, 50)), ("report_rows", None)]
)
def test_the_daemon_gets_a_policy_of_freshness_for_each_dataset(name: str, hours: tuple[int, int] | None) -> None:
    policy = freshness_for(dataset_named(name))

    warn, fail = (timedelta(hours=each) for each in hours) if hours else (None, None)
    assert policy == (dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn) if fail and warn else None)
