"""Tests slices as DataFrames: dtypes and exact amounts."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pandas as pd
import psycopg
import pytest

from seller_platform.contract import LISTS, Account, Dataset, Kind, Window, dataset_named
from seller_platform.errors import RequestError
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import relation_of
from seller_platform_tests.support.frames import read_part
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.stored_rows import copy_rows

ACCOUNT = "S1.EU"
ORDERS = dataset_named("orders")


@pytest.fixture(autouse=True)
def _account(database: Database) -> None:
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    save_accounts(database, "default", [(ACCOUNT, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "EU", "S1"))])


def _insert(database: Database, dataset: Dataset, rows: list[Row], tags: tuple[str, ...] = ()) -> None:
    with database.begin() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        copy_rows(driver, dataset, rows, account=ACCOUNT, tags=tags)
    mark_loaded(database, dataset, ACCOUNT, *{Window.day(date.fromisoformat(str(row[-1]))) for row in rows})


def _order(number: int, at: str, total: Decimal | None) -> Row:
    return (f"o{number}", at, "Shipped", total, "EUR", 2, "SKU", "ASIN", None, at[:10])


def test_orders_have_exact_amounts_and_times_in_utc(database: Database) -> None:
    _insert(
        database,
        ORDERS,
        [
            _order(2, "2026-03-29T03:30:00+02:00", Decimal("0.10")),
            _order(1, "2026-03-29T01:30:00+01:00", None),
        ],
        ("platform",),
    )

    frame = read_part(database, ORDERS, ACCOUNT, Window.month_of(date(2026, 3, 1)))

    assert list(frame["platform_order_id"]) == ["o1", "o2"]
    assert list(frame["order_total"]) == [None, Decimal("0.10")]
    assert str(frame["purchase_date"].dtype) == "datetime64[us, UTC]"
    assert [stamp.isoformat() for stamp in frame["purchase_date"]] == [
        "2026-03-29T00:30:00+00:00",
        "2026-03-29T01:30:00+00:00",
    ]
    assert str(frame["quantity_ordered"].dtype) == "Int64"
    assert frame["product_name"].isna().all()


def test_a_window_leaves_other_days_out(database: Database) -> None:
    _insert(
        database,
        ORDERS,
        [_order(1, "2026-03-01T10:00:00+01:00", None), _order(2, "2026-03-02T10:00:00+01:00", None)],
        ("platform",),
    )

    frame = read_part(database, ORDERS, ACCOUNT, Window.day(date(2026, 3, 2)))

    assert list(frame["platform_order_id"]) == ["o2"]


def test_without_a_window_the_newest_snapshot_is_read(database: Database) -> None:
    stock = dataset_named("warehouse_stock")
    now = datetime.now(UTC).isoformat()
    for day, quantity in (("2026-03-01", 5), ("2026-03-02", 3)):
        _insert(database, stock, [("SKU", "Main", quantity, "A1", "available", now, day)])

    frame = read_part(database, stock, ACCOUNT)

    assert list(frame["quantity"]) == [3]


@pytest.mark.parametrize("dataset", LISTS, ids=lambda dataset: dataset.name)
def test_an_empty_slice_has_every_column_with_its_dtype(database: Database, dataset: Dataset) -> None:
    mark_loaded(database, dataset, ACCOUNT, Window.day(date(2026, 3, 1)))

    frame = read_part(database, dataset, ACCOUNT)

    assert list(frame.columns) == [name for name, _ in relation_of(dataset).columns]
    assert len(frame) == 0
    for column in dataset.columns:
        if column.kind is Kind.TIMESTAMP:
            assert isinstance(frame[column.name].dtype, pd.DatetimeTZDtype)


def test_a_dataset_without_accounts_is_refused(database: Database) -> None:
    with pytest.raises(RequestError, match=r"seller\.accounts"):
        read_part(database, dataset_named("accounts"), ACCOUNT)
