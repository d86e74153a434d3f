"""Measures loads with and without Dagster, compared with COPY alone.

`python -m seller_platform_tests.benchmarks.loading` prints one table.

A service that answers from memory sends orders and transactions of 2 accounts x 12 months x 20,000 rows. Each
measurement is a separate process. All are part of one run, so that ratios are reliable on a busy machine:

- floor: COPY of the same rows, encoded beforehand, slice by slice, into the same tables
- loader: the platform's loads without Dagster
- sync: `seller-platform sync` as a whole
- sync again: the same command again, after no change
- sync, 50 ms: the same rows from a service that takes 50 ms for every answer
- sync, a quarter of the months, and a quarter of the months with slices 4 times as large: the growth of memory
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from seller_platform.contract import dataset_named
from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import Upstream, open_api
from seller_platform.ingest.loads.slices import SliceRequest, load_each, load_slice, window_to_load
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import KnownConnection, account_of, save_connection
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.copy_format import copy_statement
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform_tests.benchmarks.free_service import FIRST_MONTH, accounts, months
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import drop_database

DATASETS = ("orders", "transactions")


@contextmanager
def free_service(*options: str) -> Iterator[str]:
    """Run the service that answers from memory and yield its URL."""
    command = [sys.executable, "-m", "seller_platform_tests.benchmarks.free_service", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def environment(server: EmbeddedServer, home: Path, database: str, base_url: str) -> dict[str, str]:
    """Return the variables of a new installation that is connected to the service."""
    drop_database(server, database)
    variables = {
        "SELLER_PLATFORM_HOME": str(home),
        "SELLER_PLATFORM_DATABASE_URL": server.database(database),
        "SELLER_PLATFORM_HISTORY_START": FIRST_MONTH.isoformat(),
        "SELLER_API_BASE_URL": base_url,
        "SELLER_API_CLIENT_ID": "benchmark",
        "SELLER_API_CLIENT_SECRET": "benchmark",
    }
    with Database(variables["SELLER_PLATFORM_DATABASE_URL"]) as opened:
        opened.migrate()
        save_connection(opened, KnownConnection("default", base_url, base_url, "benchmark"))
        pair = TokenPair("access", "refresh", datetime.now(UTC), 10**7, 1)
        Grants(opened, secret_box(home, None)).store("default", pair)
    return variables


def measured(command: list[str], variables: dict[str, str]) -> tuple[float, int]:
    """Run a command and return its seconds and its greatest memory, in MiB."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        sys.exit(f"{command} ended with {process.returncode}: {output.decode()[-2000:]}")
    return seconds, usage.ru_maxrss // 1024


def load_alone() -> None:
    """Load everything without Dagster in this process, and print seconds, rows and memory."""
    settings = read_settings()
    upstream = Upstream.of(settings)
    with Database(warehouse_url(settings)) as database:
        box = secret_box(settings.home, None)
        with open_api(upstream, "default", database, box, settings.home) as api:
            discover_for_benchmark(database)
            started, now = time.perf_counter(), datetime.now(UTC)
            requests = [
                SliceRequest(dataset_named(name), f"{account['seller_id']}.{account['marketplace']}", month)
                for name in DATASETS
                for account in accounts(int(os.environ["BENCHMARK_ACCOUNTS"]))
                for month in months(int(os.environ["BENCHMARK_MONTHS"]))
            ]

            def load(request: SliceRequest) -> Receipt:
                registered = account_of(database, request.account)
                window = window_to_load(database, registered, request, now=now, whole=True)
                assert window is not None
                return load_slice(api, database, registered, request.dataset, window, run_id=None)

            rows = 0
            for outcome in load_each(requests, load):
                if outcome.error is not None or outcome.receipt is None:
                    raise SystemExit(f"{outcome.request}: {outcome.error}")
                rows += outcome.receipt.rows
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "rows": rows, "mib": _own_mib()}))


def discover_for_benchmark(database: Database) -> None:
    """Register the service's accounts without a request."""
    from seller_platform.contract import Account
    from seller_platform.warehouse.connections.accounts import save_accounts

    registered = []
    for listed in accounts(int(os.environ["BENCHMARK_ACCOUNTS"])):
        account = Account(
            id=int(str(listed["id"])),
            title=str(listed["account_title"]),
            country_code="US",
            currency_code="USD",
            timezone=str(listed["timezone"]),
            marketplace=str(listed["marketplace"]),
            seller_id=str(listed["seller_id"]),
        )
        registered.append((account.key, account))
    save_accounts(database, "default", registered)


