"""Tests that runs and schedules keep the requests of a day, and finish over days what did not fit."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import delete

from seller_platform.contract import dataset_named
from seller_platform.orchestration.tags import EXIT_CODE
from seller_platform.warehouse.connections.sent_requests import requests_sent
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import SENT_REQUESTS
from seller_platform_tests.orchestration.automation.test_schedules import tick
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import Platform, open_platform

pytestmark = [pytest.mark.slow, pytest.mark.dagster_tables]

BUDGET = 24
LEDGER, ORDERS = dataset_named("transactions"), dataset_named("orders")
AT = datetime(2026, 3, 20, 11, tzinfo=UTC)
MONTHS = {f"{key}|{month}" for key in independent_upstream.KEYS.values() for month in independent_upstream.MONTHS}


@pytest.fixture
def platform(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Platform]:
    """A connection with a budget, whose accounts are discovered."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", str(BUDGET))
    with (
        postgres_instance(database_url, tmp_path) as instance,
        open_platform(database, database_url, tmp_path, instance) as opened,
    ):
        opened.upstream.issue_lasting_tokens()
        opened.discover()
        yield opened


def sent_today(database: Database) -> int:
    return requests_sent(database, datetime.now(UTC).date()).get("default", 0)


def begin_next_day(database: Database) -> None:
    """Forget the requests of today, as midnight does."""
    with database.begin() as connection:
        connection.execute(delete(SENT_REQUESTS))


@pytest.mark.nightly  # the simulation plays days with a budget
def test_schedules_finish_a_backfill_that_the_budget_ended(
    platform: Platform, database: Database, database_url: str
) -> None:
    result = platform.months(ORDERS)

    loaded = platform.materialized(ORDERS)
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    reasons = failure.step_failure_data.user_failure_data
    assert reasons is not None
    assert 0 < len(loaded) < len(MONTHS)
    assert sent_today(database) <= BUDGET
    assert reasons.metadata[EXIT_CODE].value == 4
    named = {name for name in reasons.metadata if name != EXIT_CODE}
    assert named == MONTHS - loaded
    assert all("renews at" in str(reasons.metadata[name].value) for name in named)
    assert {each.error for of_pair in refusals(database).values() for each in of_pair} == {"RequestsUsedUpError"}

    days = 0
    while platform.materialized(ORDERS) != MONTHS or platform.materialized(LEDGER) != MONTHS:
        begin_next_day(database)
        days += 1
        assert days < 8, sorted(MONTHS - platform.materialized(ORDERS))
        for request in tick("refresh_sales", AT, platform.instance, database_url):
            dg.materialize(
                list(platform.assets.values()),
                selection=list(request.asset_selection or ()),
                instance=platform.instance,
                resources=platform.resources,
                tags=request.tags,
                raise_on_error=False,
            )
        assert sent_today(database) <= BUDGET
    assert refusals(database).get(("orders", independent_upstream.KEYS["A1FOREIGN"])) is None


def test_schedules_request_the_newest_slices_that_fit(
    platform: Platform, database: Database, database_url: str
) -> None:
    requests = tick("refresh_sales", AT, platform.instance, database_url)

    assert 0 < sum(len(request.asset_selection or ()) for request in requests) <= BUDGET
    assert {request.tags["dagster/asset_partition_range_start"].split("|")[1] for request in requests} == {"2026-03-01"}
    # Inventory is due on the same day, and shares the budget.
    others = tick("refresh_inventory", AT, platform.instance, database_url)
    assert len(others) <= 1
    # Months that are closed and were never read have to wait, and so has every background reading.
    assert tick("reread_sales", AT, platform.instance, database_url) == []
