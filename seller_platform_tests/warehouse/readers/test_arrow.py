"""Tests that partitions are read by one statement, exactly and in order, and what was never loaded is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from seller_platform.contract import DATASETS, Account, Dataset, Kind, Window, dataset_named
from seller_platform.errors import InexactNumberError, NotLoadedError, RequestError
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.arrow import MONEY, read_arrow, read_batches, read_frames, schema_of
from seller_platform.warehouse.readers.relations import Selection, relation_of
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.stored_rows import add_rows, connect_accounts, store_slice

BERLIN, ADELAIDE = "at-1", "au-2"
ORDERS, STOCK, LEDGER, REPORTS = map(dataset_named, ("orders", "warehouse_stock", "transactions", "report_rows"))
ORDER_ROWS, STOCK_ROWS, LEDGER_ROWS = map(relation_of, (ORDERS, STOCK, LEDGER))
JANUARY, FEBRUARY, MARCH, APRIL, MAY = (Window.month_of(date(2026, month, 1)) for month in (1, 2, 3, 4, 5))
STRANGE = ["", "None", 'a "quoted",\nline\r\n', "\\N", "tab\t|", "Ünïcode 🎈", None]


@pytest.fixture(autouse=True)
def _accounts(database: Database) -> None:
    accounts = [
        (BERLIN, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "EU", "S1")),
        (ADELAIDE, Account(2, "Shop", "AU", "AUD", "Australia/Adelaide", "AU", "S2")),
    ]
    connect_accounts(database, accounts)


def _insert(database: Database, dataset: Dataset, rows: list[Row], account: str = BERLIN) -> None:
    add_rows(database, dataset, rows, account=account, tags=("platform",))
    mark_loaded(database, dataset, account, *{Window.day(date.fromisoformat(str(row[-1]))) for row in rows})


def _order(name: str, day: str, total: Decimal | None = None, product: str | None = None) -> Row:
    return (name, f"{day}T10:00:00+00:00", "Shipped", total, "EUR", 2, "SKU", None, product, day)


def _names(table: pa.Table) -> list[Any]:
    return list(table["platform_order_id"].to_pylist())


def _read(database: Database, *parts: Selection) -> list[Any]:
    return _names(read_arrow(database, ORDER_ROWS, parts))


def test_every_value_is_read_as_it_was_stored(database: Database) -> None:
    totals = [Decimal("0.10"), Decimal("-12345678901234567890.12345678"), None, Decimal(0), Decimal("1.00000000000")]
    rows = [_order(f"o{number}", "2026-03-01", total) for number, total in enumerate(totals)]
    rows += [_order(f"p{number}", "2026-03-02", None, product) for number, product in enumerate(STRANGE)]
    _insert(database, ORDERS, rows)

    table = read_arrow(database, ORDER_ROWS, [Selection(BERLIN, MARCH)])

    assert table["order_total"].type == MONEY
    assert table["order_total"].to_pylist()[: len(totals)] == totals
    assert table["product_name"].to_pylist()[len(totals) :] == STRANGE
    assert table["purchase_date"][0].as_py() == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert table["local_day"][0].as_py() == date(2026, 3, 1)
    assert set(table["account"].to_pylist()) == {BERLIN}


def test_many_parts_are_read_together_and_no_row_twice(database: Database) -> None:
    for account in (BERLIN, ADELAIDE):
        days = ("2026-03-31", "2026-04-01", "2026-04-30", "2026-05-01")
        _insert(database, ORDERS, [_order(f"{account[:2]}-{day}", day) for day in days], account)

    apart = _read(database, Selection(ADELAIDE, MAY), Selection(BERLIN, APRIL))
    overlapping = _read(
        database, Selection(BERLIN, APRIL), Selection(BERLIN, MARCH), Selection(BERLIN, APRIL), Selection(BERLIN)
    )
    everything = _names(read_arrow(database, ORDER_ROWS, None))

    assert apart == ["at-2026-04-01", "at-2026-04-30", "au-2026-05-01"]
    assert overlapping == ["at-2026-03-31", "at-2026-04-01", "at-2026-04-30", "at-2026-05-01"]
    assert len(everything) == 8
    assert _read(database) == []


def test_each_account_has_its_own_newest_snapshot_even_an_empty_one(database: Database) -> None:
    now = datetime.now(UTC).isoformat()
    for account, day in ((BERLIN, "2026-03-01"), (BERLIN, "2026-03-02"), (ADELAIDE, "2026-03-01")):
        _insert(database, STOCK, [("SKU", "Main", 1, "A1", "available", now, day)], account)

    before = read_arrow(database, STOCK_ROWS, None)
    store_slice(database, STOCK, Window.day(date(2026, 3, 3)), [], BERLIN)
    after = read_arrow(database, STOCK_ROWS, [Selection(BERLIN), Selection(ADELAIDE)])
    day = read_arrow(database, STOCK_ROWS, [Selection(BERLIN, Window.day(date(2026, 3, 1)))])

    assert [str(day) for day in before["local_day"].to_pylist()] == ["2026-03-02", "2026-03-01"]
    assert after["account"].to_pylist() == [ADELAIDE]
    assert day.num_rows == 1


def test_rows_that_the_list_orders_alike_always_come_in_one_order(database: Database) -> None:
    rows: list[Row] = [
        ("2026-03-01T00:00:00+00:00", "Fee", None, "SKU", note, 1, Decimal("-1.5"), "EUR", None, "2026-03-01")
        for note in ("two", None, "one", None)
    ]
    _insert(database, LEDGER, rows)

    table = read_arrow(database, LEDGER_ROWS, [Selection(BERLIN)])

    assert table["description"].to_pylist() == ["one", "two", None, None]


def test_a_reader_that_stops_leaves_its_savepoint_usable(database: Database) -> None:
    _insert(database, ORDERS, [_order(f"o{number:02d}", "2026-03-01") for number in range(25)])

    with database.begin() as connection:
        with connection.begin_nested():
            batches = read_batches(connection, ORDER_ROWS, [Selection(BERLIN)], rows_per_batch=10)
            first = next(batches)
            del batches
        again = pa.Table.from_batches(read_batches(connection, ORDER_ROWS, [Selection(BERLIN)]))

    assert (first.num_rows, again.num_rows) == (10, 25)


def test_a_number_too_large_for_arrow_is_refused_and_exact_as_text(database: Database) -> None:
    total = Decimal("0.1234567890123456789012")
    _insert(database, ORDERS, [_order("o", "2026-03-01", total)])

    with pytest.raises(InexactNumberError, match=r"seller\.orders\.order_total .* decimal128\(28, 8\).*as_text=True"):
        read_arrow(database, ORDER_ROWS, None)
    text = read_arrow(database, ORDER_ROWS, None, numbers_as_text=True)
    frame = read_frames(database, ORDER_ROWS, None)

    assert text["order_total"].to_pylist() == [str(total)]
    assert list(frame["order_total"]) == [total]


@pytest.mark.parametrize("source", [*DATASETS, *MARTS], ids=lambda source: source.table)
def test_every_dataset_and_mart_is_read_in_its_types_though_it_is_empty(database: Database, source: Any) -> None:
    relation = relation_of(source)
    mark_loaded(database, source, BERLIN, MARCH if relation.day or not relation.is_mart else None)

    table, frame = read_arrow(database, relation, None), read_frames(database, relation, None)

    assert table.schema == schema_of(relation.columns)
    assert list(frame.columns) == table.column_names == list(dict.fromkeys(table.column_names))
    for name, kind in relation.columns:
        assert not pd.api.types.is_float_dtype(frame[name].dtype)
        assert isinstance(frame[name].dtype, pd.DatetimeTZDtype) == (kind is Kind.TIMESTAMP)


def test_parts_that_a_relation_has_not_are_refused(database: Database) -> None:
    with pytest.raises(RequestError, match=r"seller\.accounts as a whole"):
        read_arrow(database, relation_of(dataset_named("accounts")), [Selection(BERLIN)])
    with pytest.raises(RequestError, match=r"marts\.inventory_health is of an account as a whole"):
        read_arrow(database, relation_of(mart_named("inventory_health")), [Selection(BERLIN, MARCH)])
    with pytest.raises(RequestError, match=r"either for the newest snapshot of at-1 or for days"):
        read_arrow(database, STOCK_ROWS, [Selection(BERLIN, MARCH), Selection(BERLIN)])


def _rows(database: Database, window: Window | None = None) -> int:
    return len(read_arrow(database, relation_of(ORDERS), [Selection(BERLIN, window)]))


def test_days_and_months_that_were_not_loaded_are_named(database: Database) -> None:
    def assert_missing(named: str, window: Window | None = None) -> None:
        with pytest.raises(NotLoadedError, match=rf": orders of at-1{named}\. "):
            _rows(database, window)

    assert_missing("")
    mark_loaded(database, ORDERS, BERLIN, JANUARY, APRIL)
    year = Window(date(2025, 12, 15), date(2026, 7, 1))
    assert_missing(", 2025-12, 2026-02 to 2026-03, 2026-05 to 2026-06", year)
    assert_missing(", 2026-02 to 2026-03")
    mark_loaded(database, ORDERS, BERLIN, FEBRUARY, Window(date(2026, 3, 1), date(2026, 3, 6)))

    assert_missing(", 2026-03", Window.day(date(2026, 3, 6)))
    assert [_rows(database, days) for days in (Window.day(date(2026, 3, 5)), None)] == [0, 0]


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