def copy_alone(source_url: str, target_url: str) -> float:
    """COPY rows into empty tables, one transaction a slice, and return the seconds.

    The rows are read from loaded tables before the measurement.
    """
    blocks: list[tuple[str, bytes]] = []
    with psycopg.connect(source_url) as source:
        for name in DATASETS:
            table = dataset_named(name).table
            slices = source.execute(
                f"SELECT DISTINCT account, date_trunc('month', local_day)::date FROM {table} ORDER BY 1, 2"
            ).fetchall()
            columns = _columns(source, name)
            for account, month in slices:
                query = (
                    f"COPY (SELECT {columns} FROM {table} WHERE account = '{account}' "
                    f"AND date_trunc('month', local_day) = '{month}') TO STDOUT (FORMAT text, NULL 'None')"
                )
                with source.cursor() as cursor, cursor.copy(query) as copy:
                    blocks.append((name, b"".join(bytes(chunk) for chunk in copy)))
    with psycopg.connect(target_url, autocommit=True) as target:
        started = time.perf_counter()
        for name, block in blocks:
            statement = f"COPY {dataset_named(name).table} ({_columns(target, name)}) FROM STDIN (NULL 'None')"
            with target.transaction(), target.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write(block)
        return time.perf_counter() - started


def _columns(connection: psycopg.Connection, name: str) -> str:
    statement = copy_statement(dataset_named(name)).as_string(connection)
    return statement[statement.index("(") + 1 : statement.index(")")]


def _own_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accounts", type=int, default=2)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--rows", type=int, default=20_000, help="rows per account, month and list")
    parser.add_argument("--repeat", type=int, default=3, help="medians of so many repetitions")
    parser.add_argument("--load-alone", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--copy-alone", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    os.environ |= {"BENCHMARK_ACCOUNTS": str(chosen.accounts), "BENCHMARK_MONTHS": str(chosen.months)}
    if chosen.copy_alone:
        print(json.dumps({"seconds": copy_alone(*chosen.copy_alone)}))
        return
    if chosen.load_alone:
        load_alone()
        return
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        try:
            measure(server, folder, chosen)
        finally:
            server.close()


def measure(server: EmbeddedServer, folder: Path, chosen: argparse.Namespace) -> None:
    """Take every measurement and print the table."""
    size = ["--accounts", str(chosen.accounts), "--months", str(chosen.months)]
    alone = [sys.executable, "-m", "seller_platform_tests.benchmarks.loading", "--load-alone"]
    sync = [sys.executable, "-m", "seller_platform.cli", "sync", "--json", "--from", f"{FIRST_MONTH:%Y-%m}", "--to"]
    sync += [f"{months(chosen.months)[-1].start:%Y-%m}", *(f"--dataset={name}" for name in DATASETS)]
    figures: dict[str, list[tuple[float, int]]] = {}

    def note(name: str, seconds: float, mib: int) -> None:
        figures.setdefault(name, []).append((seconds, mib))

    with free_service(*size, "--rows", str(chosen.rows)) as url:
        for _ in range(chosen.repeat):
            variables = environment(server, folder, "loader", url)
            result = subprocess.run(
                alone, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True, text=True
            )
            loader = json.loads(result.stdout)
            note("loader", loader["seconds"], loader["mib"])
            target = environment(server, folder, "floor", url)["SELLER_PLATFORM_DATABASE_URL"]
            floor = [*alone[:-1], "--copy-alone", variables["SELLER_PLATFORM_DATABASE_URL"], target]
            # A separate process, because the following ones would inherit the greatest memory of this one.
            result = subprocess.run(floor, stdout=subprocess.PIPE, check=True, text=True)
            note("floor: COPY alone", json.loads(result.stdout)["seconds"], 0)
            variables = environment(server, folder, "sync", url)
            note("sync", *measured(sync, variables))
            note("sync again, nothing changed", *measured(sync, variables))
        rows = loader["rows"]
    quarter = max(1, chosen.months // 4)
    few = [*sync[: sync.index("--to") + 1], f"{months(quarter)[-1].start:%Y-%m}", *sync[sync.index("--to") + 2 :]]
    for name, rows_per_month in (
        ("a quarter of the months", chosen.rows),
        ("slices 4 times as large", 4 * chosen.rows),
    ):
        options = ("--accounts", str(chosen.accounts), "--months", str(quarter), "--rows", str(rows_per_month))
        with free_service(*options) as url:
            note(f"sync, {name}", *measured(few, environment(server, folder, "sync", url)))
    with free_service(*size, "--rows", str(chosen.rows), "--latency-ms", "50") as url:
        note("sync, 50 ms a request", *measured(sync, environment(server, folder, "sync", url)))
    show(figures, rows)


def show(figures: dict[str, list[tuple[float, int]]], rows: int) -> None:
    """Print medians, and the ratio of each to the floor."""
    table = Table(title=f"{rows:,} rows; medians", title_justify="left")
    for name in ("what", "seconds", "x floor", "MiB", "runs"):
        table.add_column(name, justify="left" if name == "what" else "right")
    floor = statistics.median(seconds for seconds, _ in figures["floor: COPY alone"])
    for name, runs in figures.items():
        seconds = statistics.median(seconds for seconds, _ in runs)
        mib = max(mib for _, mib in runs)
        table.add_row(name, f"{seconds:.2f}", f"{seconds / floor:.2f}", str(mib or "–"), str(len(runs)))
    Console().print(table)


if __name__ == "__main__":
    main()
