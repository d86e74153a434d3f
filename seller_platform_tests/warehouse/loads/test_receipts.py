"""Tests the days that receipts cover, and days that may have changed since."""

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, newest_receipts, unreported_loads, was_loaded
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded, store_receipt

TRANSACTIONS, BY_PRODUCT, ORDERS, DAILY = (
    dataset_named(name) for name in ("transactions", "sales_by_product", "orders", "daily_product_sales")
)
ZONE = ZoneInfo("Asia/Tokyo")
MARCH = Window.month_of(date(2026, 3, 1))


def test_loads_that_another_process_reports_are_not_awaited_for_ever(database: Database) -> None:
    mark_loaded(database, TRANSACTIONS, "jp-1", MARCH)

    with (
        unreported_loads(database, [TRANSACTIONS], None, limit=10) as lent,
        unreported_loads(database, [TRANSACTIONS], None, limit=10, wait_seconds=0) as waiting,
    ):
        assert (len(lent), len(waiting)) == (1, 0)
    with unreported_loads(database, [TRANSACTIONS], None, limit=10, wait_seconds=0) as later:
        assert len(later) == 1


def test_a_slice_was_loaded_that_has_a_receipt_of_its_account_and_month(database: Database) -> None:
    mark_loaded(database, TRANSACTIONS, "jp-1", MARCH)
    february, april = (Window.month_of(date(2026, month, 1)) for month in (2, 4))

    asked = [(TRANSACTIONS, "jp-1"), (TRANSACTIONS, "S.KR"), (TRANSACTIONS, "S.IN"), (BY_PRODUCT, "jp-1")]
    assert [was_loaded(database, *each) for each in asked] == [True, False, False, False]
    assert [was_loaded(database, TRANSACTIONS, "jp-1", each) for each in (february, MARCH, april)] == [
        False,
        True,
        False,
    ]


def test_the_newest_receipts_are_those_of_the_dataset(database: Database) -> None:
    february = Window.month_of(date(2026, 2, 1))
    for dataset in (BY_PRODUCT, TRANSACTIONS, ORDERS):
        for account in ("jp-1", "S.KR"):
            mark_loaded(database, dataset, account, MARCH, february)

    newest = newest_receipts(database, BY_PRODUCT)

    expected = (BY_PRODUCT.name, february)
    assert {account: (each.dataset, each.window) for account, each in newest.items()} == {
        "jp-1": expected,
        "S.KR": expected,
    }


def test_days_that_are_held_are_due_not_those_of_other_holds(database: Database) -> None:
    april = Window.month_of(date(2026, 4, 1))
    mark_loaded(database, ORDERS, "jp-1", april)
    for dataset, account in ((DAILY, "jp-1"), (TRANSACTIONS, "jp-1"), (ORDERS, "S.IN"), (ORDERS, "S.KR")):
        store_receipt(database, dataset, account, april, verdict="held", changed=False)
    store_receipt(database, ORDERS, "jp-1", Window.day(april.start), verdict="held", changed=False)

    day = AccountDay.at(datetime.now(UTC), "jp-1", ZONE)
    due = days_due(database, [ORDERS], [day], since=april.start, again=True, lookbacks={("orders", "jp-1"): -100})

    assert due["orders", "jp-1"][0] == Window.day(april.start)
