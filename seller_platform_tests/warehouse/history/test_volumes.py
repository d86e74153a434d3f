"""Tests that new days are compared with the same weekdays before."""

from datetime import date, timedelta

import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.history.volumes import unusual_days
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import add_rows

TRANSACTIONS = dataset_named("transactions")
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
