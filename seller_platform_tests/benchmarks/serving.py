"""Serving: `python -m seller_platform_tests.benchmarks.serving [--rows 1000000]` prints one table.

One account has a million order rows in one month, stored as loads store them. One worker serves them on one core, 2,000
on a page. Measured in turns, in one run, so that ratios can be trusted on a noisy machine:

- PostgreSQL alone: it finds, sorts and encodes the rows of that very page, told on which day they lie
- PostgreSQL alone, with the total: it counts the rows of the list as well, in the plainest words
- first, middle and last page of the list, over HTTP
- memory of the service before and after every page of the list was read
- 64 readers at the same time, each reading one day page by page: their answers are compared
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from seller_platform.contract import Account
from seller_platform.contract.endpoints import SERVICE_STATUS
from seller_platform.service.visits import visit
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.server import EmbeddedServer
from seller_platform_tests.journeys.processes import COMMAND, free_port
from seller_platform_tests.service.conftest import list_accounts

PAGE, DAYS, TURNS, READERS = 2_000, 31, 21, 64
FIRST_DAY = date(2026, 1, 1)
LAST_DAY = FIRST_DAY + timedelta(days=DAYS - 1)
_ACCOUNT = Account(1, "Large", "US", "USD", "America/Los_Angeles", "US", "S1")

_FILL = """
INSERT INTO seller.orders
SELECT format('%%s-%%s', 100 + n %% 900, lpad(n::text, 14, '0')),
       (%(first)s::date + (n * 31 / %(rows)s)::int)::timestamp AT TIME ZONE 'America/Los_Angeles'
           + (n %% (%(rows)s / 31)) * interval '1 second',
       (ARRAY['Shipped', 'Pending', 'Cancelled'])[1 + n %% 3], (n %% 20000) / 100.0, 'USD', 1 + n %% 3,
       'SKU-' || n %% 2000, 'B0' || lpad((n %% 2000)::text, 8, '0'), 'A product of no great importance ' || n %% 2000,
       channel.name, NULL, %(first)s::date + (n * 31 / %(rows)s)::int, 'S1.US', 1, 1
FROM (VALUES ('platform', 0), ('non-platform', 1)) AS channel (name, place)
CROSS JOIN generate_series(0::bigint, %(rows)s - 1) AS n
WHERE (n %% 10 = 9) = (channel.place = 1)
"""

_ALONE = """
SELECT string_agg(row_to_json(page)::text, ',') FROM (
    SELECT platform_order_id, purchase_date, order_status, order_total, currency_code, quantity_ordered, sku, asin,
           product_name
    FROM seller.orders
    WHERE account = 'S1.US' AND local_day BETWEEN %(first_day)s AND %(last_day)s
    ORDER BY local_day, purchase_date, platform_order_id COLLATE "C", sku COLLATE "C", ctid
    OFFSET %(skipped)s LIMIT %(limit)s
) AS page
"""

_TOTAL = """
SELECT count(*) FROM seller.orders WHERE account = 'S1.US' AND local_day BETWEEN '2026-01-01' AND '2026-01-31'
"""


@contextmanager
def service(url: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Run one worker of the service on one core, and yield its URL and its process id."""
    port = free_port()
    command = [*COMMAND, "service", "run", "--no-worker", "--port", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, env={**os.environ, "SELLER_PLATFORM_SERVICE_DATABASE_URL": url}, stdout=log, stderr=log
        )
    try:
        os.sched_setaffinity(process.pid, {min(os.sched_getaffinity(0))})
        for _ in range(200):
            try:
                httpx.get(f"http://127.0.0.1:{port}{SERVICE_STATUS}")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(20)


