"""Measures loads with and without Dagster, compared with COPY alone.

`python -m seller_platform_tests.benchmarks.loading` prints one table.

A service that answers from memory sends orders and transactions of 2 accounts x 12 months x 20,000 rows. Each
measurement is a separate process. All are part of one run, so that ratios are reliable on a busy machine:

- floor: COPY of the same rows, encoded beforehand, slice by slice, into the same tables
- loader: the platform's loads without Dagster, in one process
- loader, two processes: the same in loading processes, with their start
- sync: `seller-platform sync` as a whole, with its loading processes
- sync again: the same command again, after no change
- sync, 50 ms: the same rows from a service that takes 50 ms for every answer
- sync, a quarter of the months, and a quarter of the months with slices 4 times as large: the growth of memory
CPU is that of all processes of a command; MiB is the most that they held together, with shared memory counted once.
Both are without PostgreSQL and the service.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from seller_platform.contract import dataset_named
from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import Upstream, open_api
from seller_platform.ingest.loads.slices import SliceRequest, load_each
from seller_platform.ingest.workers.pool import LoadingProcesses
from seller_platform.ingest.workers.tasks import LoadTask, OwnLoader
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import KnownConnection, save_connection
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
_WATCHED_EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class Measured:
    """What a command took; None where it was not measured."""

    seconds: float
    cpu_seconds: float | None = None
    mib: int | None = None


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
        discover_for_benchmark(opened)  # as `connect` does
        pair = TokenPair("access", "refresh", datetime.now(UTC), 10**7, 1)
        Grants(opened, secret_box(home, None)).store("default", pair)
    return variables


def measured(command: list[str], variables: dict[str, str]) -> Measured:
    """Run a command and return its seconds, the CPU of all its processes, and their greatest memory."""
    before = _children_cpu()
    started = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    most, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(_WATCHED_EVERY_SECONDS):
            most[0] = max(most[0], sum(_proportional_kib(pid) for pid in _with_children(process.pid)))

    watching = threading.Thread(target=watch)
    watching.start()
    output = process.stdout.read()
    code = process.wait()
    seconds = time.perf_counter() - started
    ended.set()
    watching.join()
    process.stdout.close()
    if code:
        sys.exit(f"{command} ended with {code}: {output.decode()[-2000:]}")
    return Measured(seconds, _children_cpu() - before, most[0] >> 10)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _with_children(pid: int) -> Iterator[int]:
    """Yield a process, its children and theirs."""
    yield pid
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from _with_children(int(child))


def _proportional_kib(pid: int) -> int:
    """Return the memory of a process, with its share of the pages that others share with it."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def load_alone(processes: int) -> None:
    """Load everything without Dagster, and print seconds, rows and the memory of this process.

    Args:
        processes: How many loading processes load; with 0, this process does.
    """
    settings = read_settings()
    upstream, now = Upstream.of(settings), datetime.now(UTC)
    requests = [
        SliceRequest(dataset_named(name), f"{account['seller_id']}.{account['marketplace']}", month)
        for name in DATASETS
        for account in accounts(int(os.environ["BENCHMARK_ACCOUNTS"]))
        for month in months(int(os.environ["BENCHMARK_MONTHS"]))
    ]
    with ExitStack() as opened:
        database = opened.enter_context(Database(warehouse_url(settings)))
        box = secret_box(settings.home, None)
        api = opened.enter_context(open_api(upstream, "default", database, box, settings.home))
        own, started = OwnLoader(database, lambda _: api), time.perf_counter()
        pool = LoadingProcesses(settings, database.url, processes=processes) if processes else None
        if pool:
            opened.callback(pool.end)

        def load(request: SliceRequest) -> Receipt | None:
            task = LoadTask(request, now, whole=True, run_id=None)
            return pool.load(task, print, own) if pool else own.load(task, print)

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
    parser.add_argument("--load-alone", type=int, metavar="PROCESSES", help=argparse.SUPPRESS)
    parser.add_argument("--copy-alone", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    os.environ |= {"BENCHMARK_ACCOUNTS": str(chosen.accounts), "BENCHMARK_MONTHS": str(chosen.months)}
    if chosen.copy_alone:
        print(json.dumps({"seconds": copy_alone(*chosen.copy_alone)}))
        return
    if chosen.load_alone is not None:
        load_alone(chosen.load_alone)
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
    alone = [sys.executable, "-m", "seller_platform_tests.benchmarks.loading"]
    sync = [sys.executable, "-m", "seller_platform.cli", "sync", "--json", "--from", f"{FIRST_MONTH:%Y-%m}", "--to"]
    sync += [f"{months(chosen.months)[-1].start:%Y-%m}", *(f"--dataset={name}" for name in DATASETS)]
    figures: dict[str, list[Measured]] = {}

    def note(name: str, figure: Measured) -> None:
        figures.setdefault(name, []).append(figure)

    with free_service(*size, "--rows", str(chosen.rows)) as url:
        for _ in range(chosen.repeat):
            for name, processes in (("loader, two processes", 2), ("loader", 0)):
                variables = environment(server, folder, "loader", url)
                command = [*alone, "--load-alone", str(processes)]
                result = subprocess.run(
                    command, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True, text=True
                )
                loader = json.loads(result.stdout)
                note(name, Measured(loader["seconds"], mib=None if processes else loader["mib"]))
            target = environment(server, folder, "floor", url)["SELLER_PLATFORM_DATABASE_URL"]
            floor = [*alone, "--copy-alone", variables["SELLER_PLATFORM_DATABASE_URL"], target]
            # A separate process, because the following ones would inherit the greatest memory of this one.
            result = subprocess.run(floor, stdout=subprocess.PIPE, check=True, text=True)
            note("floor: COPY alone", Measured(json.loads(result.stdout)["seconds"]))
            variables = environment(server, folder, "sync", url)
            note("sync", measured(sync, variables))
            note("sync again, nothing changed", measured(sync, variables))
        rows = loader["rows"]
    quarter = max(1, chosen.months // 4)
    few = [*sync[: sync.index("--to") + 1], f"{months(quarter)[-1].start:%Y-%m}", *sync[sync.index("--to") + 2 :]]
    for name, rows_per_month in (
        ("a quarter of the months", chosen.rows),
        ("slices 4 times as large", 4 * chosen.rows),
    ):
        options = ("--accounts", str(chosen.accounts), "--months", str(quarter), "--rows", str(rows_per_month))
        with free_service(*options) as url:
            note(f"sync, {name}", measured(few, environment(server, folder, "sync", url)))
    with free_service(*size, "--rows", str(chosen.rows), "--latency-ms", "50") as url:
        note("sync, 50 ms a request", measured(sync, environment(server, folder, "sync", url)))
    show(figures, rows)


def show(figures: dict[str, list[Measured]], rows: int) -> None:
    """Print medians, and the ratio of each to the floor."""
    table = Table(title=f"{rows:,} rows; medians", title_justify="left")
    for name in ("what", "seconds", "x floor", "CPU s", "MiB", "runs"):
        table.add_column(name, justify="left" if name == "what" else "right")
    floor = statistics.median(run.seconds for run in figures["floor: COPY alone"])
    for name, runs in figures.items():
        seconds = statistics.median(run.seconds for run in runs)
        cpu = [run.cpu_seconds for run in runs if run.cpu_seconds is not None]
        mib = max(run.mib or 0 for run in runs)
        cpu_shown = f"{statistics.median(cpu):.2f}" if cpu else "–"
        table.add_row(name, f"{seconds:.2f}", f"{seconds / floor:.2f}", cpu_shown, str(mib or "–"), str(len(runs)))
    Console().print(table)


if __name__ == "__main__":
    main()
