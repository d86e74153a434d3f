"""An upstream whose reader is always the slower side, and installations connected to it.

It is a process of its own that serves the orders and transactions of some accounts and months. A page is cut from the
bytes of all rows, which are encoded once: one connection gets thousands of pages a second. The rows, of about 243
bytes, have texts and numbers in every spelling that the API allows.
"""

import json
import multiprocessing
import random
import socket
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from itertools import accumulate, pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zlib import crc32
from zoneinfo import ZoneInfo

from seller_platform.contract import Window
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.ingest.loads.accounts import discover
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.installation import CONNECTION, Site
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.processes import connected_environment
from seller_platform_tests.support.tls_proxy import listening

ZONE = ZoneInfo("America/Los_Angeles")
CHANNELS = {"platform": 0.9, "non-platform": 0.1}
FIRST_MONTH = date(2025, 1, 1)
PER_PAGE = 2_000
CHANGE = "/change"
"""A request for this path changes 1 % of the rows; it is no part of the API."""

_PRODUCTS = 2_000
_REPEATED = 0.015
"""The share of transactions that are exact repeats of the one before."""

_SKUS = ("007", "1e5", "0x1F", "-0", "1.0", "TRUE", "2025-01-01", "+49", "A B", "ÄÖ-1")
_NAMES = (
    "Steel bottle 750 ml",
    "Thé vert / Grüntee",
    'Desk lamp 12", 110/230 V',
    "まな板 L",
    'Kids\' puzzle: "animals"\n48 pieces \\\t3+',
    "🧸 Teddy, 30 cm",
    "מגבת منشفة",
)
_RARE_NAMES = ("NULL", "NaN", "null", "", '{"name": [1, "a"]}', "[]", "\\N", "'); --", " \r\n", "long " * 1_000)


def accounts(count: int) -> list[dict[str, object]]:
    """Return the accounts as the API lists them."""
    return [
        {
            "id": number,
            "account_title": f"Benchmark {number}",
            "country_code": "US",
            "currency_code": "USD",
            "timezone": ZONE.key,
            "marketplace": "BENCH",
            "seller_id": f"S{number}",
        }
        for number in range(1, count + 1)
    ]


def months(count: int) -> list[Window]:
    """Return the months that are served."""
    listed = [Window.month_of(FIRST_MONTH)]
    while len(listed) < count:
        listed.append(Window.month_of(listed[-1].end))
    return listed


_Row = tuple[str, bytes]
"""The local day of a row, and its JSON."""


def order_rows(month: Window, count: int) -> list[_Row]:
    """Return the orders of a month."""
    rng = random.Random(month.start.toordinal())
    rows = []
    for number, (day, at) in enumerate(_moments(month, count)):
        product = rng.randrange(_PRODUCTS)
        order_id = f"{month.start:%y%m}-{rng.randrange(10**7):07d}-{number:07d}"
        text = (
            f'{{"platform_order_id":"{order_id}","purchase_date":"{at}","order_status":"Shipped",'
            f'"order_total":{_amount(rng)},"currency_code":"USD","quantity_ordered":{1 + product % 3},'
            f'"sku":{_text(_sku(product), number)},"asin":"B0{product:08d}",'
            f'"product_name":{_text(_name(product), number)}}}'
        )
        rows.append((day, text.encode()))
    return rows


def transaction_rows(month: Window, count: int) -> list[_Row]:
    """Return the transactions of a month; every fifth has no order."""
    rng = random.Random(month.start.toordinal() + 1)
    rows: list[_Row] = []
    for number, (day, at) in enumerate(_moments(month, count)):
        if rows and rows[-1][0] == day and rng.random() < _REPEATED:
            rows.append(rows[-1])
            continue
        order, sku, kind, about, quantity, sign = "null", "null", "Fee", "Storage fee, long term", "null", "-"
        if number % 5:
            order = f'"{month.start:%y%m}-{rng.randrange(10**7):07d}-{number:07d}"'
            sku, kind, about, quantity, sign = _text(_sku(rng.randrange(_PRODUCTS)), number), "Order", "", "1", ""
            about = f"Sale: {_NAMES[number % len(_NAMES)]}"
        text = (
            f'{{"posted_date":"{at}","transaction_type":"{kind}","order_id":{order},"sku":{sku},'
            f'"description":{_text(about, number)},"quantity":{quantity},"amount":{sign}{_amount(rng)},'
            '"currency":"USD","marketplace_name":"shop.example"}'
        )
        rows.append((day, text.encode()))
    return rows


