"""Tests that engines read a Delta table whole while its slices are replaced."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.warehouse.exports.partitions import Exported, Partition, export_partitions
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.engines import ENGINES, read_by_engines
from seller_platform_tests.support.receipts import mark_loaded

ORDERS = dataset_named("orders")
KEYS, ROWS = ("eu-1", "eu-2", "eu-3"), 20
YEAR = Window(date(2026, 1, 1), date(2027, 1, 1))
PARTITIONS: list[Partition] = [(key, month) for key in KEYS for month in YEAR.months()]
COLUMNS = ["account", "month", "local_day", "order_total", "sku"]
_STORE = text("""
    INSERT INTO seller.orders (platform_order_id, purchase_date, order_status, order_total, currency_code,
                               quantity_ordered, sku, sales_channel, local_day, account, load_id, page)
    SELECT number, month, 'Shipped', CAST(:round AS numeric) / 100, 'EUR', 1, 'R' || :round, 'web', month, account, 1, 1
    FROM unnest(CAST(:keys AS text[])) AS account CROSS JOIN unnest(CAST(:months AS date[])) AS month
    CROSS JOIN generate_series(1, CAST(:rows AS integer)) AS number
""")
_STORED = text("""
    SELECT account, CAST(date_trunc('month', local_day) AS date), local_day, order_total, sku FROM seller.orders
""")


def _rows_of(round_: int) -> int:
    return ROWS + round_ % 3


def _torn(rows: list[tuple[object, ...]]) -> Iterator[str]:
    """Yield what contradicts that all slices have the rows of one round, and no others.

    Each round replaces every slice, in one commit. Its number is in the amounts and the SKU.
    """
    rounds = {str(row[4]) for row in rows}
    if len(rounds) != 1:
        yield f"rounds {sorted(rounds)}"
        return
    (name,) = rounds
    total = Decimal(name[1:]) / 100
    expected = [
        (key, month.start, month.start, total, name)
        for key, month in PARTITIONS
        if month
        for _ in range(_rows_of(int(name[1:])))
    ]
    if sorted(rows) != sorted(expected):
        yield f"{len(rows)} rows of round {name}"


@pytest.mark.parametrize("replacements", [72, pytest.param(1_008, marks=pytest.mark.nightly)])
def test_no_engine_reads_a_part_of_a_replacement(database: Database, tmp_path: Path, replacements: int) -> None:
    has_ended = Event()

    def export(round_: int) -> None:
        months = [month.start for month in YEAR.months()]
        with database.begin() as connection:
            connection.execute(text("DELETE FROM seller.orders"))
            values = {"round": str(round_), "keys": list(KEYS), "months": months, "rows": _rows_of(round_)}
            connection.execute(_STORE, values)
        results = export_partitions(database, ORDERS, PARTITIONS, str(tmp_path)).values()
        assert all(isinstance(each, Exported) and each.replaced == 1 for each in results)

    def read(engine: str) -> tuple[int, list[str]]:
        reads, torn = 0, list[str]()
        # Without a pause, four readers leave the writer no processor.
        while not has_ended.wait(0.1) or not reads:
            torn += _torn(ENGINES[engine](tmp_path / "orders", COLUMNS))
            reads += 1
        return reads, torn

    for key in KEYS:
        mark_loaded(database, ORDERS, key, YEAR)
    export(1)
    with ThreadPoolExecutor(len(ENGINES)) as threads:
        readers = {engine: threads.submit(read, engine) for engine in ENGINES}
        try:
            for round_ in range(2, 2 + replacements // len(PARTITIONS)):
                export(round_)
        finally:
            has_ended.set()
        results = {engine: reader.result() for engine, reader in readers.items()}

    with database.begin() as connection:
        stored = sorted(tuple(row) for row in connection.execute(_STORED))
    assert {engine: torn for engine, (_, torn) in results.items() if torn} == {}
    assert all(reads for reads, _ in results.values())
    for engine, rows in read_by_engines(tmp_path / "orders", COLUMNS).items():
        assert sorted(rows) == stored, engine
