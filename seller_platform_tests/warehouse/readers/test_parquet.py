"""Tests that other libraries read Parquet files exactly, and that failures keep them."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet
from sqlalchemy import text

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import InexactNumberError, SellerPlatformError
from seller_platform.failpoints import VARIABLE
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.parquet import Exported, export_partition, export_snapshots, path_of
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

ACCOUNT = "S1/É:=.EU"
ORDERS, STOCK = map(dataset_named, ("orders", "warehouse_stock"))
MARCH = Window.month_of(date(2026, 3, 1))


def _load(database: Database, dataset: Dataset, window: Window, rows: Sequence[Row]) -> int:
    with open_load(database, Slice(dataset, ACCOUNT, window)) as load:
        load.spool.write(rows, tags=("platform",) * len(dataset.tags), extras={0: '{"gift": 0.10}'}, page=1)
        return load.store(LoadFacts(1, 1, 0, len(rows), CountVerdict.MATCH), started_at=datetime.now(UTC)).id


def _order(name: str, total: Decimal | None = None, product: str | None = None, day: str = "2026-03-29") -> Row:
    return (name, f"{day}T03:30:00+02:00", "Shipped", total, "EUR", 2, "SKU", None, product, day)


def _stock(day: str, quantity: int) -> Row:
    return ("SKU", "Main", quantity, "A1", "available", f"{day}T00:00:00+00:00", day)


def export_month(database: Database, source: Dataset, account: str, month: Window, folder: Path) -> Exported:
    (exported,) = export_partition(database, source, account, month, folder)
    return exported


def test_others_read_back_what_is_stored(database: Database, tmp_path: Path) -> None:
    rows = [_order("o1", Decimal("0.10"), 'None\t"x"\\\n'), _order("o2", None, "Ünïcode 🎈"), _order("o3")]
    load_id = _load(database, ORDERS, MARCH, rows)

    exported = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    table, frame = parquet.read_table(exported.path, partitioning=None), pd.read_parquet(exported.path)
    hive_table = arrow_dataset.dataset(tmp_path / "orders", partitioning="hive").to_table()

    assert table["order_total"].to_pylist() == [Decimal("0.10"), None, None]
    assert table["order_total"].type == pa.decimal128(28, 8)
    assert table["product_name"].to_pylist() == ['None\t"x"\\\n', "Ünïcode 🎈", None]
    assert table["purchase_date"].to_pylist() == [datetime(2026, 3, 29, 1, 30, tzinfo=UTC)] * 3
    assert table["local_day"].to_pylist() == [date(2026, 3, 29)] * 3
    assert table["extra"].to_pylist() == ['{"gift": 0.10}', None, None]
    assert isinstance(frame["order_total"][0], Decimal)
    assert set(hive_table["account"].to_pylist()) == {ACCOUNT}
    assert set(hive_table["month"].to_pylist()) == {"2026-03"}
    facts = parquet.read_metadata(exported.path).metadata
    assert facts[b"seller_platform.load_ids"].decode() == str(load_id)
    assert facts[b"seller_platform.digest"].decode() == exported.digest
    assert facts[b"seller_platform.account"].decode() == ACCOUNT
    assert (exported.rows, exported.load_ids) == (3, (load_id,))


def test_duckdb_multiplies_amounts_exactly(database: Database, tmp_path: Path) -> None:
    greatest = Decimal("9999999.9999999")
    _load(database, ORDERS, MARCH, [_order("o1", greatest), _order("o2", Decimal("-0.10")), _order("o3")])
    export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)

    with duckdb.connect() as connection:
        connection.read_parquet(f"{tmp_path}/orders/*/*/*.parquet", hive_partitioning=True).create_view("orders")
        squared, multiplied, summed = connection.sql(
            "SELECT max(order_total * order_total), max(order_total * quantity_ordered), "
            "sum(order_total) * CAST(1.0825 AS decimal(5, 4)) FROM orders"
        ).fetchall()[0]
        accounts = connection.sql("SELECT DISTINCT account FROM orders").fetchall()

    assert squared == greatest * greatest
    assert multiplied == 2 * greatest
    assert summed == (greatest - Decimal("0.10")) * Decimal("1.0825")
    assert accounts == [(ACCOUNT,)]


def test_an_export_replaces_what_changed_and_leaves_alone_what_did_not(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    first = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    inode = first.path.stat().st_ino
    again = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    untouched = first.path.stat().st_ino

    load_id = _load(database, ORDERS, MARCH, [_order("o1", Decimal(2)), _order("o2", Decimal(2))])
    changed = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    # The same rows, read by a load of a part of the month.
    _load(database, ORDERS, Window(date(2026, 3, 20), MARCH.end), [_order("o1", Decimal(2)), _order("o2", Decimal(2))])
    renewed = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)

    assert (first.replaced, again.replaced, changed.replaced) == (True, False, True)
    assert untouched == inode
    assert again.digest == first.digest != changed.digest
    assert parquet.read_table(changed.path, partitioning=None)["order_total"].to_pylist() == [2, 2]
    assert (renewed.digest, renewed.replaced) == (changed.digest, False)
    assert renewed.load_ids == changed.load_ids == (load_id,)


def test_a_slice_without_rows_is_a_file_without_rows(database: Database, tmp_path: Path) -> None:
    full = _load(database, ORDERS, MARCH, [_order("o1")])
    export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    _load(database, ORDERS, MARCH, [])

    exported = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)

    assert full not in exported.load_ids
    assert parquet.read_table(exported.path, partitioning=None).num_rows == 0
    assert [path.name for path in exported.path.parent.iterdir()] == ["part.parquet"]


def test_every_snapshot_has_a_file_until_it_is_thinned_out(database: Database, tmp_path: Path) -> None:
    for day, quantity in (("2026-03-01", 1), ("2026-03-02", 2)):
        _load(database, STOCK, Window.day(date.fromisoformat(day)), [_stock(day, quantity)])
    first = export_snapshots(database, STOCK, ACCOUNT, tmp_path)
    with database.begin() as connection:
        connection.execute(text("DELETE FROM seller.warehouse_stock WHERE local_day = '2026-03-01'"))
    _load(database, STOCK, Window.day(date(2026, 3, 3)), [])

    second = export_snapshots(database, STOCK, ACCOUNT, tmp_path)

    assert [each.path.parent.name for each in first] == ["day=2026-03-01", "day=2026-03-02"]
    assert [(each.path.parent.name, each.rows, each.replaced) for each in second] == [
        ("day=2026-03-02", 1, False),
        ("day=2026-03-03", 0, True),
    ]
    assert sorted(path.name for path in path_of(tmp_path, STOCK, ACCOUNT).iterdir()) == [
        "day=2026-03-02",
        "day=2026-03-03",
    ]


_EXPORT = f"""
import sys
from datetime import date
from pathlib import Path
from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.parquet import export_partition
with Database(sys.argv[1]) as database:
    march = Window.month_of(date(2026, 3, 1))
    export_partition(database, dataset_named("orders"), {ACCOUNT!r}, march, Path(sys.argv[2]))
