"""Tests the coverage of datasets: stored rows, missing days and age."""

from datetime import UTC, date, datetime, timedelta

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.warehouse.monitoring.coverage import coverage
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import connect_accounts, store_slice

TRANSACTIONS, STOCK = dataset_named("transactions"), dataset_named("warehouse_stock")
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
SINCE = date(2026, 3, 1)
MARCH = Window.month_of(SINCE)


def _load(  # noqa: PLR0917  # six facts, each of another type
    database: Database, dataset: Dataset, window: Window, rows: int, verdict: CountVerdict, at: datetime
) -> None:
    values = [None if column.nullable else f"{column.name}" for column in dataset.columns]
    store_slice(database, dataset, window, [(*values, window.start)] * rows, "jp-1", verdict=verdict, at=at)


def _list_accounts(database: Database, *keys: str) -> None:
    account = Account(1, "Shop", "JP", "JPY", "Asia/Tokyo", "JP", "S")
    connect_accounts(database, [(key, account) for key in keys])


def test_missing_days_and_rows_are_shown(database: Database) -> None:
    _load(database, TRANSACTIONS, MARCH.until(date(2026, 3, 5)), 3, CountVerdict.MISMATCH, NOON - timedelta(days=2))
    _load(database, TRANSACTIONS, MARCH.until(date(2026, 3, 5)), 2, CountVerdict.MATCH, NOON - timedelta(days=1))
    _load(database, TRANSACTIONS, MARCH.since(date(2026, 3, 10)), 4, CountVerdict.UNVERIFIABLE, NOON)

    (stored,) = coverage(database, since=SINCE, now=NOON)

    assert (stored.first_day, stored.last_day, stored.missing_days) == (date(2026, 3, 1), date(2026, 3, 31), 5)
    assert (stored.rows, stored.read_at) == (6, NOON)


def test_a_retired_account_has_lines_only_for_what_is_stored(database: Database) -> None:
    _list_accounts(database, "jp-1")
    _list_accounts(database, "jp-9")
    _load(database, STOCK, Window.day(SINCE), 1, CountVerdict.MATCH, NOON)

    retired = [each for each in coverage(database, since=SINCE, now=NOON) if each.account == "jp-1"]

    assert [each.dataset for each in retired] == ["warehouse_stock"]
