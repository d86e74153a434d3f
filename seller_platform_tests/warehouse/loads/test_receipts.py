"""Tests the days that receipts cover, and days that may have changed since."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import time_machine

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.receipts import (
    days_read,
    newest_load,
    newest_receipts,
    receipts_of_run,
    unreported_loads,
    was_loaded,
)
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded, store_receipt

TRANSACTIONS, BY_PRODUCT, ORDERS, DAILY = (
    dataset_named(name) for name in ("transactions", "sales_by_product", "orders", "daily_product_sales")
)
ZONE = ZoneInfo("Asia/Tokyo")
MARCH = Window.month_of(date(2026, 3, 1))


def _load(database: Database, window: Window, at: datetime, run_id: str = "run") -> None:
    with time_machine.travel(at, tick=False), open_load(database, Slice(TRANSACTIONS, "S.JP", window)) as load:
        load.store(LoadFacts(1, 1, 0, 0, CountVerdict.MATCH), started_at=at, run_id=run_id)


def test_a_day_is_known_by_the_local_day_of_its_last_reading(database: Database) -> None:
    evening = datetime(2026, 3, 2, 20, tzinfo=UTC)
    _load(database, Window(date(2026, 3, 1), date(2026, 3, 3)), evening - timedelta(days=1))
    _load(database, Window.day(date(2026, 3, 2)), evening)

    read = days_read(database, TRANSACTIONS, "S.JP", MARCH, ZONE, now=evening)

    assert read == {date(2026, 3, 1): date(2026, 3, 2), date(2026, 3, 2): date(2026, 3, 3)}


def test_a_run_has_the_receipts_of_its_loads(database: Database) -> None:
    at = datetime(2026, 3, 2, 20, tzinfo=UTC)
    for run_id in ("b", "a", "b", "c"):
        _load(database, MARCH, at, run_id)

    first, second = receipts_of_run(database, "b")

    assert (first.run_id, second.run_id, first.id < second.id) == ("b", "b", True)
    assert receipts_of_run(database, "d") == ()


def test_loads_that_another_process_reports_are_not_awaited_for_ever(database: Database) -> None:
    mark_loaded(database, TRANSACTIONS, "S.JP", MARCH)

    with (
        unreported_loads(database, [TRANSACTIONS], None, limit=10) as lent,
        unreported_loads(database, [TRANSACTIONS], None, limit=10, wait_seconds=0) as waiting,
    ):
        assert (len(lent), len(waiting)) == (1, 0)
    with unreported_loads(database, [TRANSACTIONS], None, limit=10, wait_seconds=0) as later:
        assert len(later) == 1


def test_a_slice_was_loaded_that_has_a_receipt_of_its_account_and_month(database: Database) -> None:
    mark_loaded(database, TRANSACTIONS, "S.JP", MARCH)
    february, april = (Window.month_of(date(2026, month, 1)) for month in (2, 4))

    asked = [(TRANSACTIONS, "S.JP"), (TRANSACTIONS, "S.KR"), (TRANSACTIONS, "S.IN"), (BY_PRODUCT, "S.JP")]
    assert [was_loaded(database, *each) for each in asked] == [True, False, False, False]
    assert [was_loaded(database, TRANSACTIONS, "S.JP", each) for each in (february, MARCH, april)] == [
        False,
        True,
        False,
    ]


def test_the_newest_load_is_the_last_that_ended(database: Database) -> None:
    assert newest_load(database) is None
    ends = list[datetime]()
    for hour in (7, 9, 8):
        _load(database, MARCH, datetime(2026, 3, 2, hour, tzinfo=UTC))
        ends.append(newest_load(database) or datetime.min.replace(tzinfo=UTC))

    assert ends == sorted(set(ends))


def test_the_newest_receipts_are_those_of_the_dataset(database: Database) -> None:
    february = Window.month_of(date(2026, 2, 1))
    for dataset in (BY_PRODUCT, TRANSACTIONS, ORDERS):
        for account in ("S.JP", "S.KR"):
            mark_loaded(database, dataset, account, MARCH, february)

    newest = newest_receipts(database, BY_PRODUCT)

    expected = (BY_PRODUCT.name, february)
    assert {account: (each.dataset, each.window) for account, each in newest.items()} == {
        "S.JP": expected,
        "S.KR": expected,
    }


def test_holds_of_other_lists_and_accounts_leave_the_days_read(database: Database) -> None:
    april = Window.month_of(date(2026, 4, 1))
    mark_loaded(database, ORDERS, "S.JP", april)
    for dataset, account in ((DAILY, "S.JP"), (TRANSACTIONS, "S.JP"), (ORDERS, "S.IN"), (ORDERS, "S.KR")):
        store_receipt(database, dataset, account, april, verdict="held", changed=False)
    store_receipt(database, ORDERS, "S.JP", Window.day(april.start), verdict="held", changed=False)

    read = days_read(database, ORDERS, "S.JP", april, ZONE, now=datetime.now(UTC))

    assert set(read) == {*april.each_day()} - {april.start}


def test_several_loads_are_lent_at_once(database: Database) -> None:
    mark_loaded(database, TRANSACTIONS, "S.JP", MARCH, Window.month_of(date(2026, 2, 1)))

    with unreported_loads(database, [TRANSACTIONS], None, limit=10) as lent:
        assert len(lent) == 2
