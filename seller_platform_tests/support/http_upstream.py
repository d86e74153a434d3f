"""Upstreams as functions behind httpx's mock transport, and a sink that keeps rows.

The simulation's upstream lists what chance decides; here a test decides each row and each answer.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import httpx

from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.retries import RequestClock
from seller_platform.client.lists import row_sink
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Account, Dataset, Window
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.contract.loads import LoadFacts
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database

BERLIN = Account(1, "Berlin", "DE", "EUR", "Europe/Berlin", "A1PA6795UKMFR9", "S1")
MARCH = Window(date(2026, 3, 1), date(2026, 4, 1))
TODAY = date(2026, 3, 10)


class FakeTime:
    """A clock whose `sleep` moves its time forward.

    The youngest clock receives the pauses of all retries.
    """

    youngest: "FakeTime | None" = None

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pauses: list[float] = []
        FakeTime.youngest = self

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.seconds += seconds

    def now(self) -> datetime:
        return datetime(2026, 3, 10, 12, tzinfo=UTC) + timedelta(seconds=self.seconds)

    @property
    def clock(self) -> RequestClock:
        return RequestClock(lambda: self.seconds, self.now)


def api_of(
    answer: Callable[[httpx.Request], httpx.Response], *, time: FakeTime | None = None, **options: Any
) -> SellerApi:
    """Return an API whose upstream is a function."""
    clock = (time or FakeTime()).clock
    return SellerApi("http://upstream/api", transport=httpx.MockTransport(answer), clock=clock, **options)


def recording(seen: list[httpx.Request], body: object) -> Callable[[httpx.Request], httpx.Response]:
    """Return an upstream that records each request and always answers with the same body."""

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=body)

    return answer


class KeptRows:
    """A sink that keeps rows and tags in memory."""

    known: None = None

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.tags: Counter[Sequence[str | None]] = Counter()

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def digest(self) -> bytes:
        counted = sorted(Counter(self.rows).items(), key=repr)
        return repr((counted, sorted(self.tags.items(), key=repr))).encode()

    def restart(self) -> None:
        self.rows, self.tags = [], Counter()

    def write(self, rows: Sequence[tuple[Any, ...]], *, tags: Sequence[str | None], **_: Any) -> None:
        self.rows += rows
        if rows:
            self.tags[tuple(tags)] += len(rows)

    remember = write_late = row_sink.KeptRows.remember


@dataclass
class MovingList:
    """An upstream that lists rows page by page, and may change them between two requests.

    Attributes:
        rows: The rows, as JSON objects.
        day_of: Returns a row's day as `YYYY-MM-DD`, where the list is dated.
        page_size: Rows of a page; None for the number that `per_page` asks for.
        before_request: Called with the request's number, from 1, before it is answered; it may change `rows`.
        channel_of: Returns a row's sales channel, if the upstream applies the filter.
        envelope: The fields that are sent beside `data`.
        change: Returns the page that is sent in place of an honest one, given the parameters of its request.
    """

    rows: list[dict[str, Any]]
    day_of: Callable[[dict[str, Any]], str] | None = None
    page_size: int | None = None
    before_request: Callable[[int], object] = lambda number: None
    channel_of: Callable[[dict[str, Any]], str | None] | None = None
    envelope: tuple[str, ...] = ("total", "per_page", "last_page", "current_page")
    change: Callable[[dict[str, Any], Mapping[str, str]], dict[str, Any]] = lambda page, asked: page
    requests: list[dict[str, str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            asked = dict(request.url.params)
            self.requests.append(asked)
            self.before_request(len(self.requests))
            return self.answer(asked)

    def answer(self, asked: Mapping[str, str]) -> httpx.Response:
        return httpx.Response(200, text=json.dumps(self.change(self.page(asked), asked)))

    def page(self, asked: Mapping[str, str]) -> dict[str, Any]:
        listed = [row for row in self.rows if self._is_asked_for(row, asked)]
        size, number = self.page_size or int(asked.get("per_page", 100)), int(asked.get("page", 1))
        numbers = {
            "total": len(listed),
            "per_page": size,
            "last_page": max(1, -(-len(listed) // size)),
            "current_page": number,
        }
        return {"data": listed[(number - 1) * size : number * size]} | {name: numbers[name] for name in self.envelope}

    def _is_asked_for(self, row: dict[str, Any], asked: Mapping[str, str]) -> bool:
        if self.day_of and not asked["start_date"] <= self.day_of(row) <= asked["end_date"]:
            return False
        return not (self.channel_of and "sales_channel" in asked) or self.channel_of(row) == asked["sales_channel"]


def orders(
    count: int, *, start: datetime = datetime(2026, 3, 1, tzinfo=UTC), minutes: int = 10
) -> list[dict[str, Any]]:
    """Return orders of an account in Berlin, oldest first."""
    moments = [start + timedelta(hours=1, minutes=minutes * number) for number in range(count)]
    return [order(f"O-{number:06d}", moment) for number, moment in enumerate(moments)]


def order(number: str, moment: datetime) -> dict[str, Any]:
    return {
        "platform_order_id": number,
        "purchase_date": moment.astimezone(UTC).isoformat(),
        "order_status": "Shipped",
        "order_total": 12.5,
        "currency_code": "EUR",
        "quantity_ordered": 1,
        "sku": "SKU-1",
        "asin": None,
        "product_name": "Tea",
    }


def ledger(rows: Sequence[Mapping[str, Any]], **options: Any) -> MovingList:
    """Return a list of `transactions` at the moments of orders; their SKUs are the numbers of the orders."""
    entries = [{"posted_date": row["purchase_date"], "sku": row["platform_order_id"]} for row in rows]
    return MovingList(entries, day_of=lambda row: day_of_order({"purchase_date": row["posted_date"]}), **options)


def read(
    upstream: Callable[[httpx.Request], httpx.Response], dataset: Dataset, sink: KeptRows, *, look_ahead: int = 1
) -> LoadFacts:
    """Read March, or the snapshot of today, from an upstream."""
    window, day = (MARCH, None) if dataset.is_dated else (None, TODAY)
    with api_of(upstream) as api:
        return read_slice(api, dataset, BERLIN, window, day, sink, look_ahead=look_ahead)


def load_orders(database: Database, upstream: Callable[[httpx.Request], httpx.Response]) -> Receipt:
    """Load the orders of March from an upstream into a warehouse."""
    account = KnownAccount(BERLIN.key, "default", BERLIN)
    with api_of(upstream) as api:
        return load_slice(api, database, account, SliceRequest(ORDERS, account.key, MARCH), MARCH, run_id=None)


def day_of_order(row: Mapping[str, Any]) -> str:
    return _day_at(row["purchase_date"])


@cache
def _day_at(moment: str) -> str:
    """Return the day of a moment in Berlin. Lists of thousands of rows ask for it with each request."""
    return datetime.fromisoformat(moment).astimezone(ZoneInfo("Europe/Berlin")).date().isoformat()


def stock(count: int) -> list[dict[str, Any]]:
    """Return rows of `warehouse_stock`."""
    return [
        {
            "sku": f"SKU-{number:05d}",
            "warehouse_name": "North",
            "quantity": number,
            "location": "A",
            "status": "available",
            "last_updated": "2026-03-01T00:00:00+00:00",
        }
        for number in range(count)
    ]
