"""Tests that tables of datasets and views of their newest snapshots follow the contract, and all have comments."""

from datetime import date, timedelta

import pytest
from sqlalchemy import select, text

from seller_platform.contract import DATASETS, Account, Dataset, Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.creation import schemas
from seller_platform.warehouse.schema.functions import create_latest_views
from seller_platform.warehouse.schema.tables import PUBLISHED_LOADS, loads_of
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts, store_slice, stored

ORDERS = dataset_named("orders")
APRIL = Window.month_of(date(2026, 4, 1))


def _load(database: Database, account: str, first: date, last: date) -> int:
    return store_receipt(database, ORDERS, account, Window(first, last + timedelta(days=1)))


def test_receipts_of_a_window_are_those_that_share_a_day_with_it(database: Database) -> None:
    march = _load(database, "us-1", date(2026, 3, 1), date(2026, 3, 31))
    over_both = _load(database, "us-1", date(2026, 3, 31), date(2026, 4, 1))
    last_day = _load(database, "us-1", date(2026, 4, 30), date(2026, 4, 30))
    may = _load(database, "us-1", date(2026, 5, 1), date(2026, 5, 1))
    _load(database, "us-2", date(2026, 4, 1), date(2026, 4, 30))

    of_april, of_account = (
        sorted(database.execute(select(PUBLISHED_LOADS.c.id).where(loads_of(ORDERS, "us-1", *month))).scalars())
        for month in ([APRIL], [])
    )

    assert (of_april, of_account) == ([over_both, last_day], [march, over_both, last_day, may])


_OURS = "nspname = ANY (:schemas)"
_WITHOUT = {
    "schemas": "SELECT nspname FROM pg_namespace WHERE nspname = ANY (:schemas) "
    "AND obj_description(oid, 'pg_namespace') IS NULL",
    "tables and views": "SELECT nspname || '.' || relname FROM pg_class "
    "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    f"WHERE relkind IN ('r', 'v', 'm', 'p') AND NOT relispartition AND {_OURS} "
    "AND obj_description(pg_class.oid, 'pg_class') IS NULL ORDER BY 1",
    "columns": "SELECT nspname || '.' || relname || '.' || attname FROM pg_attribute "
    "JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace "
    f"WHERE relkind IN ('r', 'v', 'm', 'p') AND NOT relispartition AND attnum > 0 AND NOT attisdropped AND {_OURS} "
    "AND col_description(attrelid, attnum) IS NULL ORDER BY 1",
    "functions": "SELECT nspname || '.' || proname FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace "
    f"WHERE prorettype <> 'trigger'::regtype AND {_OURS} "
    "AND obj_description(pg_proc.oid, 'pg_proc') IS NULL ORDER BY 1",
}


@pytest.mark.parametrize("what", _WITHOUT)
def test_nothing_is_without_a_comment(database: Database, what: str) -> None:
    without = database.execute(text(_WITHOUT[what]), {"schemas": list(schemas())}).scalars().all()

    assert without == []


def test_every_schema_of_the_database_has_its_sentence(database: Database) -> None:
    others = r"nspname LIKE 'pg\_%' OR nspname IN ('information_schema', 'public')"
    names = database.execute(text(f"SELECT nspname FROM pg_namespace WHERE NOT ({others})")).scalars()

    assert set(names) == set(schemas())


STOCK = dataset_named("warehouse_stock")
BERLIN, ADELAIDE = "at-1", "au-2"
SNAPSHOTS = [dataset for dataset in DATASETS if dataset.keeps_snapshots]


def _snapshot(database: Database, account: str, day: str, *quantities: int) -> None:
    rows = [("SKU", f"Shelf {n}", n, "A1", "available", f"{day}T00:00:00+00:00", day) for n in quantities]
    store_slice(database, STOCK, Window.day(date.fromisoformat(day)), rows, account)


def test_each_account_has_the_rows_of_its_own_newest_snapshot(database: Database) -> None:
    account = Account(1, "Shop", "DE", "EUR", "UTC", "EU", "S1")
    connect_accounts(database, [(key, account) for key in (BERLIN, ADELAIDE)])
    _snapshot(database, BERLIN, "2026-03-01", 1, 2)
    _snapshot(database, BERLIN, "2026-03-02", 3, 4)
    _snapshot(database, ADELAIDE, "2026-03-01", 5)

    latest = stored(database, "SELECT account, local_day, quantity FROM seller.warehouse_stock_latest ORDER BY 1, 2, 3")

    assert latest == [(BERLIN, date(2026, 3, 2), 3), (BERLIN, date(2026, 3, 2), 4), (ADELAIDE, date(2026, 3, 1), 5)]


@pytest.mark.parametrize("dataset", SNAPSHOTS, ids=lambda dataset: dataset.name)
def test_a_view_has_the_columns_of_its_table_and_their_sentences(database: Database, dataset: Dataset) -> None:
    with database.begin() as connection:
        statement = (
            "SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute "
            "WHERE attrelid = CAST(:relation AS regclass) AND attnum > 0 ORDER BY attnum"
        )
        of_table = connection.execute(text(statement), {"relation": dataset.table}).all()
        of_view = connection.execute(text(statement), {"relation": f"{dataset.table}_latest"}).all()

    assert of_view == of_table
    comments = {name: comment for name, _, comment in of_table}
    assert {column.name: comments[column.name] for column in dataset.columns} == {
        column.name: column.doc for column in dataset.columns
    }


def test_a_view_that_reads_it_stays_where_a_column_is_added(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("CREATE VIEW public.of_others AS SELECT sku FROM seller.inventory_latest"))
        connection.execute(text("ALTER TABLE seller.inventory ADD COLUMN colour text"))
        create_latest_views(connection)

        assert connection.execute(text("SELECT colour FROM seller.inventory_latest")).all() == []
        assert connection.execute(text("SELECT sku FROM public.of_others")).all() == []
