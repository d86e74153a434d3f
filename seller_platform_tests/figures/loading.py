"""Measures `sync` of orders and transactions, and of the same rows unchanged, beside PostgreSQL's own COPY.

An upstream that is always the faster side sends accounts x months x rows of both lists. The measurements alternate in
one run, so that ratios are reliable on a busy machine:

- COPY: the same rows, encoded beforehand, slice by slice, into the same tables
- sync: `seller-platform sync` as a whole, with its loading processes, into an empty database
- sync again: the same command, after no change

CPU is in seconds, and in microseconds a row; that of a command includes all its processes. MiB is the most that they
held together. `peers` compares `sync` with other tools.
"""

from collections.abc import Sequence

import psycopg

from seller_platform.contract import dataset_named
from seller_platform.warehouse.loads.copy_format import copy_statement
from seller_platform_tests.figures.free_service import (
    FIRST_MONTH,
    connected,
    free_service,
    months,
    pages_per_second,
    variables_of,
)
from seller_platform_tests.figures.measuring import Spent, spent, spent_by_command
from seller_platform_tests.figures.results import Samples
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import COMMAND

DATASETS = ("orders", "transactions")


def measure(*, accounts: int = 2, months_of_each: int = 12, rows: int = 20_000, runs: int = 3) -> Samples:
    """Options: accounts, months of each, rows of a month and list, and runs of which the medians are printed."""
    count = len(DATASETS) * accounts * months_of_each * rows
    with free_service(accounts, months_of_each, rows) as url, temporary_server() as (server, folder):
        title = f"{count:,} rows; the upstream sends {pages_per_second(url):,.0f} pages a second"
        samples = Samples(title, ratio_of=[(name, "seconds") for name in ("COPY", "sync")])

        def add(name: str, measured: Spent) -> None:
            samples.add(name, seconds=measured.seconds, own_CPU=measured.own, PostgreSQL_CPU=measured.postgres)
            samples.add(name, µs_a_row=(measured.own + measured.postgres) / count * 1e6)
            if measured.mib:
                samples.add(name, MiB=measured.mib)

        for _ in range(runs):
            site = connected(server, folder, "sync", url)
            synced = [spent_by_command(sync_of(months_of_each), variables_of(site), server) for _ in range(2)]
            blocks = _blocks_of(site.database_url)
            with psycopg.connect(connected(server, folder, "copy", url).database_url, autocommit=True) as target:
                add("COPY", spent(lambda: _copy(target, blocks), server))  # noqa: B023  # it is called at once
            for name, measured in zip(("sync", "sync again"), synced, strict=True):
                add(name, measured)
    return samples


def sync_of(month_count: int) -> list[str]:
    """Return the command that loads both lists."""
    command = [*COMMAND, "sync", "--json", "--from", f"{FIRST_MONTH:%Y-%m}"]
    return [*command, "--to", f"{months(month_count)[-1].start:%Y-%m}", *(f"--dataset={name}" for name in DATASETS)]


def _blocks_of(url: str) -> Sequence[tuple[str, bytes]]:
    """Return the stored rows of each slice as COPY sends them, with the names of their datasets."""
    blocks: list[tuple[str, bytes]] = []
    with psycopg.connect(url) as source:
        for name in DATASETS:
            table = dataset_named(name).table
            slices = source.execute(f"SELECT DISTINCT account, date_trunc('month', local_day)::date FROM {table}")
            for account, month in sorted(slices.fetchall()):
                chosen = f"account = '{account}' AND date_trunc('month', local_day) = '{month}'"
                query = f"COPY (SELECT {_columns(name)} FROM {table} WHERE {chosen}) TO STDOUT (NULL 'None')"
                with source.cursor() as cursor, cursor.copy(query) as copy:
                    blocks.append((name, b"".join(bytes(chunk) for chunk in copy)))
    return blocks


def _copy(target: psycopg.Connection, blocks: Sequence[tuple[str, bytes]]) -> None:
    """COPY each slice in a transaction of its own."""
    for name, block in blocks:
        statement = f"COPY {dataset_named(name).table} ({_columns(name)}) FROM STDIN (NULL 'None')"
        with target.transaction(), target.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(block)


def _columns(name: str) -> str:
    statement = copy_statement(dataset_named(name)).as_string()
    return statement[statement.index("(") + 1 : statement.index(")")]
