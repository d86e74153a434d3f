"""Tests that other engines read Delta tables exactly, and that failures keep their former rows."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from sqlalchemy import text

from seller_platform.contract import Account, Dataset, Kind, Window, dataset_named
from seller_platform.errors import InexactNumberError, NotLoadedError, SellerPlatformError
from seller_platform.failpoints import VARIABLE
from seller_platform.lake.delta_tables import prune_tables
from seller_platform.lake.derived import exported_to
from seller_platform.lake.partitions import Exported, export_partitions
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.due import partition_states
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.slices import revert
from seller_platform.warehouse.postgres.backup import back_up
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.readers.arrow import read_arrow, schema_of
from seller_platform.warehouse.readers.relations import SOURCES, Selection, Source, relation_of
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.engines import connect_duckdb, read_by_engines
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.power_loss import Recording, recorded
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.statements import at_each_statement
from seller_platform_tests.support.stored_rows import connect_accounts, store_slice
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

ACCOUNT = "S1/É:='.EU"
ORDERS, STOCK = map(dataset_named, ("orders", "warehouse_stock"))
MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (3, 4))


def _load(database: Database, dataset: Dataset, window: Window, rows: Sequence[Row]) -> int:
    return store_slice(database, dataset, window, rows, ACCOUNT, extras={0: '{"gift": 0.10}'}).id


def _order(name: str, total: Decimal | None = None, product: str | None = None, day: str = "2026-03-29") -> Row:
    return (name, f"{day}T03:30:00+02:00", "Shipped", total, "EUR", 2, "SKU", None, product, day)


def _export(database: Database, folder: Path, *months: Window | None, source: Dataset = ORDERS) -> list[Exported]:
    exported = []
    for result in export_partitions(database, source, [(ACCOUNT, month) for month in months], str(folder)).values():
        if isinstance(result, SellerPlatformError):
            raise result
        exported.append(result)
    return exported


def _stored(folder: Path, name: str = "orders") -> pa.Table:
    return DeltaTable(folder / name).to_pyarrow_table()


def test_others_read_back_what_is_stored(database: Database, tmp_path: Path) -> None:
    rows = [_order("o1", Decimal("0.10"), 'None\t"x"\\\n'), _order("o2", None, "Ünïcode 🎈"), _order("o3")]
    load_id = _load(database, ORDERS, MARCH, rows)

    (exported,) = _export(database, tmp_path, MARCH)
    table = _stored(tmp_path)

    assert table["order_total"].to_pylist() == [Decimal("0.10"), None, None]
    assert table["order_total"].type == pa.decimal128(28, 8)
    assert table["product_name"].to_pylist() == ['None\t"x"\\\n', "Ünïcode 🎈", None]
    assert table["purchase_date"].to_pylist() == [datetime(2026, 3, 29, 1, 30, tzinfo=UTC)] * 3
    assert table["local_day"].to_pylist() == [date(2026, 3, 29)] * 3
    assert table["extra"].to_pylist() == ['{"gift": 0.10}', None, None]
    assert table.column_names[:3] == ["account", "month", "local_day"]
    assert {*table["account"].to_pylist()} == {ACCOUNT}
    assert {*table["month"].to_pylist()} == {MARCH.start}
    assert (exported.rows, exported.load_ids, exported.replaced, exported.version) == (3, (load_id,), 1, 1)
    assert DeltaTable(tmp_path / "orders").history(1)[0]["load_ids"] == str(load_id)


def test_amounts_are_exact_in_every_engine(database: Database, tmp_path: Path) -> None:
    greatest = Decimal("12345678901234567890.12345678")
    _load(database, ORDERS, MARCH, [_order("o1", greatest), _order("o2", Decimal("-0.10")), _order("o3")])
    _export(database, tmp_path, MARCH)

    read = read_by_engines(tmp_path / "orders", ["account", "order_total"])

    assert len(read) == 4
    for rows in read.values():
        assert sorted(rows, key=str) == sorted(
            [(ACCOUNT, greatest), (ACCOUNT, Decimal("-0.10")), (ACCOUNT, None)], key=str
        )
    with connect_duckdb() as duckdb:
        above = f"SELECT count(*) FROM delta_scan('{tmp_path}/orders') WHERE order_total >= {greatest}"
        assert duckdb.sql(above).fetchall() == [(1,)]


def test_only_what_changed_is_replaced_in_one_commit(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    _load(database, ORDERS, APRIL, [_order("o2", Decimal(1), day="2026-04-02")])
    first = _export(database, tmp_path, MARCH, APRIL)
    again = _export(database, tmp_path, MARCH, APRIL)
    load_id = _load(database, ORDERS, MARCH, [_order("o1", Decimal(2)), _order("o2", Decimal(2))])
    changed = _export(database, tmp_path, MARCH, APRIL)
    # The same rows, read by a load of a part of the month.
    _load(database, ORDERS, Window(date(2026, 3, 20), MARCH.end), [_order("o1", Decimal(2)), _order("o2", Decimal(2))])
    renewed = _export(database, tmp_path, MARCH, APRIL)

    assert [[each.replaced for each in exported] for exported in (first, again, changed, renewed)] == [
        [1, 1],
        [0, 0],
        [1, 0],
        [0, 0],
    ]
    assert [exported[0].version for exported in (first, again, changed, renewed)] == [1, 1, 2, 2]
    assert again[0].digest == first[0].digest != changed[0].digest == renewed[0].digest
    assert renewed[0].load_ids == changed[0].load_ids == (load_id,)
    assert sorted(_stored(tmp_path)["order_total"].to_pylist()) == [1, 2, 2]


def test_snapshots_follow_those_stored_month_by_month(database: Database, tmp_path: Path) -> None:
    for day, quantity in (("2026-02-27", 3), ("2026-02-28", 1), ("2026-03-01", 2)):
        row = ("SKU", "Main", quantity, "A1", "available", f"{day}T00:00:00+00:00", day)
        _load(database, STOCK, Window.day(date.fromisoformat(day)), [row])
    (first,) = _export(database, tmp_path, None, source=STOCK)
    database.execute(text("DELETE FROM seller.warehouse_stock WHERE local_day = '2026-02-27'"))
    _load(database, STOCK, Window.day(date(2026, 3, 2)), [])
    (second,) = _export(database, tmp_path, None, source=STOCK)
    database.execute(text("DELETE FROM seller.warehouse_stock WHERE local_day < '2026-03-01'"))
    (third,) = _export(database, tmp_path, None, source=STOCK)

    assert [(each.rows, each.replaced) for each in (first, second, third)] == [(3, 2), (2, 1), (1, 1)]
    assert list(_stored(tmp_path, STOCK.name).select(["month", "quantity"]).to_pylist()) == [
        {"month": date(2026, 3, 1), "quantity": 2}
    ]


def test_a_new_column_is_added_and_former_rows_lack_it(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1")])
    _load(database, ORDERS, APRIL, [_order("o2", day="2026-04-02")])
    older = replace(ORDERS, columns=tuple(each for each in ORDERS.columns if each.name != "product_name"))
    for month in (MARCH, APRIL):
        (result,) = export_partitions(database, older, [(ACCOUNT, month)], str(tmp_path)).values()
        assert isinstance(result, Exported)

    (exported,) = _export(database, tmp_path, APRIL)

    table = _stored(tmp_path)
    assert exported.replaced == 1
    assert table.schema.field("product_name").type == pa.string()
    assert sorted(table["platform_order_id"].to_pylist()) == ["o1", "o2"]


def test_a_column_of_another_type_is_not_converted(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    columns = [replace(each, kind=Kind.INTEGER) if each.name == "order_total" else each for each in ORDERS.columns]
    former = replace(ORDERS, columns=tuple(columns))
    _export(database, tmp_path, MARCH, source=former)
    _load(database, ORDERS, MARCH, [_order("o1", Decimal("1.75"))])

    (refused,) = export_partitions(database, ORDERS, [(ACCOUNT, MARCH)], str(tmp_path)).values()
    (tmp_path / "orders").rename(tmp_path / "moved")
    _export(database, tmp_path, MARCH)

    assert isinstance(refused, SellerPlatformError)
    assert refused.code == "ChangedColumnError"
    assert f"{tmp_path}/orders: the column order_total was of type long and is of type decimal(28,8)" in str(refused)
    assert [_stored(tmp_path, name)["order_total"].to_pylist() for name in ("moved", "orders")] == [
        [1],
        [Decimal("1.75")],
    ]


def test_a_version_has_the_rows_of_its_moment_after_a_revert_too(database: Database, tmp_path: Path) -> None:
    load_ids = []
    for total in ("1.10", "2.20", "3.30"):
        rows = [_order("same", Decimal("5.00")), _order(f"o{total}", Decimal(total))]
        load_ids.append(_load(database, ORDERS, MARCH, rows))
        _export(database, tmp_path, MARCH)
    revert(database, load_ids[-1])
    _export(database, tmp_path, MARCH)

    table, totals = DeltaTable(tmp_path / "orders"), []
    commits = {commit["version"]: commit for commit in table.history() if "read_at" in commit}
    for version in sorted(commits):
        table.load_as_version(version)
        as_of = replace(relation_of(ORDERS), as_of=datetime.fromisoformat(commits[version]["read_at"]))
        stored = read_arrow(database, as_of, [Selection(ACCOUNT, MARCH)])
        exported = table.to_pyarrow_table().select(stored.column_names)
        assert exported.sort_by("platform_order_id") == stored.sort_by("platform_order_id")
        totals.append(sum(exported["order_total"].to_pylist()))

    assert totals == [Decimal(total) for total in ("6.10", "7.20", "8.30", "7.20")]


_EXPORT = f"""
import sys
from datetime import date
from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.lake.partitions import export_partitions
with Database(sys.argv[1]) as database:
    partitions = [({ACCOUNT!r}, Window.month_of(date(2026, month, 1))) for month in (3, 4)]
    export_partitions(database, dataset_named("orders"), partitions, sys.argv[2], run_id="killed")
