"""Tests when a load is large enough for loading processes."""

from datetime import UTC, date, datetime

import pytest

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.ingest.loads.planner import Planner
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
MARCH = Window.month_of(date(2026, 3, 1))
LISTS = [dataset_named(name) for name in ("orders", "transactions", "sales_by_product", "inventory")]
KEYS = ("S1.DE", "S1.FR")


@pytest.fixture
def registered(database: Database) -> Database:
    """A warehouse with two accounts."""
    accounts = [Account(number, key, "DE", "EUR", "Europe/Berlin", key[-2:], "S1") for number, key in enumerate(KEYS)]
    connect_accounts(database, zip(KEYS, accounts, strict=True))
    return database


def _expected(database: Database, months: list[Window] | None, keys: tuple[str, ...] = KEYS) -> float:
    chosen = [each for each in accounts(database) if each.key in keys]
    planner = Planner(database, chosen, MARCH.start, NOW, adaptive=False)
    return planner.divide(planner.requested(LISTS, months)).rows


def test_unknown_lists_are_expected_to_have_a_hundred_rows_a_day(registered: Database) -> None:
    assert _expected(registered, [MARCH]) == 2 * 2 * 31 * 100
    assert _expected(registered, [MARCH], ("S1.DE",)) == 2 * 31 * 100


def test_loaded_lists_are_expected_to_have_as_many_rows_as_they_had(registered: Database) -> None:
    store_receipt(registered, LISTS[0], "S1.DE", MARCH, at=NOW, rows=31 * 7)

    assert _expected(registered, [MARCH]) == 2 * 31 * 7 + 2 * 31 * 100
