"""Measures loads by difference: CPU and WAL of a slice of which 1 % changed, and the growth over a year.

`python -m seller_platform_tests.benchmarks.history [--rows 20000] [--days 365]` prints one table.

The load is compared with deleting and copying the whole slice, in turns in one run. The WAL is that of a first touch
after a checkpoint, with full pages. The growth is that of daily refreshes of 14 days with 200 rows each, of which 1 %
change each day; tables are vacuumed when autovacuum would.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any, LiteralString

import psycopg

from seller_platform.contract import Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.copy_format import Row, copy_statement
from seller_platform.warehouse.loads.plausibility import Judge
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.loads.spool import Spool
from seller_platform.warehouse.postgres.database import Database, conninfo
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.support.installation import temporary_warehouse

ORDERS = dataset_named("orders")
ACCOUNT = "SELLER.market"
MARCH = Window.month_of(date(2026, 3, 1))
ROUNDS = 9
ROWS_A_DAY, DAYS_READ = 200, 14
MOST_CPU, MOST_WAL, MOST_GROWTH, MOST_JUDGED = 0.35, 0.3, 1.3, 0.03
MICROSECONDS_TO_READ = 6
_SUMS = "SELECT count(*), currency_code, sum(order_total) FROM seller.orders WHERE account = 'SELLER.market' GROUP BY 2"
_SIZES = "SELECT pg_total_relation_size('seller.orders'), pg_total_relation_size('history.orders')"
_DEAD_SHARE, _DEAD_ROWS = 0.02, 50


def _row(number: int, day: date, total: Decimal) -> Row:
    name, sku = f"A product with a long name, {number % 97}", f"SKU-{number % 97}"
    return (
        *(f"order-{day}-{number}", f"{day}T10:00:00-08:00", "Shipped", total, "USD", 1),
        *(sku, f"ASIN-{number % 97}", name, day.isoformat()),
    )


@dataclass
class Cost:
    """CPU in milliseconds, of this process and of the server, and WAL in megabytes, of each round."""

    cpu: list[float] = field(default_factory=list)
    wal: list[float] = field(default_factory=list)

    @contextmanager
    def measured(self, watch: psycopg.Connection[Any], pid: int) -> Iterator[None]:
        """Add a round."""
        watch.execute("CHECKPOINT")
        wal, cpu = _one(watch, "SELECT pg_current_wal_insert_lsn() - '0/0'"), time.process_time() * 1e3 + _cpu_ms(pid)
        yield
        self.cpu.append(time.process_time() * 1e3 + _cpu_ms(pid) - cpu)
        self.wal.append((_one(watch, "SELECT pg_current_wal_insert_lsn() - '0/0'") - wal) / 1e6)


def _cpu_ms(pid: int) -> float:
    """Return the CPU time of a process, which Linux counts in nanoseconds."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def _one(connection: psycopg.Connection[Any], query: LiteralString) -> float:
    (value,) = connection.execute(query).fetchone() or (0,)
    return float(value)


