"""Tests that the views of snapshots have the newest of each account."""

from datetime import date

import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, Account, Dataset, Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.latest_views import create_latest_views
from seller_platform_tests.support.stored_rows import connect_accounts, store_slice

STOCK = dataset_named("warehouse_stock")
BERLIN, ADELAIDE = "at-1", "au-2"
SNAPSHOTS = [dataset for dataset in DATASETS if dataset.keeps_snapshots]


@pytest.fixture(autouse=True)
def _accounts(database: Database) -> None:
    accounts = [
        (BERLIN, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "EU", "S1")),
        (ADELAIDE, Account(2, "Shop", "AU", "AUD", "Australia/Adelaide", "AU", "S2")),
    ]
    connect_accounts(database, accounts)


def _load(database: Database, account: str, day: str, *quantities: int) -> None:
    rows = [("SKU", f"Shelf {n}", n, "A1", "available", f"{day}T00:00:00+00:00", day) for n in quantities]
    store_slice(database, STOCK, Window.day(date.fromisoformat(day)), rows, account)


def _latest(database: Database) -> list[tuple[object, ...]]:
    statement = "SELECT account, local_day, quantity FROM seller.warehouse_stock_latest ORDER BY 1, 2, 3"
    return [tuple(row) for row in database.execute(text(statement))]


def test_each_account_has_the_rows_of_its_own_newest_snapshot(database: Database) -> None:
    _load(database, BERLIN, "2026-03-01", 1, 2)
    _load(database, BERLIN, "2026-03-02", 3, 4)
    _load(database, ADELAIDE, "2026-03-01", 5)

    latest = _latest(database)

    assert latest == [(BERLIN, date(2026, 3, 2), 3), (BERLIN, date(2026, 3, 2), 4), (ADELAIDE, date(2026, 3, 1), 5)]


@pytest.mark.parametrize("dataset", SNAPSHOTS, ids=lambda dataset: dataset.name)
def test_a_view_has_the_columns_of_its_table(database: Database, dataset: Dataset) -> None:
    with database.begin() as connection:
        statement = (
            "SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = CAST(:relation AS regclass) AND attnum > 0 ORDER BY attnum"
        )
        of_table = connection.execute(text(statement), {"relation": dataset.table}).all()
        of_view = connection.execute(text(statement), {"relation": f"{dataset.table}_latest"}).all()

    assert of_view == of_table


def test_a_view_that_reads_it_stays_where_a_column_is_added(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("CREATE VIEW public.of_others AS SELECT sku FROM seller.inventory_latest"))
        connection.execute(text("ALTER TABLE seller.inventory ADD COLUMN colour text"))
        create_latest_views(connection)

        assert connection.execute(text("SELECT colour FROM seller.inventory_latest")).all() == []
        assert connection.execute(text("SELECT sku FROM public.of_others")).all() == []