"""


@pytest.mark.parametrize(
    "failpoint",
    [
        "export.read",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("export.created", "export.committed")),
    ],
)
def test_a_killed_export_is_completed_by_the_next(database: Database, tmp_path: Path, failpoint: str) -> None:
    folder, partitions = tmp_path / "lake", [(ACCOUNT, MARCH), (ACCOUNT, APRIL)]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for total in (1, 2):
        _load(database, ORDERS, MARCH, [_order("o1", Decimal(total))])
        _load(database, ORDERS, APRIL, [_order("o2", Decimal(total), day="2026-04-02")])
        if total == 1 and failpoint != "export.created":
            export_partitions(database, ORDERS, partitions, str(folder), run_id="first")

    killed = subprocess.run(
        [sys.executable, "-c", _EXPORT, database.url, str(folder)],
        env=environment(tmp_path, TMPDIR=str(temporary), **{VARIABLE: failpoint}),
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    read = _stored(folder)["order_total"].to_pylist()
    due = _due(database, folder)
    results = export_partitions(database, ORDERS, partitions, str(folder), run_id="next")

    assert killed.returncode == -signal.SIGKILL
    assert not list(temporary.iterdir())
    assert read == {"export.created": [], "export.read": [1, 1], "export.committed": [2, 2]}[failpoint]
    assert (due, _due(database, folder)) == (2, 0)
    replaced = 0 if failpoint == "export.committed" else 1
    assert [isinstance(each, Exported) and each.replaced for each in results.values()] == [replaced, replaced]
    assert _stored(folder)["order_total"].to_pylist() == [2, 2]


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _added(table: Path, commit: Path) -> Path:
    (path,) = (json.loads(line)["add"]["path"] for line in commit.read_text().splitlines() if '"add"' in line)
    return table / unquote(path)


_TEARS: dict[str, Callable[[Path, Path], object]] = {
    "an empty commit": lambda table, newest: newest.write_bytes(b""),
    "a commit of zeros": lambda table, newest: _zeros(newest),
    "empty rows": lambda table, newest: _added(table, newest).write_bytes(b""),
    "rows of zeros": lambda table, newest: _zeros(_added(table, newest)),
    "no rows": lambda table, newest: _added(table, newest).unlink(),
    "a checkpoint of zeros": lambda table, newest: _zeros(newest.with_suffix(".checkpoint.parquet")),
    "no checkpoint": lambda table, newest: newest.with_suffix(".checkpoint.parquet").unlink(),
}
_TORN_COMMITS = [tear for tear in _TEARS if "checkpoint" not in tear]


@pytest.mark.parametrize(
    ("tear", "prunes"), [*((tear, False) for tear in _TORN_COMMITS), ("a commit of zeros", True), ("no rows", True)]
)
def test_a_commit_that_a_power_loss_left_in_part_is_written_again(
    database: Database, tmp_path: Path, tear: str, *, prunes: bool
) -> None:
    for total in (1, 2):
        _load(database, ORDERS, MARCH, [_order("o1", Decimal(total))])
        with recorded(tmp_path) as recording:
            _export(database, tmp_path, MARCH)
    table = tmp_path / "orders"
    newest = max((table / "_delta_log").glob("*.json"))
    synced = {path for call, path in recording.calls if call == "fsync"}
    rows = _added(table, newest)
    written = {str(path) for path in (newest, newest.parent, rows, rows.parent, table)}
    _TEARS[tear](table, newest)
    if prunes:
        _, error = prune_tables(database, str(tmp_path), dry=False)
        assert (error, _stored(tmp_path)["order_total"].to_pylist()) == (None, [1])

    (exported,) = _export(database, tmp_path, MARCH)

    assert written <= synced
    assert exported.replaced == 1
    assert _stored(tmp_path)["order_total"].to_pylist() == [2]


@pytest.mark.parametrize("tear", ["a checkpoint of zeros", "no checkpoint", "empty rows"])
def test_a_checkpoint_that_a_power_loss_left_in_part_is_deleted(database: Database, tmp_path: Path, tear: str) -> None:
    for total in (1, 2):
        _load(database, ORDERS, MARCH, [_order("o1", Decimal(total))])
        _export(database, tmp_path, MARCH)
    prune_tables(database, str(tmp_path), dry=False)
    table = tmp_path / "orders"
    _TEARS[tear](table, max((table / "_delta_log").glob("*.json")))

    (exported,) = _export(database, tmp_path, MARCH)

    assert exported.replaced == (tear == "empty rows")
    assert _stored(tmp_path)["order_total"].to_pylist() == [2]


def test_a_checkpoint_is_synced_before_the_commits_before_it_go(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    _export(database, tmp_path, MARCH)
    log = tmp_path / "orders" / "_delta_log"
    first, checkpoint = log / f"{0:020}.json", log / f"{1:020}.checkpoint.parquet"
    os.utime(first, (0, 0))

    def observe(recording: Recording) -> tuple[bool, bool]:
        return ("fsync", str(checkpoint)) in recording.calls and recording.calls[-1][1] == str(log), first.exists()

    with recorded(log, observe=observe) as recording:
        prune_tables(database, str(tmp_path), dry=False)

    (log / "_last_checkpoint").unlink()  # no engine needs it
    _, error = prune_tables(database, str(tmp_path), dry=False)

    assert (True, True) in {facts for facts, _ in recording.states}
    assert not first.exists()
    assert error is None


def _due(database: Database, folder: Path) -> int:
    derived = exported_to(ORDERS, str(folder))
    with database.begin() as connection:
        return len(partition_states(connection, derived, [ACCOUNT], [MARCH, APRIL], only_due=True))


def test_a_table_that_was_lost_is_written_again_as_a_whole(database: Database, tmp_path: Path) -> None:
    may = Window.month_of(date(2026, 5, 1))
    for month in (MARCH, APRIL):
        _load(database, ORDERS, month, [_order(str(month), day=str(month.start))])
    export_partitions(database, ORDERS, [(ACCOUNT, MARCH), (ACCOUNT, APRIL)], str(tmp_path), run_id="first")
    exported = _due(database, tmp_path)
    (tmp_path / "orders").rename(tmp_path / "moved")
    _load(database, ORDERS, may, [_order("o3", day="2026-05-02")])

    export_partitions(database, ORDERS, [(ACCOUNT, may)], str(tmp_path), run_id="second")
    lost = _due(database, tmp_path)
    export_partitions(database, ORDERS, [(ACCOUNT, MARCH), (ACCOUNT, APRIL)], str(tmp_path), run_id="third")

    assert (exported, lost, _due(database, tmp_path)) == (0, 2, 0)
    assert _stored(tmp_path).num_rows == 3


def test_an_export_is_current_with_the_rows_of_each_load_of_one_moment(database: Database, tmp_path: Path) -> None:
    def load() -> None:
        totals.append(totals[-1] + 1)
        with database.begin() as connection:  # both months at one moment
            for month in (MARCH, APRIL):
                store_receipt(connection, ORDERS, ACCOUNT, month, rows=1)
            connection.execute(text("UPDATE seller.orders SET order_total = :total"), {"total": totals[-1]})

    def export() -> None:
        export_partitions(database, ORDERS, [(ACCOUNT, MARCH), (ACCOUNT, APRIL)], str(tmp_path), run_id="run")

    totals, outdated = [Decimal(1)], 0
    for month in (MARCH, APRIL):
        _load(database, ORDERS, month, [_order("o", totals[-1], day=f"{month.start:%Y-%m}-02")])
    for _ in at_each_statement(database, export, load):
        first, second = _stored(tmp_path)["order_total"].to_pylist()

        assert first == second
        assert _due(database, tmp_path) == (0 if first == totals[-1] else 2)
        outdated += first != totals[-1]

    assert 3 < outdated < len(totals) - 1


@pytest.mark.parametrize("is_older", [True, False], ids=["older than the files", "newer than the files"])
def test_a_restored_database_has_no_current_export(
    database: Database, database_url: str, postgres: EmbeddedServer, tmp_path: Path, is_older: bool
) -> None:
    def export(source: Database) -> None:
        export_partitions(
            source, ORDERS, [(ACCOUNT, MARCH)], str(tmp_path / "lake"), run_id=None
        )  # as the command that `restore` names

    connect_accounts(database, [(ACCOUNT, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S1"))])
    _load(database, ORDERS, MARCH, [_order("o", Decimal(1))])
    store_receipt(database, dataset_named("transactions"), ACCOUNT, MARCH, verdict="held")  # another slice of the month
    if is_older:
        back_up(database_url, tmp_path / "backup")
    export(database)
    _load(database, ORDERS, MARCH, [_order("o", Decimal(2))])
    if is_older:
        export(database)
    else:
        back_up(database_url, tmp_path / "backup")
    name, lake = "test_restored_exports", str(tmp_path / "lake")
    url = postgres.database(name)
    variables = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=url, SELLER_PLATFORM_EXPORT_DIR=lake)
    try:
        restored, before = (run_here(words, variables) for words in (["restore", str(tmp_path / "backup")], ["doctor"]))
        with Database(url) as opened:
            export(opened)
        after = run_here(["doctor"], variables)

        problem = f"1 partition is not exported to {lake} as the database has them now"
        step = f"run `seller-platform export --folder {lake}`, or let the sensor marts_and_exports write them"
        assert f"{problem}. Next: {step}." in " ".join(restored.stderr.split())
        assert problem in " ".join(before.stdout.split())
        assert f"{lake} has the rows of the database" in " ".join(after.stdout.split())
        assert _stored(tmp_path / "lake")["order_total"].to_pylist() == [1 if is_older else 2]
    finally:
        drop_database(postgres, name)


def test_exports_of_one_table_wait_for_one_another(database: Database, tmp_path: Path) -> None:
    def load_and_export(month: Window) -> None:
        for total in range(1, 5):
            _load(database, ORDERS, month, [_order(f"o{total}", Decimal(total), day=str(month.start))])
            _export(database, tmp_path, month)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(load_and_export, (MARCH, APRIL)))

    assert _stored(tmp_path)["order_total"].to_pylist() == [4, 4]
    assert DeltaTable(tmp_path / "orders").version() == 8


def test_what_cannot_be_written_or_held_leaves_the_former_rows(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    _load(database, ORDERS, APRIL, [_order("o2", Decimal(1), day="2026-04-02")])
    _export(database, tmp_path, MARCH, APRIL)
    _load(database, ORDERS, MARCH, [_order("o1", Decimal("1.000000001"))])
    _load(database, ORDERS, APRIL, [_order("o2", Decimal(2), day="2026-04-02")])
    partitions = [(ACCOUNT, month) for month in (MARCH, APRIL, Window.month_of(date(2026, 5, 1)))]

    inexact, exported, absent = export_partitions(database, ORDERS, partitions, str(tmp_path)).values()

    assert isinstance(inexact, InexactNumberError)
    assert isinstance(exported, Exported)
    assert isinstance(absent, NotLoadedError)
    assert sorted(_stored(tmp_path)["order_total"].to_pylist()) == [1, 2]


def test_pruning_deletes_replaced_files_after_a_week_and_nothing_else(database: Database, tmp_path: Path) -> None:
    for total in (1, 2, 3):
        _load(database, ORDERS, MARCH, [_order("o1", Decimal(total))])
        _export(database, tmp_path, MARCH)
    table = tmp_path / "orders"
    (left_by_a_kill,) = {path.parent for path in table.rglob("*.parquet")}
    (left_by_a_kill / "part-0.parquet").touch()
    for path in table.rglob("*.parquet"):
        os.utime(path, (0, 0))
    # Only the rows of the first version were replaced eight days ago.
    log = table / "_delta_log" / f"{2:020}.json"
    eight_days_ago = int(time.time() - 8 * 86_400) * 1_000
    log.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{eight_days_ago}', log.read_text()))

    # A table that comes earlier cannot be read.
    (tmp_path / "accounts" / "_delta_log").mkdir(parents=True)
    (tmp_path / "accounts" / "_delta_log" / f"{0:020}.json").write_text('{"protocol": "none"}')

    counted, _ = prune_tables(database, str(tmp_path), dry=True)
    deleted, error = prune_tables(database, str(tmp_path), dry=False)

    assert (counted, deleted, len(list(left_by_a_kill.iterdir()))) == (2, 2, 2)
    assert "1 table was not pruned; all others were:" in str(error)
    assert f"{tmp_path}/accounts" in str(error)
    assert _stored(tmp_path)["order_total"].to_pylist() == [3]
    former = DeltaTable(table, version=2)
    assert former.to_pyarrow_table()["order_total"].to_pylist() == [2]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.table)
def test_every_list_and_mart_becomes_a_table(database: Database, tmp_path: Path, source: Source) -> None:
    relation = relation_of(source)
    month = MARCH if relation.is_monthly else None
    if isinstance(source, Dataset):
        mark_loaded(database, source, ACCOUNT, MARCH)
    else:
        build_partition(database, source, ACCOUNT, month)
    partition = (ACCOUNT if relation.has_account_parts else None, month)

    (result,) = export_partitions(database, source, [partition], str(tmp_path)).values()

    exported = DeltaTable(tmp_path / source.name)
    assert isinstance(result, Exported)
    assert exported.metadata().name == source.table
    keys = ["account"] * relation.has_account_parts + ["month"] * (relation.day is not None)
    assert exported.metadata().partition_columns == keys
    of_stored = {field.name: field.type for field in schema_of(relation.columns)}
    assert of_stored.items() <= {field.name: field.type for field in _stored(tmp_path, source.name).schema}.items()


def test_a_store_that_refuses_is_named_without_its_keys(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    # A server in this process could not answer: deltalake waits for it with Python's lock.
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().partition("(")[2].partition("/)")[0]
            for name, value in (("ENDPOINT_URL", url), ("ALLOW_HTTP", "true"), ("REGION", "eu-north-1")):
                monkeypatch.setenv(f"AWS_{name}", value)
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-test")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-test")
            (result,) = export_partitions(database, ORDERS, [(ACCOUNT, MARCH)], "s3://bucket/lake").values()
        finally:
            server.kill()

    assert isinstance(result, SellerPlatformError)
    assert result.code == "ExportFolderError"
    assert "s3://bucket/lake/orders: cannot be written" in str(result)
    assert "404 Not Found" in str(result)
    assert "AWS_ACCESS_KEY_ID" in str(result)
    assert "-of-test" not in str(result)
    assert str(result).isprintable()


def test_a_folder_of_something_else_is_refused(database: Database, tmp_path: Path) -> None:
    _load(database, ORDERS, MARCH, [_order("o1", Decimal(1))])
    old, foreign, file = tmp_path / "old", tmp_path / "foreign", tmp_path / "file"
    (old / "orders" / "account=eu-1").mkdir(parents=True)
    write_deltalake(foreign / "orders", pa.table({"account": ["A"], "month": ["2026-03"]}))
    file.touch()

    for folder, code, message in (
        (old, "ForeignExportError", "files that are no Delta table"),
        (foreign, "ForeignExportError", "of another program"),
        (file, "ExportFolderError", "cannot be written"),
    ):
        (result,) = export_partitions(database, ORDERS, [(ACCOUNT, MARCH)], str(folder)).values()
        assert isinstance(result, SellerPlatformError)
        assert result.code == code
        assert f"{folder}/orders" in str(result)
        assert message in str(result)
        assert "SELLER_PLATFORM_EXPORT_DIR" in str(result)