def _moments(month: Window, count: int) -> Iterator[tuple[str, str]]:
    """Yield local days and moments, in order: those at the borders of days have microseconds, and half are in UTC."""
    start, end = (datetime.combine(day, clock_time(), ZONE).astimezone(UTC) for day in (month.start, month.end))
    moments = [(start + (end - start) / count * number).replace(microsecond=0) for number in range(count)]
    days = [moment.astimezone(ZONE).date() for moment in moments]
    for number, (day, moment) in enumerate(zip(days, moments, strict=True)):
        exact = moment
        if number and days[number - 1] != day:
            exact = datetime.combine(day, clock_time(), ZONE) + timedelta(microseconds=number % 2)
        elif number + 1 == count or days[number + 1] != day:
            exact = datetime.combine(day, clock_time.max, ZONE)
        yield f"{day}", exact.astimezone(ZONE if number % 2 else UTC).isoformat().replace("+00:00", "Z")


def _amount(rng: random.Random) -> str:
    """Return an amount, such as 19.90, 19.9 or 20."""
    return f"{rng.randrange(500)}" + rng.choice((f".{rng.randrange(100):02d}", f".{rng.randrange(10)}0", ".9", ""))


def _text(text: str, number: int) -> str:
    """Return a text as JSON; those of even numbers have every escape that JSON allows."""
    return json.dumps(text).replace("/", "\\/") if number % 2 == 0 else json.dumps(text, ensure_ascii=False)


def _sku(product: int) -> str:
    return _SKUS[product] if product < len(_SKUS) else f"SKU-{product:05d}"


def _name(product: int) -> str:
    """Return a product's name; one in two hundred is text that a reader may take for something else."""
    if product < len(_RARE_NAMES):
        return _RARE_NAMES[product]
    return f"{_NAMES[product % len(_NAMES)]} {product}"


