"""Tests that tables of datasets follow the contract, all have comments, and receipts are selected by days."""

from datetime import date, timedelta

import pytest
from sqlalchemy import select, text

from seller_platform.contract import DATASETS, Dataset, Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.comments import SCHEMAS
from seller_platform.warehouse.schema.tables import PUBLISHED_LOADS, history_of, loads_of, table_for
from seller_platform_tests.support.receipts import store_receipt

ORDERS = dataset_named("orders")
APRIL = Window.month_of(date(2026, 4, 1))


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
def test_a_dataset_has_a_table_with_its_columns_and_those_of_its_load(dataset: Dataset) -> None:
    table = table_for(dataset)

    declared = [column.name for column in (*dataset.columns, *dataset.tags)]
    of_load = ["extra", dataset.slice_column, "account", "load_id", "page", "row_hash"]
    assert list(table.c.keys()) == [*declared, *of_load]
    assert list(history_of(dataset).c.keys()) == [*declared, *of_load, "gone_load_id"]
    assert {column.name: table.c[column.name].comment for column in dataset.columns} == {
        column.name: column.doc for column in dataset.columns
    }
    assert all(column.comment for column in table.c)


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
    without = database.execute(text(_WITHOUT[what]), {"schemas": list(SCHEMAS)}).scalars().all()

    assert without == []


def test_every_schema_of_the_database_has_its_sentence(database: Database) -> None:
    others = r"nspname LIKE 'pg\_%' OR nspname IN ('information_schema', 'public')"
    schemas = database.execute(text(f"SELECT nspname FROM pg_namespace WHERE NOT ({others})")).scalars()

    assert set(schemas) == set(SCHEMAS)
