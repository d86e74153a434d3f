"""Tests what a load is expected to take, by the receipts of earlier ones."""

from datetime import UTC, date, datetime, timedelta

import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.errors import RequestsUsedUpError
from seller_platform.warehouse.loads.expectations import Basis, ExpectedLoad, expected_loads, fewest_requests
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt

ORDERS, LEDGER = dataset_named("orders"), dataset_named("transactions")
MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (3, 4))
AT = datetime(2026, 5, 1, tzinfo=UTC)


def load(
    database: Database, dataset: Dataset, account: str, window: Window, *, requests: int, rows: int, seconds: int
) -> None:
    """Store a receipt."""
    end = AT + timedelta(seconds=seconds)
    store_receipt(database, dataset, account, window, at=AT, finished_at=end, requests=requests, rows=rows)


def expected(
    database: Database, dataset: Dataset, window: Window, account: str = "de-1", per_day: int | None = None
) -> ExpectedLoad:
    (only,) = expected_loads(database, [(dataset, account, window)], requests_per_day=per_day)
    return only


def test_the_last_load_of_the_same_days_decides(database: Database) -> None:
    load(database, ORDERS, "de-1", MARCH, requests=9, rows=9_000, seconds=9)
    load(database, ORDERS, "de-1", MARCH, requests=7, rows=5_000, seconds=4)
    load(database, ORDERS, "de-1", APRIL, requests=3, rows=10, seconds=1)

    assert expected(database, ORDERS, MARCH) == ExpectedLoad(7, 5_000, 4.0, Basis.SAME)


def test_fewer_days_take_fewer_rows_but_not_fewer_than_one_page(database: Database) -> None:
    load(database, LEDGER, "de-1", MARCH, requests=1, rows=310, seconds=2)

    assert expected(database, LEDGER, Window.day(APRIL.start)) == ExpectedLoad(1, 10, 2.0, Basis.ALIKE)


def test_more_days_take_the_pages_of_their_rows(database: Database) -> None:
    size = max(LEDGER.page_sizes)
    load(database, LEDGER, "de-1", Window.day(MARCH.start), requests=1, rows=size // 10, seconds=1)

    thirty_days = expected(database, LEDGER, APRIL)

    assert (thirty_days.rows, thirty_days.requests) == (size // 10 * 30, 1 + 3)


def test_without_any_receipt_each_list_is_expected_to_fit_a_page(database: Database) -> None:
    assert expected(database, ORDERS, MARCH) == ExpectedLoad(fewest_requests(ORDERS), None, 1.5, Basis.NONE)
    assert (fewest_requests(ORDERS), fewest_requests(LEDGER)) == (3, 1)
    assert fewest_requests(dataset_named("notifications")) == len(dataset_named("notifications").split_by.values)  # type: ignore[union-attr]


@pytest.mark.parametrize("account", ["de-1", "de-2"])
def test_many_loads_of_one_day_do_not_hide_those_of_a_month(database: Database, account: str) -> None:
    load(database, ORDERS, "de-1", MARCH, requests=65, rows=30_000, seconds=40)
    for _ in range(70):
        load(database, ORDERS, "de-1", Window.day(APRIL.start), requests=3, rows=5, seconds=1)

    month, day = (expected(database, ORDERS, window, account) for window in (APRIL, Window.day(MARCH.last_day)))

    assert (month.requests, day.requests) == (63, 3)


def test_a_slice_that_was_begun_in_vain_is_expected_to_take_twice_as_much(database: Database) -> None:
    for sent in (9, 0):  # the second time it was not begun
        error = RequestsUsedUpError("default", per_day=10, renews_at=AT, sent=sent)
        keep_refusal(database, LEDGER, "de-1", MARCH, error, run_id=None)

    assert (expected(database, LEDGER, MARCH).requests, expected(database, LEDGER, APRIL).requests) == (18, 1)


@pytest.mark.parametrize(("sent", "requests"), [(30, 60), (60, 86), (90, 91), (96, 97)])
def test_a_slice_begun_in_vain_is_expected_to_fit_a_day_if_it_may(database: Database, sent: int, requests: int) -> None:
    error = RequestsUsedUpError("default", per_day=96, renews_at=AT, sent=sent)
    keep_refusal(database, LEDGER, "de-1", MARCH, error, run_id=None)

    assert expected(database, LEDGER, MARCH, per_day=96).requests == requests
