"""Tests by which law days change, that a refresh reads no more, and that new days are compared with former ones."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.history.settledness import lookbacks, settledness
from seller_platform.warehouse.history.volumes import unusual_days
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.days_due import AccountDay, days_due
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import add_rows, store_slice

TRANSACTIONS = dataset_named("transactions")
ACCOUNT = "us-7"
ROWS_A_DAY = 50
CHANGED_AT_AGE = {1: 10, 2: 5, 3: 2, 4: 1}
"""The law: how many rows of a day change when it is so many days old."""


def _amount(number: int, age: int) -> Decimal:
    """Return the amount of a row of a day of that age: each change adds 1."""
    changes = sum(number < rows for changed_at, rows in CHANGED_AT_AGE.items() if changed_at <= age)
    return Decimal(10 + changes)


def _rows(days: Window, today: date, grows_on: Sequence[date]) -> list[Row]:
    rows = []
    for day in days.each_day():
        for number in range(ROWS_A_DAY * (1 + sum(day >= each for each in grows_on))):
            values = {
                "order_id": f"order-{number}",
                "amount": _amount(number % ROWS_A_DAY, (today - day).days),
                "currency": "USD",
                str(TRANSACTIONS.day): f"{day}T10:00:00+00:00",
            }
            rows.append((*(values.get(column.name) for column in TRANSACTIONS.columns), day.isoformat()))
    return rows


def _refresh(database: Database, today: date, lookback_days: int, *, grows_on: Sequence[date] = ()) -> None:
    """Read the days that a daily refresh reads, cut at the border of months.

    Args:
        grows_on: From each of these days on, a day has as many rows more as at first.
    """
    for window in Window(today - timedelta(days=lookback_days), today + timedelta(days=1)).months():
        at = datetime(today.year, today.month, today.day, 4, tzinfo=UTC)
        store_slice(database, TRANSACTIONS, window, _rows(window, today, grows_on), ACCOUNT, at=at)


def test_a_refresh_reads_the_days_that_change_by_the_law(database: Database) -> None:
    today = datetime.now(UTC).date()
    for ago in range(35, -1, -1):
        _refresh(database, today - timedelta(days=ago), TRANSACTIONS.lookback_days)
    tomorrow = today + timedelta(days=1)
    day = AccountDay(ACCOUNT, tomorrow, datetime.now(UTC), datetime.now(UTC) + timedelta(days=1))

    found = settledness(database, [TRANSACTIONS], [ACCOUNT])[TRANSACTIONS.name, ACCOUNT]
    due = [
        days_due(
            database,
            [TRANSACTIONS],
            [day],
            since=tomorrow - timedelta(days=60),
            lookbacks=lookbacks(database, [TRANSACTIONS], [ACCOUNT], adaptive=adaptive),
        )
        for adaptive in (True, False)
    ]

    for days, percent in found.percent.items():
        expected = sum(100 * rows / ROWS_A_DAY for age, rows in CHANGED_AT_AGE.items() if age > days)
        assert float(percent) == pytest.approx(expected, rel=0.1), days
    assert found.settles_after(TRANSACTIONS.lookback_days) == 5
    begins = [windows[TRANSACTIONS.name, ACCOUNT][-1].start for windows in due]
    assert (tomorrow - begins[0]).days <= 6 < (tomorrow - begins[1]).days


def test_a_season_changes_no_share_that_settledness_has(database: Database) -> None:
    today = datetime.now(UTC).date()
    grows_on = [today - timedelta(days=ago) for ago in (16, 12, 8, 4)]
    for ago in range(35, -1, -1):
        _refresh(database, today - timedelta(days=ago), 14, grows_on=grows_on)

    percent = settledness(database, [TRANSACTIONS], [ACCOUNT])[TRANSACTIONS.name, ACCOUNT].percent

    for days in (1, 2, 3, 5):
        expected = sum(100 * rows / ROWS_A_DAY for age, rows in CHANGED_AT_AGE.items() if age > days)
        assert float(percent[days]) == pytest.approx(expected, rel=0.02), days


def test_of_many_accounts_those_computed_the_longest_ago_are_computed_anew(database: Database) -> None:
    today = datetime.now(UTC).date()
    for ago in (2, 1, 0):
        _refresh(database, today - timedelta(days=ago), 5)
    accounts = [ACCOUNT, *(f"us-{1000 + number}" for number in range(70))]

    computed: list[Counter[datetime]] = []
    for _ in range(3):
        found = settledness(database, [TRANSACTIONS], accounts)
        moments = database.execute(text("SELECT computed_at FROM platform.kept_settledness")).scalars()
        computed.append(Counter(moments))

    assert set(found) == {(TRANSACTIONS.name, ACCOUNT)}
    assert [moments.total() for moments in computed] == [64, 71, 71]
    assert [(new - old).total() for old, new in pairwise(computed)] == [64, 64]
    view = database.execute(
        text("SELECT after_days, greatest(rows_percent, amounts_percent), observed_days FROM platform.settledness")
    )
    assert {
        (days, share, found[TRANSACTIONS.name, ACCOUNT].observed_days)
        for days, share in found[TRANSACTIONS.name, ACCOUNT].percent.items()
    } == {tuple(row) for row in view}


TODAY = date(2026, 3, 30)
YESTERDAY = TODAY - timedelta(days=1)


def _store(database: Database, rows_by_week: list[int], *, read_weeks: int = 8) -> None:
    """Store rows of yesterday's weekday, of one week before and so on, and receipts of as many weeks."""
    store_receipt(database, TRANSACTIONS, "A", Window(YESTERDAY - timedelta(weeks=read_weeks), TODAY))
    for week, rows in enumerate(rows_by_week, start=1):
        day = YESTERDAY - timedelta(weeks=week)
        add_rows(database, TRANSACTIONS, [(*[None] * 9, day)] * rows, account="A")


@pytest.mark.parametrize(
    ("usual", "read", "is_unusual"),
    [
        ([100, 104, 96, 101], 100, False),
        ([100, 104, 96, 101], 40, False),
        ([100, 104, 96, 101], 30, True),
        ([100, 104, 96, 101], 0, True),
        ([100, 104, 96, 101], 290, False),
        ([100, 104, 96, 101], 310, True),
        ([100, 20, 180, 90], 10, False),
        ([100, 104, 96], 0, False),
        ([8, 9, 8, 9], 0, False),
    ],
)
def test_a_day_far_from_the_same_weekdays_is_unusual(
    database: Database, usual: list[int], read: int, *, is_unusual: bool
) -> None:
    _store(database, usual, read_weeks=len(usual))

    found = unusual_days(database, TRANSACTIONS, "A", Window.day(YESTERDAY), {str(YESTERDAY): read}, today=TODAY)

    assert list(found) == ([str(YESTERDAY)] if is_unusual else [])


def test_days_that_were_never_read_do_not_count_as_days_without_rows(database: Database) -> None:
    _store(database, [100] * 8, read_weeks=3)

    day = {str(YESTERDAY): 900}

    assert unusual_days(database, TRANSACTIONS, "A", Window.day(YESTERDAY), day, today=TODAY) == {}


def test_today_and_older_days_are_not_judged(database: Database) -> None:
    _store(database, [100] * 8)

    old = Window(TODAY - timedelta(days=40), TODAY - timedelta(days=3))
    found = [unusual_days(database, TRANSACTIONS, "A", days, {}, today=TODAY) for days in (Window.day(TODAY), old)]

    assert found == [{}, {}]
