"""Measures the CPU of each reading command from its start to its first output.

`python -m seller_platform_tests.benchmarks.commands [--runs 5] [--accounts 1000] [--months 36]` prints a table.

A reading command may take 1.0 s and `--help` 0.15 s. The warehouse has a receipt of every dataset, account and month,
and no rows; its server runs all the time. The CPU is that of the command's process when its first output arrives.
"""

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from seller_platform.contract import REFRESHED, Account
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.installation import temporary_warehouse
from seller_platform_tests.support.processes import COMMAND, environment

COMMANDS = (
    ["--help"],
    ["service", "--help"],
    ["status"],
    ["held"],
    ["explain", "orders", "1"],
    ["diff", "orders", "S0.DE"],
    ["costs", "show", "1"],
    ["service", "user", "list", "--replica"],
    ["service", "events", "--replica"],
    ["metrics", "--port", "0"],
    ["doctor"],
)
_TICKS = os.sysconf("SC_CLK_TCK")
_FILL = text("""
    INSERT INTO platform.loads (dataset, account, window_start, window_end, requests, pages, body_bytes, rows, digest,
                                verdict, changed, started_at, finished_at)
    SELECT dataset, 'S' || number || '.DE', month, month + interval '1 month', 1, 1, 0, 0, '', 'match', true, now(),
           now()
    FROM unnest(CAST(:datasets AS text[])) AS datasets (dataset), generate_series(0, :accounts - 1) AS numbers (number),
         generate_series(CAST(:since AS date), now(), interval '1 month') AS months (month)
""")
_GRANT = text("""
    INSERT INTO platform.grants (connection, token_pair, generation, issued_at, expires_at)
    VALUES ('default', '', 1, now(), now() + interval '1 day')
""")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--months", type=int, default=36)
    options = parser.parse_args()
    table = Table("command", "CPU s, median", "CPU s, all", "wall s, median")
    with _filled(options.accounts, options.months) as variables:
        for arguments in COMMANDS:
            measured = [first_output(arguments, variables) for _ in range(options.runs)]
            cpu, wall = zip(*measured, strict=True)
            every = " ".join(f"{each:.2f}" for each in sorted(cpu))
            table.add_row(" ".join(arguments), f"{statistics.median(cpu):.2f}", every, f"{statistics.median(wall):.2f}")
    Console(width=140).print(table)


def first_output(arguments: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Return the seconds of CPU and of the clock that a command takes to its first output, and end it."""
    began = time.monotonic()
    read_end, write_end = os.pipe()
    with subprocess.Popen([*COMMAND, *arguments], env=variables, stdout=write_end, stderr=write_end) as process:
        os.close(write_end)
        os.read(read_end, 1)
        wall = time.monotonic() - began
        cpu = _cpu_seconds(process.pid)
        process.kill()
    os.close(read_end)
    return cpu, wall


def _cpu_seconds(pid: int) -> float:
    """Return the CPU of a process and of the children that it waited for (see proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


@contextmanager
def _filled(number: int, months: int) -> Iterator[dict[str, str]]:
    """Yield the variables of a shell over a warehouse with so many accounts and months."""
    today = datetime.now(UTC).date()
    count = today.year * 12 + today.month - months
    since = date(count // 12, count % 12 + 1, 1)
    with temporary_warehouse() as (url, home), Database(url) as database:
        save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
        account = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S")
        save_accounts(database, "default", [(f"S{each}.DE", account) for each in range(number)])
        with database.begin() as connection:
            names = [dataset.name for dataset in REFRESHED]
            connection.execute(_FILL, {"datasets": names, "accounts": number, "since": since})
            connection.execute(_GRANT)
            connection.execute(text("ANALYZE platform.loads"))
        yield environment(home, SELLER_PLATFORM_DATABASE_URL=url, SELLER_PLATFORM_HISTORY_START=str(since))


if __name__ == "__main__":
    main()
