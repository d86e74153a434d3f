"""Tests that an account that is not read fails the check of its freshness, and no other, and Dagster's policies."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.assets.freshness import FRESHNESS, SENSOR, check_name_of, freshness_definitions
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts
from seller_platform_tests.support.ticks import tick

ORDERS, INVENTORY, BY_DATE = (dataset_named(name) for name in ("orders", "inventory", "sales_by_date"))
TODAY = Window.day(utc_now().date())
MONTH = Window.month_of(TODAY.start)
EARLIER = Window.month_of(MONTH.start - timedelta(days=1))
US, JP = "us-1", "jp-2"


class Freshness:
    """Accounts with readings, and the sensor over them."""

    def __init__(self, database: Database, url: str, instance: dg.DagsterInstance) -> None:
        self.database, self.instance = database, instance
        self.cursor: str | None = None
        self.last_event = 0
        self.resources = {"warehouse": WarehouseResource(database_url=url)}
        self.definitions = dg.Definitions.merge(
            freshness_definitions(datasets=(ORDERS, INVENTORY, BY_DATE)), dg.Definitions(resources=self.resources)
        )

    def execute_sql(self, statement: str, **values: object) -> None:
        self.database.execute(text(statement), values)

    def discover(self, key: str, zone: str, *, days_ago: int = 90) -> None:
        others = [(each.key, each.account) for each in accounts(self.database)]
        connect_accounts(self.database, [*others, (key, Account(1, key, None, None, zone, "M", "S"))])
        seen = "UPDATE platform.accounts SET first_seen_at = now() - :days * interval '1 day' WHERE key = :key"
        self.execute_sql(seen, key=key, days=days_ago)
        add_accounts(self.instance, [key])

    def age(self, *keys: str) -> None:
        """Let the readings of accounts be 27 hours old."""
        aged = "SET read_at = now() - interval '27 hours', current_at = now() - interval '27 hours'"
        self.execute_sql(f"UPDATE platform.slices {aged} WHERE account = ANY (:keys)", keys=list(keys))

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
    keep_history_start(database, MONTH.start)
    with dg.DagsterInstance.ephemeral() as instance:
        opened = Freshness(database, database_url, instance)
        for account, zone in ((US, "America/New_York"), (JP, "Asia/Tokyo")):
            opened.discover(account, zone)
            mark_loaded(database, ORDERS, account, MONTH)
            mark_loaded(database, INVENTORY, account, TODAY)
        yield opened


def _late(reported: Mapping[str, dg.AssetCheckEvaluation], dataset: Dataset = ORDERS) -> list[str]:
    """Return the accounts that the table of a check names."""
    table = reported[check_name_of(dataset)].metadata.get("failing")
    records = table.records if isinstance(table, dg.TableMetadataValue) else []
    return sorted(str(each.data["account"]) for each in records)


def test_an_account_that_is_not_read_fails_alone_and_recovers(freshness: Freshness) -> None:
    fresh = freshness.tick()
    freshness.age(US)
    late = freshness.tick()
    repeated = freshness.tick()
    mark_loaded(freshness.database, ORDERS, US, MONTH)
    recovered = freshness.tick()

    orders, inventory = check_name_of(ORDERS), check_name_of(INVENTORY)
    assert {name: each.passed for name, each in fresh.items()} == dict.fromkeys(fresh, True)
    assert {name: each.passed for name, each in late.items() if not each.passed} == {orders: False, inventory: False}
    assert [late[orders].metadata[name].value for name in ("accounts", "late_accounts")] == [2, 1]
    assert str(late[orders].description).startswith(
        "1 of 2 accounts breaks this rule: seller.orders of every account was read within 26 hours, with each day of "
        "its history. It is us-1: It was not read up to the present day for more than 26 hours."
    )
    assert repeated == {}
    assert (recovered[orders].passed, inventory in recovered) == (True, False)


def test_new_accounts_have_a_day_and_retired_ones_are_not_expected(freshness: Freshness) -> None:
    freshness.discover("de-3", "Europe/Berlin", days_ago=0)
    new = freshness.tick()
    freshness.discover("de-3", "Europe/Berlin", days_ago=2)
    # Only a reading of recent days makes an account fresh. One that is held is another problem.
    freshness.age(US, JP)
    mark_loaded(freshness.database, ORDERS, US, EARLIER)
    store_receipt(freshness.database, ORDERS, JP, MONTH, verdict="held", notes={"held": {"reason": "no row was read"}})
    never_read = freshness.tick()
    freshness.execute_sql("UPDATE platform.accounts SET retired_at = now() WHERE key = 'de-3'")
    retired = freshness.tick()

    assert _late(new) == []
    assert (_late(never_read), _late(never_read, INVENTORY)) == (["de-3", US], ["de-3", JP, US])
    assert "It was never loaded." in str(never_read[check_name_of(ORDERS)].metadata["failing"].value)
    assert _late(retired) == [US]


def test_what_is_not_offered_is_not_expected_also_by_an_executed_check(freshness: Freshness) -> None:
    before = freshness.tick()
    mark_loaded(freshness.database, BY_DATE, US, MONTH)
    freshness.age(US, JP)
    offered = freshness.tick()
    (executed,) = freshness.execute([dg.AssetCheckKey(FRESHNESS, check_name_of(ORDERS))])

    assert before[check_name_of(BY_DATE)].metadata["accounts"].value == 0
    assert _late(offered, BY_DATE) == [JP, US]
    assert (executed.passed, executed.partition, executed.metadata["late_accounts"].value) == (False, None, 2)


@pytest.mark.parametrize(
    ("name", "hours"), [("accounts", (3, 12)), ("orders", (26, 50)), ("inventory", (26, 50)), ("report_rows", None)]
)
def test_the_daemon_gets_a_policy_of_freshness_for_each_dataset(name: str, hours: tuple[int, int] | None) -> None:
    policy = freshness_for(dataset_named(name))

    warn, fail = (timedelta(hours=each) for each in hours) if hours else (None, None)
    assert policy == (dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn) if fail and warn else None)
