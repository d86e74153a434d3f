"""Measures what the questions about receipts cost where there are hundreds of thousands.

`python -m seller_platform_tests.benchmarks.many_receipts [--accounts 1000] [--days 58] [--runs 3]` prints a table.

Each account has three dated datasets with 24 months and a refresh each day that reads the lookback again, and an
inventory each day: 446,000 receipts. The least CPU of the runs is shown, of this process and of the PostgreSQL server.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from seller_platform.contract import Account, dataset_named
from seller_platform.ingest.verification.queries import StoredDays
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, open_holds, stored_windows
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.installation import temporary_warehouse

DATED, STOCK = tuple(map(dataset_named, ("orders", "daily_product_sales", "transactions"))), dataset_named("inventory")
_LOADS = """
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, announced,
                                rows, digest, verdict, changed, sums, changed_days, started_at, finished_at)
    SELECT dataset, account, first, after, 3, 2, 9000, 40 * (after - first), 40 * (after - first), '0123456789abcdef',
           'match', changed, sums, changed_days, moment, moment + interval '2 seconds'
    FROM ({windows}) AS windows
    ORDER BY moment, dataset, account
"""
_PAIRS = """
    unnest(CAST(:datasets AS text[]), CAST(:amounts AS text[]), CAST(:lookbacks AS integer[]))
        AS datasets (dataset, amount, lookback)
    CROSS JOIN LATERAL (SELECT 'S' || number || '.DE' AS account FROM generate_series(1, :accounts) AS number) AS pairs
"""
_SUMS = "jsonb_build_object('rows', (40 * (after - first))::text, amount || ' EUR', (990.5 * (after - first))::text)"
_HISTORY = text(
    _LOADS.format(
        windows=f"""
    SELECT *, true AS changed, NULL::jsonb AS changed_days, {_SUMS} AS sums, begin AS moment
    FROM {_PAIRS}
    CROSS JOIN (SELECT CAST(:begin AS timestamptz) AS begin) AS moments
    CROSS JOIN LATERAL (SELECT month::date AS first,
                               least(month + interval '1 month', date_trunc('day', begin) + interval '1 day')::date
                               AS after
                        FROM generate_series(date_trunc('month', begin) - interval '23 months', begin,
                                             interval '1 month') AS month) AS months"""
    )
)
_REFRESHES = text(
    _LOADS.format(
        windows=f"""
    SELECT *, {_SUMS} AS sums,
           (SELECT jsonb_object_agg(day::date, jsonb_build_array(3, CASE WHEN day = read_on THEN 0 ELSE 3 END, '12.5'))
            FROM generate_series(greatest(first, read_on - 6), after - 1, interval '1 day') AS day
            WHERE amount <> '') AS changed_days,
           after > read_on - 6 AS changed
    FROM {_PAIRS}
    CROSS JOIN LATERAL (SELECT moment, CAST(moment AS date) AS read_on
                        FROM generate_series(CAST(:begin AS timestamptz) + interval '1 day',
                                             CAST(:now AS timestamptz), interval '1 day') AS moment) AS moments
    CROSS JOIN LATERAL (SELECT greatest(month::date, read_on - lookback) AS first,
                               least(month + interval '1 month', read_on + 1)::date AS after
                        FROM generate_series(date_trunc('month', read_on - lookback), read_on, interval '1 month')
                             AS month) AS months"""
    )
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--days", type=int, default=58)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    table = Table("question", "CPU s, this process", "CPU s, PostgreSQL", "wall s")
    with filled(options.accounts, options.days) as (database, days):
        with database.begin() as connection:
            table.title = f"{connection.execute(text('SELECT count(*) FROM platform.loads')).scalar_one():,} receipts"
        for name, question in questions(database, days).items():
            figures = [measured(database, question) for _ in range(options.runs)]
            table.add_row(name, *(f"{min(each):.2f}" for each in zip(*figures, strict=True)))
    Console(width=100).print(table)


def questions(database: Database, days: list[AccountDay]) -> dict[str, Callable[[], object]]:
    """Return what is measured, by name."""
    datasets, accounts = [*DATED, STOCK], [day.account for day in days]
    since = days[0].today - timedelta(days=700)
    return {
        "lookbacks (platform.settledness)": lambda: lookbacks(database, datasets, accounts, adaptive=True),
        "days_due": lambda: days_due(database, datasets, days, since=since),
        "stored days of `verify`": lambda: StoredDays(stored_windows(database)),
        "open_holds": lambda: open_holds(database),
    }


def measured(database: Database, question: Callable[[], object]) -> tuple[float, float, float]:
    """Return the seconds of CPU of this process and of the server, and of the clock."""
    server, own, wall = _server_seconds(database), time.process_time(), time.monotonic()
    question()
    return (time.process_time() - own, _server_seconds(database) - server, time.monotonic() - wall)


def _server_seconds(database: Database) -> float:
    """Return the CPU of the server's processes, and of those that ended (see proc(5))."""
    with database.begin() as connection:
        own = int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
    parent = int(_fields(own)[1])
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = _fields(int(folder.name))
        except OSError:
            continue
        if int(folder.name) == parent:
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == parent:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _fields(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def filled(number: int, days: int) -> Iterator[tuple[Database, list[AccountDay]]]:
    """Yield a warehouse with so many accounts and days of refreshes, and the local days of the accounts."""
    with temporary_warehouse() as (url, _), Database(url) as database:
        yield database, fill(database, number, days)


def fill(database: Database, number: int, days: int) -> list[AccountDay]:
    """Store so many accounts and receipts of so many days, and return the local days of the accounts."""
    now = datetime.now(UTC)
    save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
    account = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S")
    keys = [f"S{each}.DE" for each in range(1, number + 1)]
    save_accounts(database, "default", [(key, account) for key in keys])
    begin = (now - timedelta(days=days)).replace(hour=11)
    with database.begin() as connection:
        for statement, datasets in ((_HISTORY, DATED), (_REFRESHES, (*DATED, STOCK))):
            values = {
                "datasets": [dataset.name for dataset in datasets],
                "amounts": [dataset.money[0].name if dataset.money else "" for dataset in datasets],
                "lookbacks": [dataset.lookback_days for dataset in datasets],
                "accounts": number,
                "begin": begin,
            }
            connection.execute(statement, values if statement is _HISTORY else {**values, "now": now})
    with database.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(text("VACUUM ANALYZE platform.loads"))
    return [AccountDay.at(now, key, ZoneInfo("Europe/Berlin")) for key in keys]


if __name__ == "__main__":
    main()