class _EncodedList:
    """The rows of one list, as bytes with a comma after each, from which pages are cut."""

    def __init__(self, months_of_rows: Iterable[Sequence[_Row]]) -> None:
        rows = [row for rows in months_of_rows for row in rows]
        self._days = [day for day, _ in rows]
        self._ends = [0, *accumulate(len(text) + 1 for _, text in rows)]
        self._bytes = memoryview(b"".join(text + b"," for _, text in rows))

    def change(self) -> None:
        """Change one value in about 1 % of the rows, which are chosen by their content."""
        rows = [bytes(self._bytes[begin:end]) for begin, end in pairwise(self._ends)]
        for number, row in enumerate(rows):
            if crc32(row) % 100 == 0:
                rows[number] = row.replace(b'"Shipped"', b'"Returned"').replace(b"shop.example", b"www.shop.example")
        self._ends = [0, *accumulate(map(len, rows))]
        self._bytes = memoryview(b"".join(rows))

    def page(self, query: Mapping[str, str]) -> list[bytes | memoryview]:
        """Return the parts of an answer."""
        first, after = bisect_left(self._days, query["start_date"]), bisect_right(self._days, query["end_date"])
        size, number = int(query["per_page"]), int(query.get("page", "1"))
        begin, end = (min(after, first + each * size) for each in (number - 1, number))
        rows = self._bytes[self._ends[begin] : max(self._ends[begin], self._ends[end] - 1)]
        last = max(1, -(-(after - first) // size))
        counts = f'],"total":{after - first},"per_page":{size},"last_page":{last}}}'.encode()
        return _answer(b'{"current_page":%d,"data":[' % number, rows, counts)


class _Lists:
    """The lists of all accounts, which have the same rows."""

    def __init__(self, account_count: int, month_count: int, rows_per_month: int) -> None:
        self._account_count = account_count
        self._answers: dict[str, list[bytes | memoryview]] = {}
        border = int(rows_per_month * CHANNELS["platform"])
        orders = [order_rows(month, rows_per_month) for month in months(month_count)]
        transactions = [transaction_rows(month, rows_per_month) for month in months(month_count)]
        self._lists = {
            ("/sales/orders", "platform"): _EncodedList(rows[:border] for rows in orders),
            ("/sales/orders", "non-platform"): _EncodedList(rows[border:] for rows in orders),
            ("/sales/orders", ""): _EncodedList(orders),
            ("/sales/transactions", ""): _EncodedList(transactions),
        }

    def answer(self, target: str) -> list[bytes | memoryview]:
        """Return the parts of the answer to a request."""
        if target not in self._answers:
            self._answers[target] = self._new_answer(target)
        return self._answers[target]

    def _new_answer(self, target: str) -> list[bytes | memoryview]:
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == CHANGE:
            for encoded in self._lists.values():
                encoded.change()
            self._answers.clear()
            return _answer(b"{}")
        if url.path == "/user/me":
            user = {"id": 1, "name": "Bench", "email": "bench@example.com", "status": "active", "active": True}
            return _answer(json.dumps({"status": "success", "code": 200, "message": "", "user": user}).encode())
        if url.path == "/user/accounts":
            return _answer(json.dumps({"accounts": accounts(self._account_count)}).encode())
        rows = self._lists.get((url.path, query.get("sales_channel", "")))
        return rows.page(query) if rows else [b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"]


def _answer(*parts: bytes | memoryview) -> list[bytes | memoryview]:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {sum(map(len, parts))}\r\n\r\n"
    return [head.encode(), *parts]


def _run(pipe: Connection, account_count: int, month_count: int, rows: int) -> None:
    """Serve until the process ends, and send the port."""
    lists = _Lists(account_count, month_count, rows)

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as requests:
            while line := requests.readline():
                while requests.readline().strip():
                    pass
                for part in lists.answer(line.split(b" ", 2)[1].decode()):
                    connection.sendall(part)

    with listening(serve) as port:
        pipe.send(port)
        threading.Event().wait()


@contextmanager
def free_service(account_count: int, month_count: int, rows: int) -> Iterator[str]:
    """Run the service in a process of its own, and yield its URL."""
    spawned = multiprocessing.get_context("spawn")
    parent_end, child_end = spawned.Pipe()
    process = spawned.Process(target=_run, args=(child_end, account_count, month_count, rows), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{parent_end.recv()}"
    finally:
        process.terminate()
        process.join()


def pages_per_second(url: str, pages: int = 3_000) -> float:
    """Return how many full pages of orders a reader gets that throws them away, on one connection."""
    last = Window.month_of(FIRST_MONTH).last_day
    path = f"/sales/orders?start_date={FIRST_MONTH}&end_date={last}&per_page={PER_PAGE}"
    request, buffer = f"GET {path} HTTP/1.1\r\n\r\n".encode(), bytearray(1 << 20)
    with socket.create_connection((urlsplit(url).hostname or "", urlsplit(url).port or 0)) as connection:
        began, size = time.perf_counter(), 0
        for _ in range(pages):
            connection.sendall(request)
            received = connection.recv_into(buffer)
            if not size:
                head, separator, _ = bytes(buffer[:received]).partition(b"\r\n\r\n")
                size = len(head) + len(separator) + int(head.rpartition(b" ")[2])
            while received < size:
                received += connection.recv_into(buffer)
        return pages / (time.perf_counter() - began)


def connected(server: EmbeddedServer, home: Path, database: str, base_url: str) -> Site:
    """Return an installation with an empty database, which is connected to the service and has its accounts."""
    drop_database(server, database)
    upstream = Upstream(base_url, base_url, "figures", "figures", "http://127.0.0.1:1/callback")
    site = Site(server.database(database), home, upstream)
    with Database(site.database_url) as opened:
        migrate(opened)
    site.connect({"access_token": "access", "refresh_token": "refresh", "expires_in": 10**7})
    with site.open() as (api, opened):
        discover(lambda _: api, opened, site.upstream.as_connection(CONNECTION), run_id=None)
    return site


def variables_of(site: Site) -> dict[str, str]:
    """Return the environment in which commands work on an installation."""
    begun = {"SELLER_PLATFORM_HISTORY_START": f"{FIRST_MONTH}"}
    return connected_environment(site.upstream, site.database_url, site.home, **begun)
