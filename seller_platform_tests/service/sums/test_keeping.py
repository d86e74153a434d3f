"""Tests that loads keep sums without waiting for one another, and that `prune` deletes marks that a newer one has."""

from datetime import date

import pytest

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.service.sums.keeping import keep_sums
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.retention import prune
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import locked_sums
from seller_platform_tests.support.stored_rows import count_rows, execute, store_slice, stored

DAILY, LEDGER = map(dataset_named, ("daily_product_sales", "transactions"))
FEBRUARY, MARCH = Window(date(2026, 2, 1), date(2026, 3, 1)), Window(date(2026, 3, 1), date(2026, 4, 1))


def _sale(day: date, sku: str = "A", amount: str = "2.50") -> Row:
    return (day, sku, "Name", "ASIN", 1, amount, "0", "0", "0", day)


_NOT_SUMMED = "SELECT load_id, months::text FROM service.unsummed_loads ORDER BY 1"


@pytest.mark.parametrize(("dataset", "window"), [(DAILY, FEBRUARY), (LEDGER, MARCH)])
def test_loads_of_neighbouring_slices_wait_for_no_lock(database: Database, dataset: Dataset, window: Window) -> None:
    # The last days of February and the first of March are of one week.
    store_slice(database, DAILY, MARCH, [_sale(MARCH.start)])
    store_slice(database, DAILY, FEBRUARY, [_sale(FEBRUARY.last_day)])

    with database.begin() as first, database.begin() as second:
        keep_sums(first, DAILY, "us-1", MARCH, load_id=0)
        second.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
        keep_sums(second, dataset, "us-1", window, load_id=0)

    assert stored(database, _NOT_SUMMED) == []


def test_a_load_does_not_wait_for_a_program_that_sums(database: Database) -> None:
    with locked_sums(database.url):
        store_slice(database, DAILY, MARCH, [_sale(MARCH.start)])
        with database.begin() as loading:
            keep_sums(loading, DAILY, "us-1", Window(FEBRUARY.start, MARCH.end), load_id=2)

    assert stored(database, _NOT_SUMMED) == [(1, "[2026-03-01,2026-04-01)"), (2, "[2026-02-01,2026-04-01)")]
    assert count_rows(database, "service.product_days") == 0


def test_a_load_that_changes_few_products_sums_these_again(database: Database) -> None:
    for amount in ("2.50", "9.25"):
        store_slice(database, DAILY, MARCH, [_sale(MARCH.start, "A", amount), _sale(MARCH.start, "B", "1.00")])

    counts = stored(database, "SELECT part, is_merged, rows FROM service.daily_counts ORDER BY is_merged")
    sums = stored(database, "SELECT sku, amount::text, units FROM service.product_days ORDER BY sku")
    assert counts == [("platform", False, 2), (None, True, 2)]
    assert stored(database, "SELECT account, dataset FROM service.summaries") == [("us-1", DAILY.name)]
    assert sums == [("A", "9.25", 1), ("B", "1.00", 1)]


def test_a_month_that_no_request_summed_is_marked_once(database: Database) -> None:
    execute(
        database,
        """
        INSERT INTO service.unsummed_loads (account, dataset, load_id, months)
        VALUES ('us-1', 'orders', 1, '[2026-02-01, 2026-03-01)'), ('us-1', 'orders', 2, '[2026-03-01, 2026-04-01)'),
               ('us-1', 'orders', 3, '[2026-03-01, 2026-05-01)'), ('us-1', 'orders', 4, '[2026-04-01, 2026-05-01)'),
               ('us-1', 'inventory', 9, '[2026-01-01, 2027-01-01)'), ('us-1', 'stock', 9, '[2026-01-01, 2027-01-01)'),
               ('us-0', 'orders', 9, '[2026-01-01, 2027-01-01)'), ('us-2', 'orders', 9, '[2026-01-01, 2027-01-01)')
        """,
    )

    prune(database, snapshots_before=date.min, receipts_before=date.min, dry=False)

    marks = stored(database, "SELECT account, dataset, load_id FROM service.unsummed_loads ORDER BY 1, 2, 3")
    assert marks == [
        ("us-0", "orders", 9),
        ("us-1", "inventory", 9),
        *(("us-1", "orders", load) for load in (1, 3, 4)),
        ("us-1", "stock", 9),
        ("us-2", "orders", 9),
    ]
