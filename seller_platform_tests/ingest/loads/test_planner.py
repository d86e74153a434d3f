"""Tests which slices are due, and which of them the requests of a day suffice for."""

from datetime import UTC, date, datetime, timedelta

import pytest

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.errors import BudgetTooSmallError, CheckFailedError, NotOfferedError, RequestsUsedUpError
from seller_platform.ingest.loads.planner import Division, DueSlice, Planner, postpone
from seller_platform.warehouse.connections.accounts import KnownAccount, account_of
from seller_platform.warehouse.connections.sent_requests import take_requests
from seller_platform.warehouse.loads.refusals import keep_refusal, refusals
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt, store_receipts
from seller_platform_tests.support.stored_rows import connect_accounts

ORDERS, LEDGER, INVENTORY, BY_DATE = map(dataset_named, ("orders", "transactions", "inventory", "sales_by_date"))
SINCE = date(2026, 3, 1)
NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
YESTERDAY = datetime(2026, 5, 19, 12, tzinfo=UTC)
MARCH, APRIL, MAY = (Window.month_of(date(2026, month, 1)) for month in (3, 4, 5))
SINCE_MARCH = Window(SINCE, date(2026, 5, 20))


@pytest.fixture
def accounts(database: Database) -> list[KnownAccount]:
    """Two accounts of a connection, at noon of a day in May."""
    keys = ["de-1", "de-2"]
    listed = [(key, Account(n, key, "DE", "EUR", "Europe/Berlin", "M", f"S{n}")) for n, key in enumerate(keys)]
    connect_accounts(database, listed)
    return [account_of(database, key) for key in keys]


def due(database: Database, chosen: list[KnownAccount], *datasets: Dataset) -> list[DueSlice]:
    return Planner(database, chosen, SINCE, NOON, requests_per_day=100).due(datasets, scheduled=True)


def divided(database: Database, slices: list[DueSlice], per_day: int, now: datetime = NOON) -> Division:
    return Planner(database, (), SINCE, now, requests_per_day=per_day).divide(slices)


def names(slices: object) -> list[str]:
    return [str(each) for each in slices]  # type: ignore[attr-defined]


def test_the_newest_days_of_all_accounts_come_first(database: Database, accounts: list[KnownAccount]) -> None:
    division = divided(database, due(database, accounts, LEDGER), 3)

    assert names(division.fitting) == [
        "transactions of de-1, 2026-04",
        "transactions of de-1, 2026-05",
        "transactions of de-2, 2026-05",
    ]
    assert {type(error) for error in division.later.values()} == {RequestsUsedUpError}
    assert names(division.later) == [
        "transactions of de-2, 2026-04",
        "transactions of de-1, 2026-03",
        "transactions of de-2, 2026-03",
    ]


def test_days_that_are_read_again_come_after_those_never_read(database: Database, accounts: list[KnownAccount]) -> None:
    store_receipts(database, ["orders"], "de-1", SINCE_MARCH, YESTERDAY)
    store_receipts(database, ["orders"], "de-2", Window(APRIL.start, date(2026, 5, 20)), YESTERDAY)

    slices = due(database, accounts, ORDERS)
    division = divided(database, slices, 9)

    assert names(each for each in slices if each.is_background) == [
        "orders of de-1, 2026-04",
        "orders of de-2, 2026-04",
    ]
    assert names(division.fitting) == ["orders of de-1, 2026-05", "orders of de-2, 2026-03", "orders of de-2, 2026-05"]


@pytest.mark.parametrize("per_day", [None, 100])
def test_a_refresh_looks_products_up_after_a_list_has_named_them(
    database: Database, accounts: list[KnownAccount], per_day: int | None
) -> None:
    planner = Planner(database, accounts, SINCE, NOON, requests_per_day=per_day)

    first = planner.of_refresh([COST_PERIODS, INVENTORY])
    without_lists = planner.of_refresh([COST_PERIODS])
    store_receipts(database, ["inventory"], "de-1", Window.day(NOON.date()), NOON)
    later = planner.of_refresh([COST_PERIODS, INVENTORY])

    assert names(first.fitting) == ["inventory of de-1", "inventory of de-2"]
    assert names(later.fitting) == ["cost_periods of de-1", "inventory of de-2"]
    assert names(without_lists.fitting) == ["cost_periods of de-1", "cost_periods of de-2"]


