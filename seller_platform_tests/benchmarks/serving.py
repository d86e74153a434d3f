"""Measures lists and statistics over HTTP, compared with PostgreSQL alone.

`python -m seller_platform_tests.benchmarks.serving [--rows 1000000] [--months 12]` prints two tables.

One account has a million order rows in one month, stored as loads store them. One worker serves them on one core, 2,000
on a page. The measurements alternate within one run, so that ratios are reliable on a busy machine. The figures are
medians of ratios:

- PostgreSQL alone: it selects, sorts and encodes the rows of the same page, with their days as a condition
- PostgreSQL alone, with the total: it also counts the rows of the list, with a plain query
- first, middle and last page of the list, over HTTP
- memory of the service before and after every page of the list was read
- 64 readers at the same time: each reads one day page by page, and their answers are compared

Another account is the sandbox's largest, with 2,000 products that sell for 12 months. Every combination of the
statistics dashboard is requested with 500 rows on a page: the first page twice, and a page in the middle. The table
shows the time over HTTP and the processor time of PostgreSQL.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import httpx
import psycopg
from rich.console import Console
from rich.table import Table

from seller_platform.contract import Account
from seller_platform.contract.statistics_views import COMBINED_VIEWS, DATE_VIEWS, PLAIN_PRODUCT_VIEWS
from seller_platform.contract.wire import SERVICE_STATUS
from seller_platform.sandbox import load_sandbox
from seller_platform.service.oauth.temporary_access import temporary_access
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.sums.keeping import write_sums
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import COMMAND, free_port
from seller_platform_tests.support.served import list_accounts

PAGE, DAYS, TURNS, READERS = 2_000, 31, 21, 64
FIRST_DAY = date(2026, 1, 1)
LAST_DAY = FIRST_DAY + timedelta(days=DAYS - 1)
STATISTICS_TODAY, ORDERS_PER_MONTH = date(2026, 7, 1), 86_000
Line = tuple[str, ...]
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

OTHER_CURRENCY = "EUR"

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
def service(url: str, folder: Path, *options: str, has_one_core: bool = True) -> Iterator[tuple[str, int]]:
    """Run the service, by default with one worker on one core; yield its URL and process id.

    Args:
        options: Further options of `service run`.
    """
    port = free_port()
    command = [*COMMAND, "service", "run", "--no-worker", "--port", str(port), *options]
    with (folder / "log").open("w") as log:
        # Linux divides the processors among sessions first, and each process of PostgreSQL has one of its own.
        process = subprocess.Popen(
            command,
            env={**os.environ, "SELLER_PLATFORM_SERVICE_DATABASE_URL": url},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if has_one_core:
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


def measured(turns: int, *works: Callable[[], object]) -> list[list[float]]:
    """Return the milliseconds of each function, called in turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for work, taken in zip(works, times, strict=True):
            taken.append(timed(work))
    return times


def timed(work: Callable[[], object]) -> float:
    """Return how many milliseconds a function takes."""
    began = time.perf_counter()
    work()
    return 1_000 * (time.perf_counter() - began)


def times_as_long(taken: Sequence[float], *compared: Sequence[float]) -> float:
    """Return the median ratio of times to the sums of other times, turn by turn."""
    ratios: list[float] = [own / sum(others) for own, *others in zip(taken, *compared, strict=True)]
    return statistics.median(ratios)


def memory_of(pid: int) -> int:
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) >> 10


