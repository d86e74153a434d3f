"""Tests that engines read a Delta table whole while its slices are replaced."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.delta import Exported, Partition, export_partitions
from seller_platform_tests.support.engines import ENGINES, read_by_engines

ORDERS = dataset_named("orders")
KEYS = ("A.EU", "B.EU")
MONTHS = [Window.month_of(date(2026, month, 1)) for month in (1, 2, 3)]
ROWS = 20
COLUMNS = ["account", "month", "local_day", "order_total", "sku"]


def _load(database: Database, account: str, month: Window, round_: int) -> None:
    """Store rows whose SKU names the round, and whose amounts sum up to a number with cents of the round."""
    total = Decimal(round_) / 100
    rows = [
        (
            f"o{number}",
            f"{month.start}T12:00:00Z",
            "Shipped",
            total,
            "EUR",
            1,
            f"R{round_}",
            None,
            None,
            str(month.start),
        )
        for number in range(ROWS + round_ % 3)
    ]
    with open_load(database, Slice(ORDERS, account, month)) as load:
        load.spool.write(rows, tags=("platform",) * len(ORDERS.tags), extras={}, page=1)
        load.store(LoadFacts(1, 1, 0, len(rows), CountVerdict.MATCH), started_at=datetime.now(UTC))


def _torn(rows: list[tuple[object, ...]]) -> Iterator[str]:
    """Yield what contradicts that each slice has the rows of one round, and no others.

    All slices of a table have the same round, because each export replaces all of them.
    """
    slices: dict[tuple[object, object], list[tuple[object, ...]]] = {}
    for row in rows:
        slices.setdefault((row[0], row[1]), []).append(row)
    rounds = {str(row[4]) for row in rows}
    if len(rounds) != 1 or len(slices) != len(KEYS) * len(MONTHS):
        yield f"{len(slices)} slices of rounds {sorted(rounds)}"
        return
    round_ = int(rounds.pop()[1:])
    for (account, month), of_slice in slices.items():
        expected = [(account, month, month, Decimal(round_) / 100, f"R{round_}")] * (ROWS + round_ % 3)
        if of_slice != expected:
            yield f"{account} {month} of round {round_}: {len(of_slice)} rows"


@pytest.mark.parametrize("replacements", [12, pytest.param(1_002, marks=pytest.mark.nightly)])
def test_no_engine_reads_a_part_of_a_replacement(database: Database, tmp_path: Path, replacements: int) -> None:
    partitions: list[Partition] = [(key, month) for key in KEYS for month in MONTHS]
    has_ended = Event()

    def export(round_: int) -> None:
        for account, month in partitions:
            assert account is not None
            assert month is not None
            _load(database, account, month, round_)
        results = export_partitions(database, ORDERS, partitions, str(tmp_path)).values()
        assert all(isinstance(each, Exported) and each.replaced == 1 for each in results)

    def read(engine: str) -> tuple[int, list[str]]:
        reads, torn = 0, list[str]()
        while not has_ended.is_set() or not reads:
            torn += _torn(ENGINES[engine](tmp_path / "orders", COLUMNS))
            reads += 1
        return reads, torn

    export(1)
    with ThreadPoolExecutor(len(ENGINES)) as threads:
        readers = {engine: threads.submit(read, engine) for engine in ENGINES}
        try:
            for round_ in range(2, 2 + replacements // len(partitions)):
                export(round_)
        finally:
            has_ended.set()
        results = {engine: reader.result() for engine, reader in readers.items()}

    with database.begin() as connection:
        month = "CAST(date_trunc('month', local_day) AS date)"
        of_month = text(f"SELECT account, {month}, local_day, order_total, sku FROM seller.orders")
        stored = sorted(tuple(row) for row in connection.execute(of_month))
    assert {engine: torn for engine, (_, torn) in results.items() if torn} == {}
    assert all(reads for reads, _ in results.values())
    for engine, rows in read_by_engines(tmp_path / "orders", COLUMNS).items():
        assert sorted(rows) == stored, engine
