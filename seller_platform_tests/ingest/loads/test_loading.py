"""Tests of loads of many slices side by side."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.errors import (
    ContractViolationError,
    NotOfferedError,
    SellerPlatformError,
    UpstreamUnavailableError,
    WarehouseUnavailableError,
)
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.ingest.loads.test_slices import TOKYO
from seller_platform_tests.support.http_upstream import MovingList, api_of
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.stored_rows import connect_accounts
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

TRANSACTIONS, STOCK = dataset_named("transactions"), dataset_named("warehouse_stock")
SUMS = dataset_named("sales_by_date")
MARCH, NOW = Window.month_of(date(2026, 3, 1)), datetime(2026, 3, 10, 20, tzinfo=UTC)
BROKEN = ContractViolationError("list", "broken")


def _raise(error: SellerPlatformError) -> Callable[[SliceRequest], None]:
    def load(_: SliceRequest) -> None:
        raise error

    return load


def _load_each(
    requests: Sequence[SliceRequest], work: Callable[[SliceRequest], Any], database: Database, **options: Any
) -> Iterator[SliceResult]:
    loader = SliceLoader(database, lambda _: pytest.fail("a request is sent"), NOW, "run", adaptive=False)
    return load_each(requests, loader, elsewhere=lambda request, _: work(request), **options)


def _requests(count: int) -> list[SliceRequest]:
    return [SliceRequest(STOCK, f"S{number}", None) for number in range(count)]


def test_outcomes_come_in_order_and_a_failure_stops_no_other(database: Database) -> None:
    def load(request: SliceRequest) -> None:
        time.sleep(0.02 if request.account == "S0" else 0)
        if request.account == "S3":
            raise ContractViolationError("it", "is broken")

    outcomes = list(_load_each(_requests(8), load, database, at_once=3))

    assert [outcome.request.account for outcome in outcomes] == [f"S{number}" for number in range(8)]
    assert [outcome.error is not None for outcome in outcomes] == [number == 3 for number in range(8)]


def test_no_more_slices_are_under_way_than_allowed(database: Database) -> None:
    lock, under_way, most, four = threading.Lock(), 0, 0, threading.Barrier(4)

    def load(_: SliceRequest) -> None:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        four.wait(PATIENCE_SECONDS)
        with lock:
            under_way -= 1

    outcomes = list(_load_each(_requests(32), load, database, at_once=4))

    assert [outcome.error for outcome in outcomes] == [None] * 32
    assert most == 4


def test_a_bug_is_raised(database: Database) -> None:
    def load(_: SliceRequest) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(_load_each(_requests(3), load, database))


def test_a_slice_is_loaded_again_when_the_warehouse_is_back(database: Database) -> None:
    absences = {"S1": 2, "S2": 3}

    def load(request: SliceRequest) -> None:
        if absences.get(request.account):
            absences[request.account] -= 1
            raise WarehouseUnavailableError("/warehouse", "the server closed the connection")

    outcomes = list(_load_each(_requests(3), load, database, pauses_seconds=(0, 0)))

    assert [type(outcome.error) for outcome in outcomes] == [type(None), type(None), WarehouseUnavailableError]
    assert absences == {"S1": 0, "S2": 0}


@pytest.mark.parametrize(("wish", "least", "asked"), [(None, 0, 2), (0.5, 0.5, 2), (3600, 0, 1)])
def test_a_slice_is_loaded_once_more_after_the_pause_the_upstream_asks_for(
    database: Database, wish: float | None, least: float, asked: int
) -> None:
    times: list[float] = []

    def load(_: SliceRequest) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            raise UpstreamUnavailableError("GET /x", "status 429", attempts=6, retry_after_seconds=wish)

    (outcome,) = _load_each(_requests(1), load, database)

    assert len(times) == asked
    assert times[-1] - times[0] >= least
    assert (outcome.error is None) == (asked == 2)


def test_a_day_that_lost_a_row_to_another_day_is_read_in_the_same_refresh(database: Database) -> None:
    days, (march, april) = ["2026-03-02", "2026-03-20", "2026-04-01"], (MARCH, Window.month_of(date(2026, 4, 1)))
    rows = [{"posted_date": f"{day}T03:00:00Z", "order_id": day, "amount": 5} for day in days]
    connect_accounts(database, [(TOKYO.key, TOKYO.account)])

    def refresh(*months: Window) -> list[SliceResult]:
        with api_of(MovingList(rows, day_of=lambda row: row["posted_date"][:10])) as api:
            loader = SliceLoader(database, lambda _: api, datetime(2026, 4, 5, tzinfo=UTC))
            return list(load_each([SliceRequest(TRANSACTIONS, TOKYO.key, each) for each in months], loader))

    refresh(march, april)
    rows[0]["posted_date"] = "2026-04-02T03:00:00Z"
    results = refresh(april)

    stored = database.execute(text("SELECT CAST(local_day AS text) FROM seller.transactions ORDER BY 1")).scalars()
    assert list(stored) == ["2026-03-20", "2026-04-01", "2026-04-02"]
    assert [(each.request.month, each.error) for each in results] == [(april, None)]


def test_errors_are_stored_until_their_slice_is_loaded(database: Database) -> None:
    failed, snapshot = SliceRequest(TRANSACTIONS, TOKYO.key, MARCH), SliceRequest(STOCK, TOKYO.key, None)

    refused = list(_load_each([failed, snapshot], _raise(BROKEN), database))
    before = refusals(database)
    list(_load_each([failed], lambda _: None, database))
    after = refusals(database)

    assert [type(each.error) for each in refused] == [ContractViolationError] * 2
    assert set(before) == {("transactions", TOKYO.key), ("warehouse_stock", TOKYO.key)}
    assert [(each.month, each.error) for each in before["transactions", TOKYO.key]] == [
        ("2026-03", "ContractViolationError")
    ]
    assert set(after) == {("warehouse_stock", TOKYO.key)}


def test_a_list_that_others_are_answered_for_is_refused_for_the_account(database: Database) -> None:
    refused = NotOfferedError(SUMS.name, SUMS.path, 404)
    connect_accounts(database, [(key, TOKYO.account) for key in (TOKYO.key, "de-2")])
    request = SliceRequest(SUMS, TOKYO.key, MARCH)
    before = [each.error for each in _load_each([request], _raise(refused), database)]
    mark_loaded(database, SUMS, "de-2", MARCH)
    after = [each.error for each in _load_each([request], _raise(refused), database)]

    assert before == [refused]
    assert [error.code for error in after if error is not None] == ["RefusedForAccountError"]
    assert [each.error for each in refusals(database)[SUMS.name, TOKYO.key]] == ["RefusedForAccountError"]


def test_results_go_on_while_the_warehouse_is_away() -> None:
    with Database("postgresql://user@127.0.0.1:1/none") as away:
        (result,) = _load_each(_requests(1), _raise(BROKEN), away)

    assert isinstance(result.error, ContractViolationError)


def test_what_is_looked_up_by_product_follows_the_inventory(database: Database) -> None:
    costs, stock = SliceRequest(COST_PERIODS, "S1", None), SliceRequest(STOCK, "S1", None)
    loaded: list[str] = []

    list(_load_each([costs, stock], lambda request: loaded.append(request.dataset.name), database))

    assert loaded == ["warehouse_stock", "cost_periods"]
