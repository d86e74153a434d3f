"""Tests the coverage of datasets: stored rows, missing days and age."""

from datetime import UTC, date, datetime, timedelta

import time_machine

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.coverage import coverage
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database

TRANSACTIONS, STOCK = dataset_named("transactions"), dataset_named("warehouse_stock")
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)


def _load(  # noqa: PLR0917  # six facts, each of another type
    database: Database, dataset: Dataset, window: Window, rows: int, verdict: CountVerdict, at: datetime
) -> None:
    values = [None if column.nullable else f"{column.name}" for column in dataset.columns]
    with time_machine.travel(at, tick=False), open_load(database, Slice(dataset, "S.JP", window)) as load:
        load.spool.write([(*values, window.start)] * rows, page=1)
        load.store(LoadFacts(1, 1, 0, rows, verdict), started_at=at)


def test_missing_days_rows_and_the_worst_verdict_are_shown(database: Database) -> None:
    march = Window.month_of(date(2026, 3, 1))
    _load(database, TRANSACTIONS, march.until(date(2026, 3, 5)), 3, CountVerdict.MISMATCH, NOON - timedelta(days=2))
    _load(database, TRANSACTIONS, march.until(date(2026, 3, 5)), 2, CountVerdict.MATCH, NOON - timedelta(days=1))
    _load(database, TRANSACTIONS, march.since(date(2026, 3, 10)), 4, CountVerdict.UNVERIFIABLE, NOON)

    (stored,) = coverage(database)

    assert (stored.first_day, stored.last_day, stored.missing_days) == (date(2026, 3, 1), date(2026, 3, 31), 5)
    assert (stored.rows, stored.verdict, stored.read_at) == (6, "unverifiable", NOON)


def test_of_snapshots_the_newest_is_counted(database: Database) -> None:
    _load(database, STOCK, Window.day(date(2026, 3, 1)), 5, CountVerdict.MATCH, NOON - timedelta(days=9))
    _load(database, STOCK, Window.day(date(2026, 3, 9)), 2, CountVerdict.MATCH, NOON)

    (stored,) = coverage(database)

    assert (stored.rows, stored.missing_days) == (2, 0)


def test_nothing_is_covered_before_the_first_load(database: Database) -> None:
    assert coverage(database) == ()
