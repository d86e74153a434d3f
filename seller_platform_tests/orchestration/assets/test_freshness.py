"""Tests when `is_fresh` is judged, Dagster's policies of freshness, and the asset that shows what is covered."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.clocks import using_clock, utc_now
from seller_platform.contract import REFRESHED, Account, Window, dataset_named
from seller_platform.orchestration.assets.coverage import COVERAGE, coverage_definitions
from seller_platform.orchestration.assets.events import freshness_for
from seller_platform.orchestration.assets.reporting import SENSOR, check_definitions
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.monitoring.slice_states import SliceState
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.platform import newest_checks
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts
from seller_platform_tests.support.ticks import tick

ORDERS, STOCK = dataset_named("orders"), dataset_named("warehouse_stock")
KEYS = ("us-1", "us-2")
NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


def _connect(database: Database, since: date) -> None:
    shops = [
        (key, Account(number, f"Shop <{number}> \x07", "US", "USD", "America/New_York", "US", "S"))
        for number, key in enumerate(KEYS)
    ]
    connect_accounts(database, shops)
    keep_history_start(database, since)


def test_the_sensor_looks_each_hour_whether_slices_are_late(database: Database, database_url: str) -> None:
    month = Window.month_of(utc_now().date())
    _connect(database, month.start)
    database.execute(text("UPDATE platform.accounts SET first_seen_at = now() - interval '27 hours'"))
    for key in KEYS:
        mark_loaded(database, ORDERS, key, month)
    resources = dg.Definitions(resources={"warehouse": WarehouseResource(database_url=database_url)})
    definitions = dg.Definitions.merge(check_definitions([ORDERS]), resources)
    with dg.DagsterInstance.ephemeral() as instance:
        first = tick(definitions, SENSOR, instance)
        before = newest_checks(instance, ORDERS)["is_fresh"].passed
        with time_machine.travel(utc_now() + timedelta(hours=1)):  # no load has changed the slice
            aged = "UPDATE platform.slices SET current_at = now() - interval '27 hours' WHERE account = 'us-1'"
            database.execute(text(aged))
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


def test_the_asset_shows_how_many_slices_are_in_each_state(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    _connect(database, date(2026, 1, 1))
    resources = dg.Definitions(resources={"warehouse": WarehouseResource(database_url=database_url)})
    definitions = dg.Definitions.merge(coverage_definitions(), resources)

    def show(instance: dg.DagsterInstance) -> int:
        with using_clock(lambda: NOW):
            events = tick(definitions, "coverage", instance).asset_events
        for event in events:
            instance.report_runless_asset_event(event)
        return len(events)

    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        before = show(instance)
        for key in KEYS:
            store_receipt(database, ORDERS, key, Window.month_of(NOW.date()), at=NOW)
            store_receipt(database, STOCK, key, Window.day(date(2026, 3, 1)), at=NOW - timedelta(days=19))
        due, afterwards = show(instance), show(instance)
        event = instance.get_latest_materialization_event(COVERAGE)

    assert (before, due, afterwards) == (0, 1, 0)
    assert event is not None
    assert event.asset_materialization is not None
    metadata: dict[str, Any] = {name: each.value for name, each in event.asset_materialization.metadata.items()}
    slices = 2 * sum(3 if dataset.is_dated else 1 for dataset in REFRESHED if not dataset.is_computed)
    assert (metadata["accounts"], metadata["slices"], metadata["slices_loaded"]) == (2, slices, 2)
    assert (metadata["slices_late"], metadata["slices_missing"]) == (2, slices - 4)
    assert sum(metadata[f"slices_{state}"] for state in SliceState) == slices
    rows = [{**record.data} for record in metadata["worst_accounts"].records]
    assert [row.pop("account")[:8] for row in rows] == ["Shop <0>", "Shop <1>"]
    assert rows == [{state: metadata[f"slices_{state}"] // 2 for state in SliceState}] * 2
