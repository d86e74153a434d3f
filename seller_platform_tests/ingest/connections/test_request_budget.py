"""Tests the requests that a connection may send in a day."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.errors import BudgetTooSmallError, RequestsUsedUpError
from seller_platform.ingest.connections.request_budget import (
    AROUND_MIDNIGHT,
    DailyRequests,
    budget_days,
    for_reports,
    left_at,
    reserving,
)
from seller_platform.warehouse.connections.sent_requests import requests_left, requests_sent
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import FakeTime, api_of, recording
from seller_platform_tests.support.installation import begin
from seller_platform_tests.support.stored_rows import connect_accounts, execute

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
TODAY = NOON.date()


def meter(database: Database, per_day: int, clock: Callable[[], datetime] = lambda: NOON) -> DailyRequests:
    return DailyRequests(database, "default", per_day, clock)


def metered_api(seen: list[httpx.Request], counted: DailyRequests) -> SellerApi:
    """Return an API that records its requests."""
    return api_of(recording(seen, {"data": []}), meter=counted)


def take_all(url: str, per_day: int) -> int:
    """Send requests until no more are allowed, and return their number."""
    with Database(url) as database:
        taken = 0
        try:
            while True:
                meter(database, per_day).take()
                taken += 1
        except RequestsUsedUpError:
            return taken


def test_processes_and_threads_together_send_what_a_day_allows(database: Database, database_url: str) -> None:
    processes = [begin(_take_in_threads, database_url, 96) for _ in range(2)]

    taken = sum(pipe.recv() for _, pipe in processes)

    assert taken == 96
    assert requests_sent(database, TODAY) == {"default": 96}
    for process, _ in processes:
        process.join()


def _take_in_threads(pipe: Any, url: str, per_day: int) -> None:
    with ThreadPoolExecutor(3) as threads:
        pipe.send(sum(threads.map(take_all, [url] * 3, [per_day] * 3)))


def test_a_request_beyond_the_budget_is_not_sent(database: Database) -> None:
    seen: list[httpx.Request] = []
    api = metered_api(seen, meter(database, 2))
    api.get("/lists")
    api.get("/lists")

    with pytest.raises(RequestsUsedUpError, match="renews at 2026-03-11 00:00:30 UTC") as raised:
        api.get("/lists")

    assert (len(seen), raised.value.exit_code) == (2, 4)


@pytest.mark.parametrize("shift", [-AROUND_MIDNIGHT / 2, AROUND_MIDNIGHT / 2], ids=["before", "after"])
def test_a_request_around_midnight_counts_on_both_days(database: Database, shift: timedelta) -> None:
    midnight = datetime(2026, 3, 11, tzinfo=UTC)

    meter(database, 10, lambda: midnight + shift).take()

    assert [requests_sent(database, date(2026, 3, day)) for day in (10, 11)] == [{"default": 1}] * 2
    assert budget_days(midnight + 10 * shift) == ((midnight + 10 * shift).date(),)


def test_soon_after_midnight_a_used_up_yesterday_renews_within_the_minute(database: Database) -> None:
    now = datetime(2026, 3, 11, 0, 0, 10, tzinfo=UTC)
    meter(database, 1).take()

    with pytest.raises(RequestsUsedUpError) as raised:
        meter(database, 1, lambda: now).take()

    assert raised.value.renews_at == datetime(2026, 3, 11, tzinfo=UTC) + AROUND_MIDNIGHT
    assert left_at(database, "default", now, per_day=1) == (0, raised.value.renews_at)
    meter(database, 1, lambda: raised.value.renews_at).take()


def test_what_a_slice_is_expected_to_take_is_reserved_while_it_is_read(database: Database) -> None:
    connect_accounts(database, [("us-1", Account(1, "Shop", "US", "USD", "UTC", "US", "S1"))])
    metered, unlimited = metered_api([], meter(database, 50)), api_of(lambda _: httpx.Response(200))
    sliced = database, dataset_named("transactions"), "us-1", Window.month_of(TODAY)

    with reserving(metered, *sliced), reserving(unlimited, *sliced) as same:
        (within,) = requests_sent(database, TODAY).values()

    assert same is unlimited
    assert 0 < within < 50
    assert requests_sent(database, TODAY) == {"default": 0}


def test_a_slice_that_cannot_be_read_to_its_end_knows_what_it_sent(database: Database) -> None:
    with meter(database, 3).reserved(2) as reserved, pytest.raises(RequestsUsedUpError) as raised:
        for _ in range(4):
            reserved.take()

    assert raised.value.sent == 3


def test_what_is_reserved_of_one_day_is_not_used_on_the_next(database: Database) -> None:
    time = FakeTime()
    with meter(database, 10, time.now).reserved(5) as reserved:
        reserved.take()
        time.sleep(86_400)
        reserved.take()

    sent = [requests_sent(database, TODAY + timedelta(days=days)) for days in (0, 1)]
    assert sent == [{"default": 1}, {"default": 1}]


def test_more_than_a_day_allows_names_the_setting_to_raise(database: Database) -> None:
    with (
        pytest.raises(BudgetTooSmallError, match=r"about 6 requests.*may send 5 a day"),
        meter(database, 5).reserved(6),
    ):
        pass


@pytest.mark.needs("reports")
def test_loads_leave_requests_for_reports_that_are_open(database: Database, database_url: str) -> None:
    connect_accounts(database, [("de-1", Account(1, "A", "DE", "EUR", "Europe/Berlin", "M", "S1"))])
    assert requests_left(database, "default", TODAY, per_day=40) == 40
    job = "'de-1', 'dps_date', '2026-03-09', 'json', 'pending', now(), '6 hours', now(), 0, now()"
    columns = "account, selector, value, format, state, requested_at, give_up_after, attempted_at, polls"
    execute(database, f"INSERT INTO platform.report_jobs ({columns}, next_poll_at) VALUES ({job})")

    assert requests_left(database, "default", TODAY, per_day=40) == 30
    assert take_all(database_url, 40) == 30

    reports = for_reports(metered_api([], meter(database, 40)))
    for _ in range(10):
        reports.get("/lists")
    with pytest.raises(RequestsUsedUpError):
        reports.get("/lists")


def test_an_api_without_a_budget_counts_nothing(database: Database) -> None:
    api = api_of(lambda _: httpx.Response(200, json={}), time=FakeTime())

    for_reports(api).get("/lists")

    assert requests_sent(database, TODAY) == {}
