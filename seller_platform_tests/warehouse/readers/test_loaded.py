"""Tests that readers refuse what was never loaded, and name it."""

from datetime import date

import pytest

from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.errors import NotLoadedError
from seller_platform.warehouse.marts import mart_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.arrow import read_arrow
from seller_platform.warehouse.readers.relations import Selection, relation_of
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.stored_rows import connect_accounts

BERLIN, ADELAIDE = "at-1", "au-2"
ORDERS, STOCK, REPORTS = map(dataset_named, ("orders", "warehouse_stock", "report_rows"))
PROFIT, HEALTH = mart_named("account_profit_daily"), mart_named("inventory_health")
JANUARY, FEBRUARY, MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (1, 2, 3, 4))


@pytest.fixture(autouse=True)
def _account(database: Database) -> None:
    connect_accounts(database, [(BERLIN, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "EU", "S1"))])


def _rows(database: Database, window: Window | None = None) -> int:
    return len(read_arrow(database, relation_of(ORDERS), [Selection(BERLIN, window)]))


def test_months_inside_a_range_are_named_together(database: Database) -> None:
    mark_loaded(database, ORDERS, BERLIN, JANUARY, APRIL)
    year = Window(date(2025, 12, 15), date(2026, 7, 1))

    with pytest.raises(NotLoadedError, match=r": orders of at-1, 2025-12, 2026-02 to 2026-03, 2026-05 to 2026-06\."):
        _rows(database, year)


def test_only_the_days_that_are_asked_for_count(database: Database) -> None:
    mark_loaded(database, ORDERS, BERLIN, Window(date(2026, 3, 1), date(2026, 3, 6)))

    assert _rows(database, Window.day(date(2026, 3, 5))) == 0
    with pytest.raises(NotLoadedError, match="2026-03"):
        _rows(database, Window.day(date(2026, 3, 6)))


def test_all_days_of_an_account_have_no_month_missing_between_them(database: Database) -> None:
    with pytest.raises(NotLoadedError, match=r": orders of at-1\. "):
        _rows(database)
    mark_loaded(database, ORDERS, BERLIN, JANUARY, MARCH)
    with pytest.raises(NotLoadedError, match=r"orders of at-1, 2026-02\."):
        _rows(database)
    mark_loaded(database, ORDERS, BERLIN, FEBRUARY)

    assert _rows(database) == 0


def test_several_accounts_are_named_each_with_its_months(database: Database) -> None:
    mark_loaded(database, ORDERS, BERLIN, MARCH)
    orders = relation_of(ORDERS)

    with pytest.raises(NotLoadedError, match=r"orders of at-1, 2026-04; orders of au-2, 2026-03 to 2026-04\."):
        read_arrow(database, orders, [Selection(key, each) for key in (ADELAIDE, BERLIN) for each in (MARCH, APRIL)])
    with pytest.raises(NotLoadedError, match=r"orders of a0, 2026-03; .*; 7 more accounts\."):
        read_arrow(database, orders, [Selection(f"a{number}", MARCH) for number in range(10)])


@pytest.mark.parametrize("dataset", [STOCK, REPORTS], ids=lambda dataset: dataset.name)
def test_what_is_not_loaded_by_month_was_loaded_once_in_the_days(database: Database, dataset: Dataset) -> None:
    relation = relation_of(dataset)
    day = Window.day(date(2026, 3, 2))

    with pytest.raises(NotLoadedError, match=rf": {relation.name} of at-1\."):
        read_arrow(database, relation, [Selection(BERLIN)])
    mark_loaded(database, dataset, BERLIN, day)

    assert read_arrow(database, relation, [Selection(BERLIN)]).num_rows == 0
    assert read_arrow(database, relation, [Selection(BERLIN, Window(JANUARY.start, MARCH.end))]).num_rows == 0
    with pytest.raises(NotLoadedError, match=rf": {relation.name} of at-1, 2026-04-01\."):
        read_arrow(database, relation, [Selection(BERLIN, APRIL)])
