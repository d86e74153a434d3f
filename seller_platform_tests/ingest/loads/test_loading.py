"""Tests which days a slice is read of, and loads of many slices side by side."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import Any

import httpx
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.errors import (
    ContractViolationError,
    NotOfferedError,
    RequestRefusedError,
    SellerPlatformError,
    UpstreamUnavailableError,
    WarehouseUnavailableError,
)
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.slices import SliceRequest, load_slice, window_to_load
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.loads.refusals import refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MovingList, api_of
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts, store_slice
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

TRANSACTIONS, STOCK = dataset_named("transactions"), dataset_named("warehouse_stock")
SUMS = dataset_named("sales_by_date")
MARCH, NOW = Window.month_of(date(2026, 3, 1)), datetime(2026, 3, 10, 20, tzinfo=UTC)  # in Tokyo already the 11th
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
        (MARCH.start, "ContractViolationError")
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


TOKYO = KnownAccount("jp-1", "default", Account(1, "Shop", "JP", "JPY", "Asia/Tokyo", "JP", "S"))
BY_PRODUCT = dataset_named("sales_by_product")


def _read(database: Database, window: Window, at: datetime) -> None:
    for dataset in (TRANSACTIONS, BY_PRODUCT):
        store_slice(database, dataset, window, [], TOKYO.key, at=at)


def _window(database: Database, request: SliceRequest, *, whole: bool, now: datetime = NOW) -> Window | None:
    return window_to_load(database, TOKYO, replace(request, whole=whole), now=now)


def test_a_month_and_a_snapshot_are_read_until_the_accounts_today(database: Database) -> None:
    month, snapshot = (SliceRequest(TRANSACTIONS, TOKYO.key, MARCH), SliceRequest(STOCK, TOKYO.key, None))

    assert [_window(database, month, whole=whole) for whole in (True, False)] == [MARCH.until(date(2026, 3, 12))] * 2
    assert _window(database, snapshot, whole=False) == Window.day(date(2026, 3, 11))


def test_settled_days_without_their_total_are_read_again_until_confirmed(database: Database) -> None:
    january, windows = Window.month_of(date(2026, 1, 1)), []
    for day in (1, 2, 3):
        at = datetime(2026, 3, day, tzinfo=UTC)
        store_receipt(database, TRANSACTIONS, TOKYO.key, january, at=at, announced=5, verdict="mismatch")
        windows.append(_window(database, SliceRequest(TRANSACTIONS, TOKYO.key, january), whole=False))

    assert windows == [january, january, None]


def test_days_that_may_have_changed_are_read_again_sums_as_whole_months(database: Database) -> None:
    february, june = Window.month_of(date(2026, 2, 1)), datetime(2026, 6, 1, tzinfo=UTC)
    ledger, sums = (SliceRequest(dataset, TOKYO.key, february) for dataset in (TRANSACTIONS, BY_PRODUCT))
    _read(database, february, datetime(2026, 3, 2, tzinfo=UTC))
    part, whole = (_window(database, each, whole=False) for each in (ledger, sums))
    _read(database, february, june)
    settled = [_window(database, ledger, whole=whole, now=june) for whole in (False, True)]

    # Fourteen days back from the 2nd of March.
    assert (part, whole) == (Window(date(2026, 2, 16), date(2026, 3, 1)), february)
    assert settled == [None, february]


def _load(api: SellerApi, database: Database) -> Receipt:
    return load_slice(api, database, TOKYO, SliceRequest(TRANSACTIONS, TOKYO.key, MARCH), MARCH, run_id="run")


@pytest.mark.parametrize(("read_on", "is_settled"), [(date(2026, 4, 14), False), (date(2026, 4, 15), True)])
def test_days_settle_once_they_are_read_after_the_lookback(database: Database, read_on: date, is_settled: bool) -> None:
    """The last day of March has a lookback of 14 days. A reading that is held changes nothing of that."""
    at = datetime.combine(read_on, time_of_day(12), TOKYO.zone)
    _read(database, MARCH, at)
    store_receipt(database, TRANSACTIONS, TOKYO.key, MARCH, at=at, verdict="held")

    with (
        time_machine.travel(at + timedelta(days=30), tick=False),
        api_of(lambda _: httpx.Response(200, json={"data": [], "total": 0, "per_page": 2000, "last_page": 1})) as api,
    ):
        receipt = _load(api, database)

    assert (receipt.notes or {}).get("was_settled", False) is is_settled


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(422, json={"message": "bad", "errors": {"end_date": ["too late"]}}), RequestRefusedError),
        (
            httpx.Response(200, json={"data": [{"posted_date": "2027-01-01T00:00:00Z"}], "total": 1}),
            ContractViolationError,
        ),
    ],
)
def test_a_slice_that_cannot_be_read_leaves_what_was_stored_and_no_receipt(
    database: Database, answer: httpx.Response, error: type[Exception]
) -> None:
    with api_of(lambda _: answer) as api, pytest.raises(error):
        _load(api, database)

    assert database.execute(text("SELECT count(*) FROM platform.loads")).scalar_one() == 0
