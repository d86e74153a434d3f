"""Tests when a load is large enough for loading processes."""

from datetime import UTC, date, datetime
from multiprocessing import forkserver

import pytest
from sqlalchemy import insert

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.ingest.loads.expectation import expected_rows, processes_for
from seller_platform.ingest.loads.processes import FEWEST_ROWS, running_processes
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
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
    return expected_rows(database, LISTS, keys, now=NOW, since=MARCH.start, months=months)


def test_unknown_lists_are_expected_to_have_a_hundred_rows_a_day(registered: Database) -> None:
    assert _expected(registered, [MARCH]) == 2 * 2 * 31 * 100
    assert _expected(registered, [MARCH], ("S1.DE", "S9.XX")) == 2 * 31 * 100


def test_loaded_lists_are_expected_to_have_as_many_rows_as_they_had(registered: Database) -> None:
    _store_load(registered, "S1.DE", rows=31 * 7)

    assert _expected(registered, [MARCH]) == 2 * 31 * 7 + 2 * 31 * 100


def test_many_loads_of_one_day_do_not_hide_those_of_other_lists(registered: Database) -> None:
    _store_load(registered, "S1.DE", rows=31 * 2_000)
    _store_load(registered, "S1.DE", rows=31 * 3_000, dataset="transactions")
    for _ in range(1_000):
        _store_load(registered, "S1.DE", rows=0, window=Window.day(MARCH.start))

    # Ten loads of one day count beside that of the month.
    assert _expected(registered, [MARCH]) == pytest.approx(2 * 31 * (2_000 * 31 / 41 + 3_000))


def test_only_days_that_may_have_changed_are_expected(registered: Database) -> None:
    _store_load(registered, "S1.DE", rows=31 * 7)

    # The orders of the first account were read today.
    assert _expected(registered, None) == 31 * 7 + 2 * 31 * 100


@pytest.mark.parametrize(("rows", "start"), [(FEWEST_ROWS - 1, False), (FEWEST_ROWS, True)])
def test_processes_run_for_enough_rows_and_only_for_their_warehouse(database_url: str, rows: int, start: bool) -> None:
    settings = read_settings()

    with processes_for(rows, settings, database_url):
        assert (running_processes(settings, database_url) is not None) is start
        assert running_processes(settings, f"{database_url}&application_name=other") is None
        other = settings.model_copy(update={"base_url": "http://other"})
        assert running_processes(other, database_url) is None

    assert running_processes(settings, database_url) is None


def _refuse() -> None:
    raise OSError("no process can be started")


def test_a_system_that_starts_no_process_stops_no_load(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forkserver, "ensure_running", _refuse)

    with processes_for(FEWEST_ROWS, read_settings(), database_url):
        assert running_processes(read_settings(), database_url) is None

    assert "no loading process was started, so this process loads alone" in caplog.text