def change_a_little(database: Database, watch: psycopg.Connection[Any], rows: int) -> list[Figure]:
    """Change 1 % of a slice in each round, by deleting and copying it, by a load, and by a load that is judged."""
    days = list(MARCH.each_day())
    stored = [_row(number, days[number % len(days)], Decimal("10.00")) for number in range(rows)]
    replaced, loaded, judged, spooled = Cost(), Cost(), Cost(), list[float]()
    with psycopg.connect(conninfo(database.url)) as plain:
        for number in range(2 * ROUNDS + 2):
            changed = [
                (*row[:3], Decimal(f"{11 + number}.50"), *row[4:]) if (position + number) % 100 == 0 else row
                for position, row in enumerate(stored)
            ]
            spool = Spool("a slice", ORDERS, ACCOUNT, 1)
            spool.write(stored, tags=("platform",), page=1)
            if number > 1 and number % 2:
                with replaced.measured(watch, plain.info.backend_pid):
                    cursor = plain.execute(_SUMS)
                    cursor.execute("DELETE FROM seller.orders WHERE account = %s", [ACCOUNT])
                    with cursor.copy(copy_statement(ORDERS)) as copy:
                        for chunk in spool.chunks():
                            copy.write(chunk)
                    cursor.execute(_SUMS)
                    plain.commit()
            spool.close()
            watch.execute("VACUUM seller.orders, history.orders")
            stored = changed
            with open_load(database, Slice(ORDERS, ACCOUNT, MARCH)) as load:
                began = time.process_time()
                load.spool.write(stored, tags=("platform",), page=1)
                spooled.append(1e3 * (time.process_time() - began))
                pid = int(_one(watch, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' LIMIT 1"))
                with (loaded if number % 2 else judged).measured(watch, pid):
                    facts = LoadFacts(1, 1, 0, len(stored), CountVerdict.MATCH)
                    judge = None if number % 2 else Judge(settled=frozenset(days))
                    load.store(facts, started_at=datetime.now(UTC), judge=judge)
    cpu, wal = median(loaded.cpu[1:]) / median(replaced.cpu), median(loaded.wal[1:]) / median(replaced.wal)
    # A row takes about six microseconds more before it comes to the spool: HTTP, decoding and the walk.
    whole = median(loaded.cpu[1:]) + median(spooled) + rows * MICROSECONDS_TO_READ / 1e3
    more = (median(judged.cpu[1:]) - median(loaded.cpu[1:])) / whole
    return [
        Figure(f"{rows:,} rows, 1 % changed: CPU of delete and copy, ms", f"{median(replaced.cpu):.0f}"),
        Figure("  CPU of the load, ms", f"{median(loaded.cpu[1:]):.0f}"),
        Figure("  CPU, by that of delete and copy", f"{cpu:.2f}", f"at most {MOST_CPU}", cpu <= MOST_CPU),
        Figure("  CPU of the judgement of settled days, ms", f"{median(judged.cpu[1:]) - median(loaded.cpu[1:]):.1f}"),
        Figure("    by that of a load with its reading", f"{more:.3f}", f"at most {MOST_JUDGED}", more <= MOST_JUDGED),
        Figure("  WAL, by that of delete and copy", f"{wal:.2f}", f"at most {MOST_WAL}", wal <= MOST_WAL),
    ]


def grow(database: Database, watch: psycopg.Connection[Any], days: int) -> list[Figure]:
    """Refresh an account each day, and compare the size of tables and history with that of the rows alone."""
    watch.execute("TRUNCATE seller.orders, history.orders, platform.known_pages, platform.loads")
    first, totals = date(2025, 1, 1), dict[tuple[date, int], int]()
    for today in (first + timedelta(days=number) for number in range(days)):
        window = Window(max(first, today - timedelta(days=DAYS_READ - 1)), today + timedelta(days=1))
        for position, key in enumerate((day, number) for day in window.each_day() for number in range(ROWS_A_DAY)):
            totals[key] = totals.get(key, 10) + ((position * 37 + today.toordinal()) % 100 == 0)
        for part in window.months():
            with open_load(database, Slice(ORDERS, ACCOUNT, part)) as load:
                read = [
                    _row(number, day, Decimal(totals[day, number]))
                    for day in part.each_day()
                    for number in range(ROWS_A_DAY)
                ]
                load.spool.write(read, tags=("platform",), page=1)
                load.store(LoadFacts(1, 1, 0, len(read), CountVerdict.MATCH), started_at=datetime.now(UTC))
        dead, live = _dead_and_live(watch)
        if dead > _DEAD_ROWS + _DEAD_SHARE * live:
            watch.execute("VACUUM seller.orders, history.orders")
    grown = watch.execute(_SIZES).fetchone()
    moved = _one(watch, "SELECT count(*) FROM history.orders")
    watch.execute("CREATE TABLE alone (LIKE seller.orders INCLUDING INDEXES)")
    watch.execute("INSERT INTO alone SELECT * FROM seller.orders ORDER BY local_day")
    watch.execute("ALTER TABLE alone DROP COLUMN row_hash")
    watch.execute("VACUUM FULL alone")
    alone = _one(watch, "SELECT pg_total_relation_size('alone')")
    assert grown is not None
    ratio = sum(grown) / alone
    return [
        Figure(f"{days} daily refreshes: rows, former rows", f"{len(totals):,}, {moved:,.0f}"),
        Figure(
            "  tables and history, by the rows alone", f"{ratio:.2f}", f"at most {MOST_GROWTH}", ratio <= MOST_GROWTH
        ),
    ]


def _dead_and_live(watch: psycopg.Connection[Any]) -> tuple[int, int]:
    watch.execute("SELECT pg_stat_clear_snapshot()")
    dead, live = watch.execute(
        "SELECT n_dead_tup, n_live_tup FROM pg_stat_user_tables WHERE schemaname = 'seller' AND relname = 'orders'"
    ).fetchone() or (0, 0)
    return int(dead), int(live)


def main() -> int:
    """Measure and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--days", type=int, default=365)
    chosen = parser.parse_args()
    with (
        temporary_warehouse() as (url, _),
        Database(url) as database,
        psycopg.connect(conninfo(url), autocommit=True) as watch,
    ):
        figures = change_a_little(database, watch, chosen.rows)
        if chosen.days:
            figures += grow(database, watch, chosen.days)
    return print_figures("Loads by difference", figures)


if __name__ == "__main__":
    sys.exit(main())
