"""Tests which days are loaded, and loads of many slices in parallel."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day

import httpx
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.errors import ContractViolationError, RequestRefusedError
from seller_platform.ingest.loads.slices import SliceRequest, load_slice, window_to_load
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import api_of
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import store_slice

TOKYO = KnownAccount("jp-1", "default", Account(1, "Shop", "JP", "JPY", "Asia/Tokyo", "JP", "S"))
TRANSACTIONS, BY_PRODUCT, STOCK = (
    dataset_named(name) for name in ("transactions", "sales_by_product", "warehouse_stock")
)
MARCH = Window.month_of(date(2026, 3, 1))
# In Tokyo it is the 11th already.
NOW = datetime(2026, 3, 10, 20, tzinfo=UTC)


def _read(database: Database, window: Window, at: datetime) -> None:
    for dataset in (TRANSACTIONS, BY_PRODUCT):
        store_slice(database, dataset, window, [], TOKYO.key, at=at)


def _window(database: Database, request: SliceRequest, *, whole: bool, now: datetime = NOW) -> Window | None:
    return window_to_load(database, TOKYO, replace(request, whole=whole), now=now)


def test_the_running_month_is_read_until_the_accounts_today(database: Database) -> None:
    request = SliceRequest(TRANSACTIONS, TOKYO.key, MARCH)

    assert _window(database, request, whole=True) == Window(date(2026, 3, 1), date(2026, 3, 12))
    assert _window(database, request, whole=False) == Window(date(2026, 3, 1), date(2026, 3, 12))


def test_a_snapshot_is_of_the_accounts_today(database: Database) -> None:
    assert _window(database, SliceRequest(STOCK, TOKYO.key, None), whole=False) == Window.day(date(2026, 3, 11))


def test_settled_days_without_their_total_are_read_again_until_confirmed(database: Database) -> None:
    january, windows = Window.month_of(date(2026, 1, 1)), []
    for day in (1, 2, 3):
        at = datetime(2026, 3, day, tzinfo=UTC)
        store_receipt(database, TRANSACTIONS, TOKYO.key, january, at=at, announced=5, verdict="mismatch")
        windows.append(_window(database, SliceRequest(TRANSACTIONS, TOKYO.key, january), whole=False))

    assert windows == [january, january, None]


def test_days_that_may_have_changed_are_read_again_sums_as_whole_months(database: Database) -> None:
    february = Window.month_of(date(2026, 2, 1))
    _read(database, february, datetime(2026, 3, 2, tzinfo=UTC))

    part = _window(database, SliceRequest(TRANSACTIONS, TOKYO.key, february), whole=False)
    whole = _window(database, SliceRequest(BY_PRODUCT, TOKYO.key, february), whole=False)

    # Fourteen days back from the 2nd of March.
    assert part == Window(date(2026, 2, 16), date(2026, 3, 1))
    assert whole == february


def test_a_settled_month_is_not_read_again(database: Database) -> None:
    february = Window.month_of(date(2026, 2, 1))
    june = datetime(2026, 6, 1, tzinfo=UTC)
    _read(database, february, june)

    assert _window(database, SliceRequest(TRANSACTIONS, TOKYO.key, february), whole=False, now=june) is None
    assert _window(database, SliceRequest(TRANSACTIONS, TOKYO.key, february), whole=True, now=june) == february


def _load(api: SellerApi, database: Database) -> Receipt:
    return load_slice(api, database, TOKYO, SliceRequest(TRANSACTIONS, TOKYO.key, MARCH), MARCH, run_id="run")


@pytest.mark.parametrize(("read_on", "is_settled"), [(date(2026, 4, 14), False), (date(2026, 4, 15), True)])
def test_days_have_settled_once_they_were_read_after_their_lookback(
    database: Database, read_on: date, is_settled: bool
) -> None:
    """The last day of March has a lookback of 14 days."""
    at = datetime.combine(read_on, time_of_day(12), TOKYO.zone)
    _read(database, MARCH, at)

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
