"""An upstream that answers from memory, where each page is encoded only once, and installations connected to it.

It serves the orders and transactions of some accounts and months over plain sockets. A measurement with it measures the
reader.
"""

import asyncio
import json
import multiprocessing
import random
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

from seller_platform.contract import Window
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.ingest.loads.accounts import discover
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.installation import CONNECTION, Site
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.processes import environment

ZONE = ZoneInfo("America/Los_Angeles")
CHANNELS = {"platform": 0.9, "non-platform": 0.1}
FIRST_MONTH = date(2025, 1, 1)
_Key = tuple[str, str, str, str, str, str]
_DAY = re.compile(r'_date":"(.{10})')


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


def order_rows(month: Window, count: int) -> list[str]:
    """Return orders of a month as JSON text."""
    rng = random.Random(month.start.toordinal())
    rows = []
    for number, at in enumerate(_instants(month, count)):
        product = rng.randrange(2000)
        rows.append(
            f'{{"platform_order_id":"{month.start:%y%m}-{rng.randrange(10**7):07d}-{number:07d}",'
            f'"purchase_date":"{at}","order_status":"Shipped",'
            f'"order_total":{rng.randrange(500)}.{rng.randrange(100):02d},"currency_code":"USD",'
            f'"quantity_ordered":{1 + product % 3},"sku":"SKU-{product:05d}","asin":"B0{product:08d}",'
            f'"product_name":{json.dumps(_name(product), ensure_ascii=False)}}}'
        )
    return rows


def transaction_rows(month: Window, count: int) -> list[str]:
    """Return transactions of a month as JSON text; every fifth has no order."""
    rng = random.Random(month.start.toordinal() + 1)
    rows = []
    for number, at in enumerate(_instants(month, count)):
        of_order = number % 5 > 0
        order = f'"{month.start:%y%m}-{rng.randrange(10**7):07d}-{number:07d}"' if of_order else "null"
        sku = f'"SKU-{rng.randrange(2000):05d}"' if of_order else "null"
        rows.append(
            f'{{"posted_date":"{at}","transaction_type":"{"Order" if of_order else "Fee"}","order_id":{order},'
            f'"sku":{sku},"description":"{"Product charge" if of_order else "Storage fee"}",'
            f'"quantity":{1 if of_order else "null"},'
            f'"amount":{"" if of_order else "-"}{rng.randrange(500)}.{rng.randrange(100):02d},'
            '"currency":"USD","marketplace_name":"shop.example"}'
        )
    return rows


def _name(product: int) -> str:
    """Return a product's name; one in fifty has characters that need an escape."""
    name = _NAMES[product % len(_NAMES)]
    return f"{name} No. {product}" if product % 50 else f'Kids\' puzzle: "animals"\tof the forest No. {product}'


_NAMES = (
    "Steel bottle 750 ml, matte black",
    "Thé vert bio, 100 sachets",
    'Desk lamp 12" with dimmer',
    "竹のまな板 Lサイズ",
)


def _instants(month: Window, count: int) -> list[str]:
    start, end = (datetime.combine(day, time(), ZONE).astimezone(UTC) for day in (month.start, month.end))
    step = (end - start) / count
    return [(start + step * number).astimezone(ZONE).isoformat(timespec="seconds") for number in range(count)]


class Lists:
    """The rows of every list, and the pages that were requested before."""

    def __init__(self, month_count: int, rows_per_month: int) -> None:
        self._rows: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        self._pages: dict[_Key, bytes] = {}
        border = int(rows_per_month * CHANNELS["platform"])
        lists: dict[tuple[str, str], list[str]] = defaultdict(list)
        for month in months(month_count):
            orders = order_rows(month, rows_per_month)
            lists["/sales/orders", "platform"] += orders[:border]
            lists["/sales/orders", "non-platform"] += orders[border:]
            lists["/sales/orders", ""] += orders
            lists["/sales/transactions", ""] += transaction_rows(month, rows_per_month)
        for name, rows in lists.items():
            self._rows[name] = (rows, [_DAY.search(row)[1] for row in rows])  # type: ignore[index]  # every row has one

    def page(self, path: str, channel: str, query: Mapping[str, str]) -> bytes:
        """Return an answer, encoded at its first request; every seller has the same rows."""
        key = (path, channel, query["start_date"], query["end_date"], query.get("page", "1"), query["per_page"])
        if key not in self._pages:
            self._pages[key] = self._encoded(key)
        return self._pages[key]

    def _encoded(self, key: _Key) -> bytes:
        path, channel, start, end, page, per_page = key
        rows, days = self._rows[path, channel]
        first, after = bisect_left(days, start), bisect_right(days, end)
        size, number = int(per_page), int(page)
        begin = first + (number - 1) * size
        shown = ",".join(rows[begin : min(after, begin + size)])
        last = max(1, -(-(after - first) // size))
        envelope = f'"total":{after - first},"per_page":{size},"last_page":{last}'
        return _answered(f'{{"current_page":{number},"data":[{shown}],{envelope}}}'.encode())


async def _serve(lists: Lists, account_count: int, pipe: Connection) -> None:
    """Serve until the process ends, and send the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(lists, account_count, head.split(b" ", 2)[1].decode()))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _answer(lists: Lists, account_count: int, target: str) -> bytes:
    url = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    if url.path == "/user/me":
        user = {"id": 1, "name": "Bench", "email": "bench@example.com", "status": "active", "active": True}
        return _json({"status": "success", "code": 200, "message": "", "user": user})
    if url.path == "/user/accounts":
        return _json({"accounts": accounts(account_count)})
    if url.path not in ("/sales/orders", "/sales/transactions"):
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"
    return lists.page(url.path, query.get("sales_channel", ""), query)


def _json(document: object) -> bytes:
    return _answered(json.dumps(document).encode())


def _answered(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _run(pipe: Connection, account_count: int, month_count: int, rows: int) -> None:
    asyncio.run(_serve(Lists(month_count, rows), account_count, pipe))


@contextmanager
def free_service(account_count: int, month_count: int, rows: int) -> Iterator[str]:
    """Run the service in a process of its own, and yield its URL.

    Args:
        rows: Rows of each account, month and list.
    """
    spawned = multiprocessing.get_context("spawn")
    parent_end, child_end = spawned.Pipe()
    process = spawned.Process(target=_run, args=(child_end, account_count, month_count, rows), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{parent_end.recv()}"
    finally:
        process.terminate()
        process.join()


def connected(server: EmbeddedServer, home: Path, database: str, base_url: str) -> Site:
    """Return an installation with an empty database, which is connected to the service and has its accounts."""
    drop_database(server, database)
    site = Site(server.database(database), home, Upstream(base_url, base_url, "figures", "figures", ""))
    with Database(site.database_url) as opened:
        opened.migrate()
    site.connect({"access_token": "access", "refresh_token": "refresh", "expires_in": 10**7})
    with site.open() as (api, opened):
        discover(api, opened, site.upstream.as_connection(CONNECTION), run_id=None)
    return site


def variables_of(site: Site) -> dict[str, str]:
    """Return the environment in which commands work on an installation."""
    return environment(
        site.home,
        SELLER_PLATFORM_DATABASE_URL=site.database_url,
        SELLER_PLATFORM_HISTORY_START=FIRST_MONTH.isoformat(),
        SELLER_API_BASE_URL=site.upstream.base_url,
        SELLER_API_CLIENT_ID=site.upstream.client_id,
        SELLER_API_CLIENT_SECRET=site.upstream.client_secret,
    )
