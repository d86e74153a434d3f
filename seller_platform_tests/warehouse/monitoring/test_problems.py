"""Tests that readings of the days end what is wrong with them, and which confirm it."""

from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.ingest.loads.planner import Planner
from seller_platform.warehouse.connections.accounts import account_of
from seller_platform.warehouse.loads.history_start import keep_history_start
from seller_platform.warehouse.monitoring.problems import SliceProblem, slice_problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

ORDERS, INVENTORY = dataset_named("orders"), dataset_named("inventory")
KEY, MONTH = "de-1", Window.month_of(date(2026, 3, 1))
FIRST, SECOND = MONTH.until(date(2026, 3, 11)), MONTH.since(date(2026, 3, 11))
NOW = datetime(2026, 8, 10, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _listed(database: Database) -> None:
    connect_accounts(database, [(KEY, Account(1, "Shop", "DE", "EUR", "UTC", "DE", "A"))])


def _of_orders(database: Database) -> list[SliceProblem]:
    return [each for each in slice_problems(database, ["orders"], months=[MONTH.start]) if each.month]


def test_readings_that_together_have_its_days_end_a_mismatch(database: Database) -> None:
    store_receipt(database, ORDERS, KEY, MONTH, verdict="mismatch", announced=9, rows=8)
    store_receipt(database, ORDERS, KEY, FIRST)
    before = [each.kind for each in _of_orders(database)]
    store_receipt(database, ORDERS, KEY, SECOND)

    assert ("mismatched" in before, _of_orders(database)) == (True, [])


def test_a_mismatch_is_read_again_each_day_until_three_days_confirm_it(database: Database) -> None:
    def plan(now: datetime) -> list[Window]:
        planner = Planner(database, [account_of(database, KEY)], MONTH.start, now)
        return [each.window for each in planner.due([ORDERS], scheduled=True) if each.month == MONTH]

    store_receipt(database, ORDERS, KEY, MONTH, at=NOW - timedelta(days=30))
    planned, severities = [plan(NOW)], []
    for day in range(3):
        moment = NOW + timedelta(days=day)
        store_receipt(database, ORDERS, KEY, FIRST, at=moment, verdict="mismatch", announced=9, rows=8)
        planned += [plan(moment + timedelta(hours=1)), plan(moment + timedelta(days=1))]
        severities.append([(each.severity, each.rows) for each in _of_orders(database)])

    assert planned == [[], [], [FIRST], [], [FIRST], [], []]
    assert severities == [[("error", 1)], [("error", 1)], [("warning", 1)]]


@pytest.mark.parametrize("dataset", [ORDERS, INVENTORY])
def test_only_mismatches_in_a_row_confirm_a_total(database: Database, dataset: Dataset) -> None:
    def read(day: int, verdict: str) -> str:
        moment = NOW + timedelta(days=day)
        window, beside = FIRST if dataset.is_dated else Window.day(moment.date()), [SECOND] * dataset.is_dated
        for each in (window, *(beside if verdict == "match" else ())):
            store_receipt(database, dataset, KEY, each, at=moment, verdict=verdict, announced=9, rows=8)
        of_march = slice_problems(database, [dataset.name], months=[MONTH.start])
        found = [each.severity for each in of_march if each.kind == "mismatched"]
        return found[0] if found else "none"

    for days in (1, 2) if dataset.is_dated else ():  # those of the days beside confirm nothing
        at = NOW - timedelta(days=days)
        for beside in (SECOND, Window.month_of(date(2026, 2, 1))):
            store_receipt(database, dataset, KEY, beside, at=at, verdict="mismatch", announced=9, rows=8)
    verdicts = ["mismatch", "mismatch", "match", "mismatch", "mismatch", "mismatch"]
    assert [read(day, verdict) for day, verdict in enumerate(verdicts)] == [
        "error",
        "error",
        "none",
        "error",
        "error",
        "warning",
    ]


def test_a_list_that_was_chosen_for_no_account_is_a_note(database: Database) -> None:
    """Before anything else than accounts was read, nothing was chosen yet."""
    database.execute(text("UPDATE platform.accounts SET first_seen_at = now() - interval '27 hours'"))
    keep_history_start(database, MONTH.start)
    severities = []
    for dataset, account in ((dataset_named("accounts"), "default"), (INVENTORY, KEY), (ORDERS, KEY)):
        store_receipt(database, dataset, account, FIRST)
        severities.append({each.severity for each in slice_problems(database, ["orders"])})

    assert severities == [{"error"}, {"note"}, {"error"}]


def test_an_older_load_of_a_list_without_days_does_not_replace_a_newer_one(database: Database) -> None:
    newer = Window.day(date(2026, 3, 2))
    older_id = database.execute(text("SELECT nextval(pg_get_serial_sequence('platform.loads', 'id'))")).scalar_one()
    load = store_receipt(database, INVENTORY, KEY, newer, rows=7)
    for window in (newer, Window.day(date(2026, 3, 1))):
        store_receipt(database, INVENTORY, KEY, window, **({"id": older_id} if window == newer else {}), rows=5)

    of_other = store_receipt(database, INVENTORY, "de-2", Window.day(date(2026, 3, 1)))

    stored = "SELECT load_id, rows, newest_day, first_day FROM platform.slices WHERE dataset = 'inventory' ORDER BY 1"
    days = (newer.start, date(2026, 3, 1))
    assert [*database.execute(text(stored)).tuples()] == [(load, 7, *days), (of_other, 0, days[1], days[1])]
