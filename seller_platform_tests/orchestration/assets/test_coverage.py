"""Tests the asset of coverage, its heat map and its schedule."""

import re
from base64 import b64decode
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import REFRESHED, Account, Window, dataset_named
from seller_platform.orchestration.assets.coverage import COVERAGE, coverage_definitions, metadata_of
from seller_platform.orchestration.charts.heat_map import MOST_ACCOUNTS
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.monitoring.slice_states import SliceState, slice_states
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

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


def _svg(metadata: Mapping[str, Any]) -> str:
    encoded = re.search(r"base64,([^)]+)\)", metadata["heat_map"].value)
    assert encoded is not None
    return b64decode(encoded[1]).decode()


def test_the_heat_map_shows_the_worst_accounts_and_says_what_it_leaves_out(database: Database) -> None:
    _accounts(database, 60)
    for dataset in OFFERED:
        days = (MONTHS[2], date(2026, 3, 31)) if dataset.is_dated else (NOW.date(), NOW.date())
        _load(database, dataset.name, *days, at=datetime.now(UTC))
    database.execute(text("DELETE FROM platform.slices WHERE dataset = 'orders' AND account = 'us-1059'"))

    metadata: Mapping[str, Any] = metadata_of(slice_states(database, since=MONTHS[2], now=NOW), NOW)
    svg = _svg(metadata)

    assert metadata["accounts"] == 60
    assert "60 accounts, 1 with slices that are not loaded" in metadata["heat_map"].value
    assert f"The {MOST_ACCOUNTS} with most such slices are shown; 20 are left out, 0 of them" in svg
    assert len(svg) < 200_000
    ET.fromstring(svg)  # our own SVG
    assert svg.index("Shop &lt;59&gt;") < svg.index("Shop &lt;0&gt;")


def test_the_asset_shows_how_many_slices_are_in_each_state(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    _accounts(database, 2)
    resources = {"warehouse": WarehouseResource(database_url=database_url)}
    definitions = dg.Definitions.merge(coverage_definitions(clock=lambda: NOW), dg.Definitions(resources=resources))
    sensor = definitions.resolve_sensor_def("coverage")

    def tick(instance: dg.DagsterInstance) -> int:
        with dg.build_sensor_context(instance, resources=resources) as context:
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