def measured(turns: int, *works: Callable[[], object]) -> list[float]:
    """Return the median milliseconds of each piece of work, done in turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for work, taken in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            taken.append(1_000 * (time.perf_counter() - began))
    return [statistics.median(taken) for taken in times]


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10


class Bench:
    """The list, asked for over HTTP and of PostgreSQL itself."""

    def __init__(self, base_url: str, token: str, connection: psycopg.Connection, rows: int) -> None:
        # Over a loopback interface compression only costs.
        self._headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        self._base_url = base_url
        self.client, self.connection, self.rows = self.open_client(), connection, rows
        self.last_page = -(-rows // PAGE)
        self.before = [0]
        counted = connection.execute("SELECT count(*) FROM seller.orders GROUP BY local_day ORDER BY local_day")
        for (amount,) in counted:
            self.before.append(self.before[-1] + amount)

    def open_client(self) -> httpx.Client:
        """Return a reader of its own."""
        return httpx.Client(base_url=self._base_url, headers=self._headers, timeout=600)

    def page(
        self, number: int, client: httpx.Client | None = None, *, first: date = FIRST_DAY, last: date = LAST_DAY
    ) -> httpx.Response:
        """Return the answer that is a page, decoded by nobody."""
        params = {
            "account_title": "Large",
            "per_page": str(PAGE),
            "page": str(number),
            "start_date": first.isoformat(),
            "end_date": last.isoformat(),
        }
        answer = (client or self.client).get("/sales/orders", params=params)
        assert answer.status_code == 200, answer.text
        return answer

    def alone(self, number: int) -> int:
        """Let PostgreSQL produce the rows of a page; return how many bytes they are."""
        offset = (number - 1) * PAGE
        end = min(offset + PAGE, self.rows) - 1
        days = [next(day for day in range(DAYS) if self.before[day + 1] > place) for place in (offset, end)]
        values = {
            "first_day": FIRST_DAY + timedelta(days=days[0]),
            "last_day": FIRST_DAY + timedelta(days=days[1]),
            "skipped": offset - self.before[days[0]],
            "limit": PAGE,
        }
        found = self.connection.execute(_ALONE, values).fetchone()
        assert found is not None
        return len(found[0])

    def total(self) -> None:
        """Let PostgreSQL count the rows of the list."""
        assert self.connection.execute(_TOTAL).fetchone() == (self.rows,)

    def read_day(self, start: threading.Barrier) -> tuple[int, int, str]:
        """Read the middle day; return the rows it announced, those it listed, and a digest of them."""
        day = FIRST_DAY + timedelta(days=DAYS // 2)
        digest, listed, number, total = sha256(), 0, 1, 1
        with self.open_client() as client:
            start.wait()
            while listed < total:
                told = self.page(number, client, first=day, last=day).json()
                digest.update(repr(told["data"]).encode())
                listed, number, total = listed + len(told["data"]), number + 1, told["total"]
        return total, listed, digest.hexdigest()


def run(bench: Bench, pid: int) -> Sequence[tuple[str, str, str]]:
    """Return the lines of the table."""
    middle, last = bench.last_page // 2, bench.last_page
    pages = (1, middle, last)
    works: list[Callable[[], object]] = [bench.total]
    for number in pages:
        works += [lambda number=number: bench.alone(number), lambda number=number: bench.page(number)]  # type: ignore[misc]  # mypy knows no types of defaults
    measured(2, *works)
    count, *times = measured(TURNS, *works)
    lines = []
    for number, alone, served in zip(pages, times[::2], times[1::2], strict=True):
        lines.append((f"page {number:,}: PostgreSQL alone", f"{alone:.1f} ms", ""))
        lines.append((f"page {number:,}: PostgreSQL alone, with the total", f"{alone + count:.1f} ms", ""))
        told = f"{served / alone:.2f} x alone, {served / (alone + count):.2f} x with the total"
        lines.append((f"page {number:,}: over HTTP", f"{served:.1f} ms", told))
    lines.append(("last page against first", "", f"{times[-1] / times[1]:.2f} x"))
    before = memory_of(pid)
    began = time.perf_counter()
    listed = sum(bench.page(number).content.count(b'"platform_order_id"') for number in range(1, last + 1))
    seconds = time.perf_counter() - began
    assert listed == bench.rows
    lines.append((f"every page, {listed:,} rows", f"{seconds:.1f} s", f"{listed / seconds:,.0f} rows a second"))
    lines.append(("memory before and after", f"{before} MiB", f"{memory_of(pid)} MiB"))
    start = threading.Barrier(READERS)
    with ThreadPoolExecutor(READERS) as threads:
        began = time.perf_counter()
        answers = list(threads.map(lambda _: bench.read_day(start), range(READERS)))
        seconds = time.perf_counter() - began
    complete = sum(total == listed for total, listed, _ in answers)
    told = f"{complete} complete, {len({digest for *_, digest in answers})} different answer(s)"
    lines.append((f"{READERS} readers of {answers[0][0]:,} rows each", f"{seconds:.1f} s", told))
    lines.append(("memory after them", f"{memory_of(pid)} MiB", ""))
    return lines


def main() -> None:
    """Fill a database, serve it, measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="seller-serving-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedServer(Path(folder) / "postgres")
        url = server.database("serving")
        with Database(url) as database, psycopg.connect(url, autocommit=True) as connection:
            database.migrate()
            list_accounts(database, {"S1.US": _ACCOUNT})
            connection.execute("SET TimeZone = 'America/Los_Angeles'")
            connection.execute(_FILL, {"rows": rows, "first": FIRST_DAY})
            connection.execute("VACUUM ANALYZE seller.orders")
            with visit(database, ["S1.US"]) as token, service(url, Path(folder)) as (base_url, pid):
                lines = run(Bench(base_url, token, connection, rows), pid)
        server.close()
    table = Table("measured", "figure", "compared", title=f"{rows:,} order rows of one account, one worker, one core")
    for line in lines:
        table.add_row(*line)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
