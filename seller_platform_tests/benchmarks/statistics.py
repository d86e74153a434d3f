"""Measures every combination of the statistics dashboard, and what its sums cost a load.

`python -m seller_platform_tests.benchmarks.statistics [--months 12]` prints three tables.

The account is the sandbox's largest, with 2,000 products. The combinations are measured as in `benchmarks.serving`, in
the currency of the account and in another. Then one month of daily product sales and of transactions is stored for
another account, as a first load and with one row in a hundred changed: with its sums, and while another program holds
the lock of the sums, so that the load keeps none. The figures are milliseconds of processor time of this process and of
PostgreSQL, without requests and decoding.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from statistics import median

import psycopg
from psycopg import sql
from rich.console import Console
from rich.table import Table

from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.advisory_locks import LOCK
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.sums.keeping import lock_name
from seller_platform_tests.benchmarks.serving import (
    OTHER_CURRENCY,
    STATISTICS_TODAY,
    Line,
    measure_statistics,
    month_before,
    seconds_computed,
)
from seller_platform_tests.support.folders import temporary_folder

REPEATS, CHANGED_OF = 3, 100
_ACCOUNT = "S9.BENCH"
_FACTS = LoadFacts(1, 1, 2, None, CountVerdict.UNVERIFIABLE)


def rows_of_month(url: str, dataset: Dataset, month: Window) -> list[Row]:
    """Return the stored rows of a month, as a load writes them."""
    names = [*(column.name for column in dataset.columns), "local_day"]
    columns = sql.SQL(", ").join(
        sql.SQL("{}::text").format(sql.Identifier(name)) if name == "posted_date" else sql.Identifier(name)
        for name in names
    )
    statement = sql.SQL("SELECT {} FROM {} WHERE local_day >= %s AND local_day < %s AND account <> %s").format(
        columns, sql.Identifier("seller", dataset.name)
    )
    with psycopg.connect(url) as connection:
        return connection.execute(statement, (month.start, month.end, _ACCOUNT)).fetchall()


def cpu_of_a_load(url: str, dataset: Dataset, month: Window, rows: Sequence[Row], *, is_summed: bool) -> float:
    """Store a slice, and return the milliseconds of processor time of this process and of its PostgreSQL."""
    locked = nullcontext() if is_summed else locked_sums(url)
    with Database(url) as database, locked, open_load(database, Slice(dataset, _ACCOUNT, month)) as load:
        with psycopg.connect(url) as connection:
            pids = [pid for (pid,) in connection.execute(_BACKENDS)]
        computed, began = seconds_computed(pids), time.process_time()
        load.spool.write(rows, tags=(None,) * len(dataset.tags), page=1)
        load.store(_FACTS, started_at=datetime.now(UTC))
        return 1_000 * (time.process_time() - began + seconds_computed(pids) - computed)


_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@contextmanager
def locked_sums(url: str) -> Iterator[None]:
    """Hold the lock of the sums, so that loads keep none."""
    with psycopg.connect(url) as connection:
        connection.execute(LOCK, {"name": lock_name(_ACCOUNT)})
        yield


def clear(url: str, dataset: Dataset) -> None:
    """Delete the rows of the account, with their receipts and sums."""
    with psycopg.connect(url) as connection:
        for table in (f"seller.{dataset.name}", f"history.{dataset.name}", "platform.loads", "service.summaries"):
            name = sql.Identifier(*table.split("."))
            connection.execute(sql.SQL("DELETE FROM {} WHERE account = %s").format(name), (_ACCOUNT,))
        for table in ("product_days", "product_months", "changed_months", "day_sums", "daily_counts"):
            name = sql.Identifier("service", table)
            connection.execute(sql.SQL("DELETE FROM {} WHERE account = %s").format(name), (_ACCOUNT,))


def measure_loads(url: str) -> Sequence[Line]:
    """Return a line for each list: first loads and loads of few changes, with sums and without."""
    lines: list[Line] = []
    month = Window.month_of(month_before(STATISTICS_TODAY, 2))
    for name, amount in (("daily_product_sales", 5), ("transactions", 6)):
        dataset = dataset_named(name)
        rows = rows_of_month(url, dataset, month)
        changed = [
            (*row[:amount], 0, *row[amount + 1 :]) if position % CHANGED_OF == 0 else row
            for position, row in enumerate(rows)
        ]
        figures: dict[tuple[str, bool], list[float]] = {}
        for _ in range(REPEATS):
            for is_summed in (True, False):
                clear(url, dataset)
                for kind, read in (("first load", rows), ("1 % changed", changed)):
                    taken = cpu_of_a_load(url, dataset, month, read, is_summed=is_summed)
                    figures.setdefault((kind, is_summed), []).append(taken)
        clear(url, dataset)
        for kind in ("first load", "1 % changed"):
            with_sums, without = median(figures[kind, True]), median(figures[kind, False])
            compared = f"{with_sums / without:.2f} x"
            lines.append((f"{name}, {len(rows):,} rows, {kind}", f"{with_sums:.0f}", f"{without:.0f}", compared))
    return lines


def main() -> None:
    """Fill a database, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--months", type=int, default=12)
    asked = parser.parse_args()
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        own, other = measure_statistics(server, folder, asked.months)
        loads = measure_loads(server.database("statistics"))
        server.close()
    console = Console(width=140)
    for currency, lines in (("in its own currency", own), (f"in {OTHER_CURRENCY}", other)):
        title = f"{asked.months} months of 2,000 products, {currency}: over HTTP (computed by PostgreSQL)"
        table = Table(*("statistics", "first page, first time", "first page again", "middle page"), title=title)
        for line in lines:
            table.add_row(*line)
        console.print(table)
    table = Table("loads", "ms with sums", "ms without", "compared", title="Processor time of loads")
    for line in loads:
        table.add_row(*line)
    console.print(table)


if __name__ == "__main__":
    main()