def test_a_slice_that_never_fits_beside_today_comes_first(database: Database, accounts: list[KnownAccount]) -> None:
    for account in accounts:
        store_receipts(database, ["inventory"], account.key, Window.day(date(2026, 5, 19)), YESTERDAY)
    march = DueSlice(ORDERS, "de-1", MARCH, MARCH, days_behind=50)  # three requests

    slices = [*due(database, accounts, INVENTORY), march]
    before = divided(database, slices, 4)
    after_two_days = divided(database, slices, 4, NOON + timedelta(days=2))

    assert names(before.fitting) == ["inventory of de-1", "orders of de-1, 2026-03"]
    assert names(after_two_days.fitting) == ["inventory of de-1", "inventory of de-2"]


def test_requests_that_were_sent_today_are_not_left(database: Database, accounts: list[KnownAccount]) -> None:
    assert take_requests(database, "default", [NOON.date()], 5, per_day=6) is None

    division = divided(database, due(database, accounts, INVENTORY), 6)

    assert (division.left, len(division.fitting)) == ({"default": 1}, 1)


def test_a_slice_that_no_day_suffices_for_names_the_setting(database: Database, accounts: list[KnownAccount]) -> None:
    division = divided(database, due(database, accounts, ORDERS), 2)

    assert not division.fitting
    assert {type(error) for error in division.later.values()} == {BudgetTooSmallError}


def test_a_whole_month_that_is_left_is_due_from_then_on(database: Database, accounts: list[KnownAccount]) -> None:
    for account in accounts:
        store_receipts(database, ["transactions"], account.key, Window(SINCE, date(2026, 5, 21)), NOON)
    assert due(database, accounts, LEDGER) == []
    march = DueSlice(LEDGER, "de-1", MARCH, MARCH, whole=True, days_behind=50, is_background=True)
    assert take_requests(database, "default", [NOON.date()], 1, per_day=1) is None
    postpone(database, divided(database, [march], 1))

    (again,) = due(database, accounts, LEDGER)

    assert (again.month, again.whole, again.is_background, again.window) == (MARCH, True, True, MARCH)


def test_postponed_months_stay_due_if_a_load_fails_otherwise(database: Database, accounts: list[KnownAccount]) -> None:
    store_receipts(database, ["transactions"], "de-1", Window(SINCE, date(2026, 5, 21)), NOON)
    for error in (RequestsUsedUpError("default", per_day=1, renews_at=NOON), CheckFailedError("it was away")):
        keep_refusal(database, LEDGER, "de-1", MARCH, error, run_id=None)

    slices = due(database, accounts[:1], LEDGER)

    assert [(each.month, each.whole) for each in slices] == [(MARCH, True)]
    assert [each.error for each in refusals(database)["transactions", "de-1"]] == ["CheckFailedError"]


def test_what_the_upstream_does_not_offer_comes_last(database: Database, accounts: list[KnownAccount]) -> None:
    keep_refusal(database, BY_DATE, "de-1", APRIL, NotOfferedError("sales_by_date", "/x", 404), run_id=None)

    slices = due(database, accounts, BY_DATE)

    assert [(each.account, each.is_background) for each in slices] == [("de-1", True), ("de-2", False)]


def test_a_person_can_read_today_again(database: Database, accounts: list[KnownAccount]) -> None:
    store_receipts(database, ["orders"], "de-1", Window(SINCE, date(2026, 5, 21)), NOON)
    planner = Planner(database, accounts[:1], SINCE, NOON)

    assert planner.due([ORDERS], scheduled=True) == []
    assert [each.month for each in planner.requested([ORDERS])] == [APRIL, MAY]


def test_lists_have_the_rows_they_had_or_a_hundred_a_day(database: Database, accounts: list[KnownAccount]) -> None:
    def rows(chosen: list[KnownAccount]) -> float:
        planner = Planner(database, chosen, SINCE, NOON, adaptive=False)
        return planner.divide(
            planner.requested([ORDERS, LEDGER, dataset_named("sales_by_product"), INVENTORY], [MARCH])
        ).rows

    assert rows(accounts) == 2 * rows(accounts[:1]) == 2 * 2 * 31 * 100
    store_receipt(database, ORDERS, "de-1", MARCH, at=NOON, rows=31 * 7)
    assert rows(accounts) == 2 * 31 * 7 + 2 * 31 * 100
