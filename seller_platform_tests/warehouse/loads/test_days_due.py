"""Tests the days that receipts cover, and those that a refresh has to read."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
import time_machine

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.days_due import CLOCKS_DIFFER, AccountDay, days_due, days_read
from seller_platform.warehouse.loads.receipts import (
    Slice,
    keep_reported,
    newest_receipts,
    unreported_loads,
    was_loaded,
    why_it_waits,
)
from seller_platform.warehouse.loads.slices import open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import mark_loaded, store_receipt

ORDERS, INVENTORY, TRANSACTIONS, BY_PRODUCT, ACCOUNTS = map(
    dataset_named, ("orders", "inventory", "transactions", "sales_by_product", "accounts")
)
MARCH = Window.month_of(date(2026, 3, 1))


def _load(database: Database, dataset: Dataset, account: str, window: Window, at: datetime) -> None:
    zone = str(at.tzinfo)
    for month in window.months():
        slice_ = Slice(dataset, account, month, time_zone=zone)
        with time_machine.travel(at, tick=False), open_load(database, slice_) as load:
            load.store(LoadFacts(1, 1, 0, 0, CountVerdict.MATCH), started_at=at, run_id="run")


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize("today", [date(2026, 3, 9), date(2026, 4, 5), date(2026, 11, 2), date(2026, 5, 20)])
def test_days_are_due_until_read_later_than_the_lookback_after_them(zone: str, today: date, database: Database) -> None:
    there, month = ZoneInfo(zone), Window.month_of(today - timedelta(days=35))
    for days_ago, hour in ((40, 1), (36, 23), (33, 12), (5, 0)):
        at = datetime.combine(today - timedelta(days=days_ago), time(hour, 30), there)
        _load(database, ORDERS, "A", month.until(at.date() - timedelta(days=days_ago % 7)), at)
    lookback = timedelta(days=ORDERS.lookback_days)
    before = Window.month_of(month.start - timedelta(days=1))
    _load(database, ORDERS, "A", before, datetime.combine(before.last_day + lookback, time(12), there))
    for dataset, account in ((ORDERS, "B"), (TRANSACTIONS, "A")):
        _load(database, dataset, account, month, datetime.combine(today, time(1), there))
    day = AccountDay.at(datetime.combine(today, time(12), there), "A", there)

    due = days_due(database, [ORDERS], [day], since=before.start)

    until_today = Window(before.start, today + timedelta(days=1))
    read = days_read(database, ORDERS, "A", until_today, there, now=day.moment)
    expected = [each for each in until_today.each_day() if each not in read or read[each] <= each + lookback]
    assert [each for window in due["orders", "A"] for each in window.each_day()] == expected


def test_days_read_since_midnight_are_not_due(database: Database) -> None:
    tokyo, today = ZoneInfo("Asia/Tokyo"), date(2026, 5, 20)
    midnight = datetime(2026, 5, 19, 15, tzinfo=UTC)
    _load(database, ORDERS, "A", Window(date(2026, 5, 1), today), midnight - timedelta(minutes=1))
    _load(database, ORDERS, "A", Window(date(2026, 5, 10), date(2026, 5, 15)), midnight)
    _load(database, INVENTORY, "A", Window.day(today), midnight)
    before = midnight - timedelta(minutes=1)
    for dataset, account, held, at in (
        (ORDERS, "A", Window(date(2026, 5, 1), date(2026, 5, 4)), midnight),
        (ORDERS, "A", Window.day(date(2026, 5, 6)), midnight),
        (ORDERS, "A", Window.day(date(2026, 5, 14)), before),
        (ORDERS, "B", Window.month_of(today), before),
        (TRANSACTIONS, "A", Window.month_of(today), before),
    ):
        store_receipt(database, dataset, account, held, at=at, verdict="held")
    day = AccountDay.at(datetime(2026, 5, 20, 11, tzinfo=UTC), "A", tokyo)

    due = days_due(database, [ORDERS, INVENTORY], [day], since=date(2026, 5, 1))

    assert (day.today, day.begins_at) == (today, midnight)
    assert due == {
        ("orders", "A"): (Window(date(2026, 5, 4), date(2026, 5, 10)), Window(date(2026, 5, 14), date(2026, 5, 21)))
    }
    assert days_due(database, [ORDERS], [day], since=today + timedelta(days=2)) == {}


@pytest.mark.parametrize(
    ("today", "windows"),
    [
        (date(2026, 5, 20), [Window(date(2026, 5, 19), date(2026, 5, 21))]),
        (date(2026, 6, 1), [Window.day(date(2026, 5, 31)), Window.day(date(2026, 6, 1))]),
    ],
)
def test_yesterday_is_due_although_its_last_orders_were_read_at_midnight(
    today: date, windows: list[Window], database: Database
) -> None:
    tokyo, yesterday = ZoneInfo("Asia/Tokyo"), today - timedelta(days=1)
    for window in windows:
        _load(database, ORDERS, "A", window, datetime.combine(today, time(0, 59), tokyo))
    day = AccountDay.at(datetime.combine(today, time(20), tokyo), "A", tokyo)

    due = days_due(database, [ORDERS], [day], since=yesterday)
    never_read = days_due(database, [ORDERS], [day], since=yesterday, lookbacks={("orders", "A"): -36_500})
    _load(database, ORDERS, "A", Window.day(yesterday), datetime.combine(today, time(20), tokyo))
    after_a_refresh = days_due(database, [ORDERS], [day], since=yesterday)

    assert due == {("orders", "A"): (Window.day(yesterday),)}
    assert never_read == after_a_refresh == {}


def test_what_a_clock_that_was_ahead_has_read_is_due(database: Database) -> None:
    at, months = datetime(2145, 5, 20, 11, tzinfo=UTC), Window(date(2145, 4, 1), date(2145, 5, 21))
    today = Window.day(at.date())
    for dataset, window in ((ORDERS, months), (INVENTORY, today)):
        _load(database, dataset, "A", window, at + CLOCKS_DIFFER)
    store_receipt(database, ORDERS, "A", Window.month_of(at.date()), at=at + CLOCKS_DIFFER, verdict="held")
    day = AccountDay.at(at, "A", ZoneInfo("Europe/Berlin"))

    due = days_due(database, [ORDERS, INVENTORY], [day], since=months.start)

    assert due == {("orders", "A"): (months,), ("inventory", "A"): (today,)}


def test_loads_are_reported_once_oldest_first_without_waiting_for_ever(database: Database) -> None:
    for account in ("jp-2", "jp-1", "jp-3"):
        for dataset in (ORDERS, TRANSACTIONS):
            mark_loaded(database, dataset, account, MARCH)
    keep_reported(database, [6])

    def unreported(accounts: list[str] | None = None, **options: int) -> list[str]:
        with unreported_loads(
            database, [TRANSACTIONS], accounts, **{"limit": 10, "wait_seconds": 0, **options}
        ) as lent:
            return [each.account for each in lent]

    with unreported_loads(database, [TRANSACTIONS], None, limit=10):
        assert unreported() == []
    assert unreported() == ["jp-2", "jp-1"]
    assert [unreported(limit=1), unreported(after=2), unreported(["jp-1"])] == [["jp-2"], ["jp-1"], ["jp-1"]]


def test_an_account_waits_for_the_newest_held_list_of_its_connection(database: Database) -> None:
    def waits() -> list[tuple[int, str] | None]:
        account = Account(1, "Shop", "US", "USD", "UTC", "US", "S1")
        return [why_it_waits(database, KnownAccount(key, "default", account)) for key in ("us-1", "us-2")]

    lists = ((ACCOUNTS, "default", 1), (ACCOUNTS, "default", 1), (ACCOUNTS, "other", 2), (ORDERS, "default", 2))
    for dataset, connection, number in lists:
        notes = {"held": {"reason": "it is new"}, "waiting": [f"us-{number}"]}
        store_receipt(database, dataset, connection, MARCH, verdict="held", notes=notes)
    held = waits()
    store_receipt(database, ACCOUNTS, "default", MARCH)

    assert (held, waits()) == ([(2, "it is new"), None], [None, None])


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
