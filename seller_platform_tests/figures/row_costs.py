"""Measures what indexes, columns, kept sums and receipts cost a load in PostgreSQL.

The rows of both lists that `sync` stored are written again with COPY, slice by slice: as they are, and without each
index and each column that the contract does not have (and the indexes on it), except for the account, by which tables
are partitioned. What is saved is the cost. Then the sums of the slices are kept, and their receipts stored. CPU is in
microseconds a row, WAL and tables are in bytes a row. The noise of the CPU is some tenths of a microsecond.
"""

import os
import subprocess
from collections.abc import Callable

import psycopg

from seller_platform.contract import Dataset, dataset_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema.tables import SELLER, table_for
from seller_platform.warehouse.sums.keeping import begin_sums, keep_sums
from seller_platform_tests.figures.free_service import connected, free_service, months, variables_of
from seller_platform_tests.figures.loading import DATASETS, blocks_of, copy_blocks, sync_of
from seller_platform_tests.figures.measuring import spent
from seller_platform_tests.figures.results import Samples
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.postgres import drop_database

ACCOUNT = "S1.BENCH"
_Cost = tuple[float, float, float]
"""Seconds of PostgreSQL's CPU, bytes of WAL, and bytes of the tables with their indexes."""

_POSITION = "SELECT pg_current_wal_insert_lsn() - '0/0'"
_SIZE = """
SELECT sum(pg_total_relation_size(partition.relid))
FROM unnest(%s::text[]) AS name, pg_partition_tree(format('seller.%%I', name)) AS partition
"""
_WITHOUT_RECEIPTS = """
DROP TABLE IF EXISTS receipts;
CREATE TABLE receipts AS SELECT * FROM platform.loads;
TRUNCATE platform.loads, platform.slices, platform.known_pages
"""
_RECEIPTS = "INSERT INTO platform.loads OVERRIDING SYSTEM VALUE SELECT * FROM receipts ORDER BY id"


def measure(*, months_of_each: int = 6, rows: int = 20_000, runs: int = 3) -> Samples:
    """Options: months of one account, rows of a month and list, and runs of which the medians are printed."""
    count = len(DATASETS) * months_of_each * rows
    samples = Samples(f"{count:,} rows, of each")

    def add(line: str, cost: _Cost) -> None:
        samples.add(line, PostgreSQL_µs=cost[0] / count * 1e6, WAL_bytes=cost[1] / count, table_bytes=cost[2] / count)

    with free_service(1, months_of_each, rows) as url, temporary_server() as (server, folder):
        site = connected(server, folder, "sync", url)
        subprocess.run(sync_of(months_of_each), env=os.environ | variables_of(site), check=True, capture_output=True)
        connected(server, folder, "empty", url)
        _cost_of_copy(server, site.database_url)  # so that the first sample is like all others
        for _ in range(runs):
            whole = _cost_of_copy(server, site.database_url)
            add("COPY", whole)
            add("all kept sums", _cost_of_sums(server, months_of_each))
            for name, (change, column) in _parts().items():
                cost = _cost_of_copy(server, site.database_url, change, column)
                add(name, (whole[0] - cost[0], whole[1] - cost[1], whole[2] - cost[2]))
            with psycopg.connect(site.database_url, autocommit=True) as connection:
                connection.execute(_WITHOUT_RECEIPTS)
                cpu, wal, _ = _cost(server, connection, lambda: connection.execute(_RECEIPTS))
                add("receipts", (cpu, wal, 0))
    return samples


def _parts() -> dict[str, tuple[str, str]]:
    """Return the statements that remove each index or column, and the column, by what is measured."""
    parts: dict[str, tuple[str, str]] = {}
    tables = [(dataset, table_for(dataset)) for dataset in map(dataset_named, DATASETS)]
    for _, table in tables:
        for name in sorted(str(index.name) for index in table.indexes):
            parts[f"index {name}"] = (f"DROP INDEX {SELLER}.{name}", "")
    own = {column.name for dataset, table in tables for column in table.columns if _is_own(dataset, column.name)}
    for name in sorted(own):
        changes = [f"ALTER TABLE {table} DROP COLUMN {name}" for _, table in tables if name in table.columns]
        parts[f"column {name}"] = ("; ".join(changes), name)
    return parts


def _is_own(dataset: Dataset, name: str) -> bool:
    return name not in ("account", dataset.slice_column, *(column.name for column in dataset.columns))


def _cost_of_copy(server: EmbeddedServer, source: str, change: str = "", without: str = "") -> _Cost:
    """Write the rows into tables that a statement has changed."""
    drop_database(server, "copy")
    blocks = blocks_of(source, without)
    with psycopg.connect(server.database("copy", template="empty"), autocommit=True) as target:
        if change:
            target.execute(change)
        return _cost(server, target, lambda: copy_blocks(target, blocks, without))


def _cost_of_sums(server: EmbeddedServer, month_count: int) -> _Cost:
    """Keep the sums of the rows that were written last, as loads do."""

    def keep() -> None:
        for dataset in map(dataset_named, DATASETS):
            for month in months(month_count):
                with database.begin() as transaction:
                    keep_sums(transaction, dataset, ACCOUNT, month, load_id=0, is_first=True)

    with Database(server.url("copy")) as database, psycopg.connect(database.url, autocommit=True) as connection:
        with database.begin() as transaction:
            for dataset in map(dataset_named, DATASETS):
                begin_sums(transaction, dataset, ACCOUNT)
        cpu, wal, _ = _cost(server, connection, keep)
        return cpu, wal, 0


def _cost(server: EmbeddedServer, connection: psycopg.Connection, work: Callable[[], object]) -> _Cost:
    connection.execute("CHECKPOINT")
    before, cpu = _number(connection, _POSITION), spent(work, server).postgres
    return cpu, _number(connection, _POSITION) - before, _number(connection, _SIZE)


def _number(connection: psycopg.Connection, statement: str) -> float:
    row = connection.execute(statement, [list(DATASETS)] if "%s" in statement else None).fetchone()
    return float(row[0]) if row else 0
