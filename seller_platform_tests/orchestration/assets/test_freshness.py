"""Tests the checks `is_fresh`, Dagster's policies of freshness, and the asset that shows what is covered."""

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import dagster as dg
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.clocks import using_clock, utc_now
from seller_platform.contract import REFRESHED, Account, Dataset, Window, dataset_named
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.orchestration.assets.coverage import COVERAGE, coverage_definitions, metadata_of
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.assets.reporting import SENSOR, check_definitions
from seller_platform.orchestration.charts import COLOURS, MOST_ACCOUNTS
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.monitoring.slice_states import SliceState, slice_states
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


STOCK = dataset_named("warehouse_stock")
SINCE, NOW = date(2026, 1, 1), datetime(2026, 3, 20, 12, tzinfo=UTC)
MONTHS = [date(2026, month, 1) for month in (1, 2, 3)]
OFFERED = [dataset for dataset in REFRESHED if not dataset.is_computed]


def _accounts(database: Database, count: int) -> None:
    listed = [
        (f"us-{1000 + number}", Account(number, f"Shop <{number}> \x07", "US", "USD", "America/New_York", "US", "S"))
        for number in range(count)
    ]
    connect_accounts(database, listed)
    keep_history_start(database, SINCE)


def _load(database: Database, dataset: str, first: date, last: date, *, at: datetime = NOW) -> None:
    """Store a receipt of these days, the last one included, for every account."""
    for account in accounts(database):
        window = Window(first, last + timedelta(days=1))
        store_receipt(database, dataset_named(dataset), account.key, window, at=at, rows=1)


def test_the_heat_map_shows_the_worst_accounts_and_says_what_it_leaves_out(database: Database) -> None:
    _accounts(database, 60)
    for dataset in OFFERED:
        days = (MONTHS[2], date(2026, 3, 31)) if dataset.is_dated else (NOW.date(), NOW.date())
        _load(database, dataset.name, *days, at=datetime.now(UTC))
    database.execute(text("DELETE FROM platform.slices WHERE dataset = 'orders' AND account = 'us-1059'"))

    metadata: Mapping[str, Any] = metadata_of(slice_states(database, since=MONTHS[2], now=NOW), NOW)
    svg = b64decode(re.findall(r"base64,([^)]+)\)", metadata["heat_map"].value)[0]).decode()

    assert metadata["accounts"] == 60
    assert "60 accounts, 1 with slices that are not loaded" in metadata["heat_map"].value
    assert f"The {MOST_ACCOUNTS} with most such slices are shown; 20 are left out, 0 of them" in svg
    assert len(svg) < 200_000
    ET.fromstring(svg)  # our own SVG
    assert svg.index("Shop &lt;59&gt;") < svg.index("Shop &lt;0&gt;")


def test_every_state_of_a_slice_has_a_colour_in_the_heat_map() -> None:
    assert {*COLOURS} == {*SliceState}


def test_the_asset_shows_how_many_slices_are_in_each_state(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    _accounts(database, 2)
    resources = {"warehouse": WarehouseResource(database_url=database_url)}
    definitions = dg.Definitions.merge(coverage_definitions(), dg.Definitions(resources=resources))
    sensor = definitions.resolve_sensor_def("coverage")

    def tick(instance: dg.DagsterInstance) -> int:
        with dg.build_sensor_context(instance, resources=resources) as context, using_clock(lambda: NOW):
            events = sensor.evaluate_tick(context).asset_events
        for event in events:
            instance.report_runless_asset_event(event)
        return len(events)

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        before = tick(instance)
        _load(database, "orders", MONTHS[2], date(2026, 3, 31))
        _load(database, STOCK.name, MONTHS[2], MONTHS[2], at=NOW - timedelta(days=19))
        due, afterwards = tick(instance), tick(instance)
        event = instance.get_latest_materialization_event(COVERAGE)

    assert (before, due, afterwards) == (0, 1, 0)
    assert event is not None
    assert event.asset_materialization is not None
    metadata: dict[str, Any] = {name: each.value for name, each in event.asset_materialization.metadata.items()}
    slices = 2 * sum(3 if dataset.is_dated else 1 for dataset in OFFERED)
    assert (metadata["accounts"], metadata["slices"], metadata["slices_loaded"]) == (2, slices, 2)
    assert (metadata["slices_late"], metadata["slices_missing"]) == (2, slices - 4)
    assert sum(metadata[f"slices_{state}"] for state in SliceState) == slices