class Reader:
    """Reads over HTTP with little work of its own, so that the service is measured."""

    def __init__(self, base_url: str, token: str) -> None:
        address = urlsplit(base_url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=600)
        # Compression only takes time on a loopback interface.
        self._headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}

    def get(self, path: str, **query: object) -> bytes:
        """Return the body of an answer without decoding it."""
        self._connection.request("GET", f"{path}?{urlencode(query)}", headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body


class Bench:
    """The list, read over HTTP and from PostgreSQL."""

    def __init__(self, base_url: str, token: str, connection: psycopg.Connection, rows: int) -> None:
        self._base_url, self._token = base_url, token
        self.reader, self.connection, self.rows = self.open_reader(), connection, rows
        self.last_page = -(-rows // PAGE)
        self.before = [0]
        counted = connection.execute("SELECT count(*) FROM seller.orders GROUP BY local_day ORDER BY local_day")
        for (amount,) in counted:
            self.before.append(self.before[-1] + amount)

    def open_reader(self) -> Reader:
        """Return a reader with its own connection."""
        return Reader(self._base_url, self._token)

    def page(
        self, number: int, reader: Reader | None = None, *, first: date = FIRST_DAY, last: date = LAST_DAY
    ) -> bytes:
        """Return the body of a page."""
        return (reader or self.reader).get(
            "/sales/orders", account_title="Large", per_page=PAGE, page=number, start_date=first, end_date=last
        )

    def alone(self, number: int) -> int:
        """Read the rows of a page from PostgreSQL, and return their number of bytes."""
        offset = (number - 1) * PAGE
        end = min(offset + PAGE, self.rows) - 1
        days = [next(day for day in range(DAYS) if self.before[day + 1] > position) for position in (offset, end)]
        values = {
            "first_day": FIRST_DAY + timedelta(days=days[0]),
            "last_day": FIRST_DAY + timedelta(days=days[1]),
            "skipped": offset - self.before[days[0]],
            "limit": PAGE,
        }
        row = self.connection.execute(_ALONE, values).fetchone()
        assert row is not None
        return len(row[0])

    def total(self) -> None:
        """Count the rows of the list in PostgreSQL."""
        assert self.connection.execute(_TOTAL).fetchone() == (self.rows,)

    def read_day(self, start: threading.Barrier) -> tuple[int, int, str]:
        """Read the middle day, and return announced and listed rows and their digest."""
        day = FIRST_DAY + timedelta(days=DAYS // 2)
        digest, listed, number, total = sha256(), 0, 1, 1
        reader = self.open_reader()
        start.wait()
        while listed < total:
            page = json.loads(self.page(number, reader, first=day, last=day))
            digest.update(repr(page["data"]).encode())
            listed, number, total = listed + len(page["data"]), number + 1, page["total"]
        return total, listed, digest.hexdigest()


def run(bench: Bench, pid: int) -> Sequence[Line]:
    """Return the lines of the table."""
    middle, last = bench.last_page // 2, bench.last_page
    pages = (1, middle, last)
    works: list[Callable[[], object]] = [bench.total]
    for number in pages:
        works += [lambda number=number: bench.alone(number), lambda number=number: bench.page(number)]  # type: ignore[misc]  # mypy knows no types of defaults
    measured(2, *works)
    count, *times = measured(TURNS, *works)
    middle_of = statistics.median
    lines = []
    for number, alone, served in zip(pages, times[::2], times[1::2], strict=True):
        with_total = middle_of(alone) + middle_of(count)
        lines.append((f"page {number:,}: PostgreSQL alone", f"{middle_of(alone):.1f} ms", ""))
        lines.append((f"page {number:,}: PostgreSQL alone, with the total", f"{with_total:.1f} ms", ""))
        compared = (
            f"{times_as_long(served, alone):.2f} x alone, {times_as_long(served, alone, count):.2f} x with the total"
        )
        lines.append((f"page {number:,}: over HTTP", f"{middle_of(served):.1f} ms", compared))
    lines.append(("last page against first", "", f"{times_as_long(times[-1], times[1]):.2f} x"))
    before = memory_of(pid)
    began = time.perf_counter()
    listed = sum(bench.page(number).count(b'"platform_order_id"') for number in range(1, last + 1))
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
    compared = f"{complete} complete, {len({digest for *_, digest in answers})} different answer(s)"
    lines.append((f"{READERS} readers of {answers[0][0]:,} rows each", f"{seconds:.1f} s", compared))
    lines.append(("memory after them", f"{memory_of(pid)} MiB", ""))
    return lines


def run_statistics(
    reader: Reader, backends: Callable[[], Sequence[int]], title: str, months: int, **more: str
) -> Sequence[Line]:
    """Return a line for each combination of the dashboard, and the slowest of each column.

    Args:
        more: Further parameters of every request.
    """
    first, last = month_before(STATISTICS_TODAY, months), STATISTICS_TODAY - timedelta(days=1)
    lines: list[Line] = []
    slowest = [0.0] * 6
    for view in (*PLAIN_PRODUCT_VIEWS, *COMBINED_VIEWS, *DATE_VIEWS):
        asked = {**dict(view.parameters), "account_title": title, "start_date": first, "end_date": last, **more}
        page, total = 1, 0
        figures: list[float] = []
        for _ in range(3):
            computed, began = seconds_computed(backends()), time.perf_counter()
            answer = reader.get(view.path, **asked, page=page, per_page=500)
            figures.append(1_000 * (time.perf_counter() - began))
            figures.append(1_000 * (seconds_computed(backends()) - computed))
            page = max(1, total // 1_000)
            total = json.loads(answer)["total"]
        slowest = [max(pair) for pair in zip(slowest, figures, strict=True)]
        name = " ".join(value for parameter, value in view.parameters if parameter != "view_by")
        lines.append((f"{name}, {total:,} rows", *(_pair(*figures[at : at + 2]) for at in (0, 2, 4))))
    return [*lines, ("the slowest", *(_pair(*slowest[at : at + 2]) for at in (0, 2, 4)))]


def _pair(taken: float, computed: float) -> str:
    return f"{taken:.0f} ms ({computed:.0f} ms)"


def month_before(day: date, months: int) -> date:
    """Return the first day of the month that is a number of months before."""
    month_number = day.year * 12 + day.month - 1 - months
    return date(month_number // 12, month_number % 12 + 1, 1)


def seconds_computed(pids: Sequence[int]) -> float:
    """Return the seconds of processor time that processes have used."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def backends_of_the_service(connection: psycopg.Connection) -> list[int]:
    """Return the ids of the PostgreSQL processes that work for the service."""
    statement = (
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'seller-platform service'"
    )
    return [pid for (pid,) in connection.execute(statement)]


def measure_pages(server: EmbeddedServer, folder: Path, rows: int) -> Sequence[Line]:
    """Fill a database with orders, serve it, and measure its pages."""
    url = server.database("serving")
    with Database(url) as database, psycopg.connect(url, autocommit=True) as connection:
        database.migrate()
        list_accounts(database, {"S1.US": _ACCOUNT})
        connection.execute("SET TimeZone = 'America/Los_Angeles'")
        connection.execute(_FILL, {"rows": rows, "first": FIRST_DAY})
        connection.execute("VACUUM ANALYZE seller.orders")
        with database.begin() as filling:
            write_sums(filling, ["S1.US"])
        with temporary_access(database, ["S1.US"]) as token, service(url, folder) as (base_url, pid):
            return run(Bench(base_url, token, connection, rows), pid)


def measure_statistics(server: EmbeddedServer, folder: Path, months: int) -> tuple[Sequence[Line], Sequence[Line]]:
    """Fill a database with the sandbox, serve it, and measure statistics in two currencies."""
    url = server.database("statistics")
    with Database(url) as database, psycopg.connect(url, autocommit=True) as connection:
        database.migrate()
        loaded = load_sandbox(
            database, accounts=1, months=months, orders_per_month=ORDERS_PER_MONTH, today=STATISTICS_TODAY
        )
        connection.execute("VACUUM ANALYZE")
        account = loaded.accounts[0]
        with temporary_access(database, [account.key]) as token, service(url, folder) as (base_url, _):
            asked = (Reader(base_url, token), lambda: backends_of_the_service(connection), account.title, months)
            return run_statistics(*asked), run_statistics(*asked, currency=OTHER_CURRENCY)


def main() -> None:
    """Fill two databases, serve them, measure, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--months", type=int, default=12)
    asked = parser.parse_args()
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        pages = measure_pages(server, folder, asked.rows)
        own, other = measure_statistics(server, folder, asked.months)
        server.close()
    console = Console(width=140)
    table = Table(
        "measured", "figure", "compared", title=f"{asked.rows:,} order rows of one account, one worker, one core"
    )
    for line in pages:
        table.add_row(*line)
    console.print(table)
    for currency, lines in (("in its own currency", own), (f"in {OTHER_CURRENCY}", other)):
        table = Table(
            *("statistics", "first page, first time", "first page again", "middle page"),
            title=f"{asked.months} months of 2,000 products, {currency}: over HTTP (computed by PostgreSQL)",
        )
        for line in lines:
            table.add_row(*line)
        console.print(table)


if __name__ == "__main__":
    main()