"""


def test_a_killed_export_leaves_the_old_file_and_the_next_cleans_up(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    exported = export_month(database, ORDERS, ACCOUNT, MARCH, folder)
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(2))])

    killed = subprocess.run(
        [sys.executable, "-c", _EXPORT, database.url, str(folder)],
        env=environment(tmp_path, **{VARIABLE: "export.drafted"}),
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    left = sorted(path.name for path in exported.path.parent.iterdir())
    read = arrow_dataset.dataset(folder / "orders", partitioning="hive").to_table()["order_total"].to_pylist()
    export_month(database, ORDERS, ACCOUNT, MARCH, folder)

    assert killed.returncode == -signal.SIGKILL
    assert left == [".part.parquet.draft", "part.parquet"]
    assert read == [1]
    assert [path.name for path in exported.path.parent.iterdir()] == ["part.parquet"]
    assert parquet.read_table(exported.path, partitioning=None)["order_total"].to_pylist() == [2]


def test_exports_of_one_slice_wait_for_one_another(database: Database, tmp_path: Path) -> None:
    totals = [Decimal(number) for number in range(1, 13)]

    def load_and_export(total: Decimal) -> Path:
        _load(database, ORDERS, MARCH, [_order(f"o{total}", total)])
        return export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path).path

    with ThreadPoolExecutor(3) as threads:
        paths = set(threads.map(load_and_export, totals))

    (path,) = paths
    with database.begin() as connection:
        stored = connection.execute(text("SELECT order_total FROM seller.orders")).scalars().all()
    assert parquet.read_table(path, partitioning=None)["order_total"].to_pylist() == stored
    assert [each.name for each in path.parent.iterdir()] == ["part.parquet"]


def test_what_cannot_be_written_or_held_leaves_the_old_file(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    exported = export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    _load(database, ORDERS, MARCH, [_order("o1", Decimal("1.000000001"))])

    with pytest.raises(InexactNumberError, match=r"seller\.orders\.order_total"):
        export_month(database, ORDERS, ACCOUNT, MARCH, tmp_path)
    with pytest.raises(
        SellerPlatformError,
        check=lambda error: error.code == "ExportFolderError",
        match=r"part\.parquet.*cannot be written.*SELLER_PLATFORM_EXPORT_DIR",
    ):
        export_month(database, ORDERS, ACCOUNT, MARCH, exported.path)

    assert parquet.read_table(exported.path, partitioning=None)["order_total"].to_pylist() == [1]
