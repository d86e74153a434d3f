"""Tests that tables of datasets follow the contract, and receipts are selected by days."""

from datetime import date, timedelta

import pytest
from sqlalchemy import select

from seller_platform.contract import DATASETS, Dataset, Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
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

    with database.begin() as connection:
        of_april = (
            connection.execute(select(PUBLISHED_LOADS.c.id).where(loads_of(ORDERS, "us-1", APRIL))).scalars().all()
        )
        of_account = connection.execute(select(PUBLISHED_LOADS.c.id).where(loads_of(ORDERS, "us-1"))).scalars().all()

    assert sorted(of_april) == [over_both, last_day]
    assert sorted(of_account) == [march, over_both, last_day, may]
