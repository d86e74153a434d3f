"""Tests when a load is large enough for loading processes."""

from datetime import UTC, date, datetime

import pytest
from sqlalchemy import insert

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.ingest.loads.planner import Planner
from seller_platform.warehouse.connections.accounts import KnownConnection, accounts, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import LOADS

NOW = datetime(2026, 3, 31, 12, tzinfo=UTC)
MARCH = Window.month_of(date(2026, 3, 1))
LISTS = [dataset_named(name) for name in ("orders", "transactions", "sales_by_product", "inventory")]
KEYS = ("S1.DE", "S1.FR")


@pytest.fixture
def registered(database: Database) -> Database:
    """A warehouse with two accounts."""
    save_connection(database, KnownConnection("default", "http://api", "http://api", "id"))
    accounts = [Account(number, key, "DE", "EUR", "Europe/Berlin", key[-2:], "S1") for number, key in enumerate(KEYS)]
    save_accounts(database, "default", list(zip(KEYS, accounts, strict=True)))
    return database


def _store_load(
    database: Database, account: str, rows: int, *, dataset: str = "orders", window: Window = MARCH
) -> None:
    facts = {"requests": 1, "pages": 1, "body_bytes": 1, "digest": b"", "changed": True, "verdict": CountVerdict.MATCH}
    days = {"window_start": window.start, "window_end": window.end}
    times = {"started_at": NOW, "finished_at": NOW}
    with database.begin() as connection:
        connection.execute(insert(LOADS).values(dataset=dataset, account=account, rows=rows, **days, **facts, **times))


def _expected(database: Database, months: list[Window] | None, keys: tuple[str, ...] = KEYS) -> float:
    chosen = [each for each in accounts(database) if each.key in keys]
    planner = Planner(database, chosen, MARCH.start, NOW, adaptive=False)
    return planner.divide(planner.requested(LISTS, months)).rows


def test_unknown_lists_are_expected_to_have_a_hundred_rows_a_day(registered: Database) -> None:
    assert _expected(registered, [MARCH]) == 2 * 2 * 31 * 100
    assert _expected(registered, [MARCH], ("S1.DE",)) == 2 * 31 * 100


def test_loaded_lists_are_expected_to_have_as_many_rows_as_they_had(registered: Database) -> None:
    _store_load(registered, "S1.DE", rows=31 * 7)

    assert _expected(registered, [MARCH]) == 2 * 31 * 7 + 2 * 31 * 100
