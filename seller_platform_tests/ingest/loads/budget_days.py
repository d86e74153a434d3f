"""Days of a connection with a budget: planned and loaded for real, at a virtual time, from an upstream that counts."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import httpx
import time_machine

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Account, Dataset, Window, dataset_named
from seller_platform.ingest.connections.request_budget import DailyRequests
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.planner import DueSlice, Planner
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import (
    KnownConnection,
    account_of,
    accounts,
    save_accounts,
    save_connection,
)
from seller_platform.warehouse.loads.receipts import days_read, newest_receipts
from seller_platform.warehouse.postgres.database import Database

DATASETS = tuple(map(dataset_named, ("orders", "transactions", "inventory")))
TICK_HOURS = (11, 12, 14, 18)
PERSON_HOUR = 20
COSTS = {"orders": 3, "transactions": 1, "inventory": 1}
"""The requests of a slice at this upstream: orders are listed once, and once for each of two channels."""


@dataclass
class CountingUpstream:
    """An upstream that counts its requests by day of UTC, and lists one order of each day that has begun."""

    by_day: Counter[date] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        today = datetime.now(UTC).date()
        with self._lock:
            self.by_day[today] += 1
        rows = []
        asked = request.url.params
        if request.url.path == "/sales/orders" and asked.get("sales_channel", "platform") == "platform":
            days = Window(date.fromisoformat(asked["start_date"]), date.fromisoformat(asked["end_date"]))
            rows = [self._order(asked["seller_id"], day) for day in [*days.each_day(), days.end] if day <= today]
        return httpx.Response(200, json={"data": rows, "total": len(rows), "current_page": 1, "last_page": 1})

    def _order(self, seller: str, day: date) -> dict[str, object]:
        return {
            "platform_order_id": f"{seller}-{day}",
            "purchase_date": f"{day}T08:00:00+00:00",
            "order_status": "Shipped",
            "order_total": 12.5,
            "currency_code": "GBP",
            "quantity_ordered": 1,
            "sku": "SKU-1",
            "asin": None,
            "product_name": "Tea",
        }


@dataclass(frozen=True)
class Figures:
    """What a day brought.

    Attributes:
        sent: Requests that the upstream counted on that day.
        ages: By name of dataset and account, how many days the newest day is behind that is stored.
        missing: How many past months of a dataset and account are not stored, by month.
    """

    day: date
    sent: int
    ages: dict[tuple[str, str], int]
    missing: dict[date, int]


class BudgetDays:
    """A connection with some accounts, whose history is loaded day by day.

    Args:
        since: The first day of history; the first of a month.
    """

    def __init__(self, url: str, *, accounts: int, per_day: int, since: date) -> None:
        self.url, self.per_day, self.since = url, per_day, since
        self.upstream = CountingUpstream()
        listed = [Account(n, f"S{n:02}", "GB", "GBP", "UTC", "UK", f"S{n:02}") for n in range(accounts)]
        self.keys = [account.key for account in listed]
        with Database(url) as database:
            save_connection(database, KnownConnection("default", "http://upstream", "http://upstream", "client"))
            save_accounts(database, "default", [(account.key, account) for account in listed])

    def run(self, first: date, days: int) -> Iterator[Figures]:
        """Live through days, and yield the figures of each."""
        for number in range(days):
            day = first + timedelta(days=number)
            for hour in TICK_HOURS:
                moment = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
                with time_machine.travel(moment, tick=False):
                    self._schedules(moment)
            moment = datetime(day.year, day.month, day.day, PERSON_HOUR, tzinfo=UTC)
            with time_machine.travel(moment, tick=False), ThreadPoolExecutor(2) as persons:
                for sync in [persons.submit(self._sync, moment) for _ in range(2)]:
                    sync.result()
            yield self._figures(day, moment)

    def _schedules(self, now: datetime) -> None:
        """Load what the schedules of both areas request, at the same time."""
        with Database(self.url) as database:
            planner = self._planner(database, now)
            areas = [[each for each in DATASETS if (each.area == "sales") is is_sales] for is_sales in (True, False)]
            divisions = [planner.of_refresh(area, DATASETS) for area in areas]
        with ThreadPoolExecutor(2) as processes:
            for load in [processes.submit(self._load, division.fitting, now) for division in divisions]:
                load.result()

    def _sync(self, now: datetime) -> None:
        """Load what a person asks for, as `sync` without options does."""
        with Database(self.url) as database:
            planner = self._planner(database, now)
            fitting = planner.divide(planner.requested(DATASETS)).fitting
        self._load(fitting, now)

    def _load(self, slices: Sequence[DueSlice], now: datetime) -> None:
        transport = httpx.MockTransport(self.upstream)
        with (
            Database(self.url) as database,
            SellerApi(
                "http://upstream", transport=transport, meter=DailyRequests(database, "default", self.per_day)
            ) as api,
        ):
            requests = [SliceRequest(each.dataset, each.account, each.month, whole=False) for each in slices]
            loader = SliceLoader(database, lambda _: api, now, adaptive=False)
            for _ in load_each(requests, loader, second_reading_seconds=0, records=False):
                pass

    def _planner(self, database: Database, now: datetime) -> Planner:
        return Planner(database, accounts(database), self.since, now, requests_per_day=self.per_day)

    def _figures(self, day: date, now: datetime) -> Figures:
        ages: dict[tuple[str, str], int] = {}
        missing: Counter[date] = Counter()
        history = Window(self.since, day + timedelta(days=1))
        with Database(self.url) as database:
            for dataset in DATASETS:
                for key in self.keys:
                    zone = account_of(database, key).zone
                    read = days_read(database, dataset, key, history, zone, now=now)
                    if not dataset.is_dated:
                        stored = newest_receipts(database, dataset).get(key)
                        read = {} if stored is None else {stored.window.start: day}
                    newest = max(read, default=self.since - timedelta(days=1))
                    ages[dataset.name, key] = (day - newest).days
                    for month in _past_months(dataset, history):
                        missing[month.start] += any(each not in read for each in month.each_day())
        return Figures(day, self.upstream.by_day[day], ages, dict(missing))


def _past_months(dataset: Dataset, history: Window) -> list[Window]:
    """Return the months of a dated dataset before the month of today."""
    return [month for month in list(history.months())[:-1] if dataset.is_dated]


def best_missing(accounts: int, per_day: int, since: date, first: date, days: int) -> list[dict[date, int]]:
    """Return how many slices of past months any schedule must lack at the end of each day, by month.

    The slices of today are read first; what is left reads as many slices as possible of the newest month, then of the
    one before it, and so on. The loads of a month in which the days passed are complete, because each day was read.
    """
    today_costs = accounts * sum(COSTS.values())
    by_month = {
        month.start: sorted(accounts * [COSTS[each.name] for each in DATASETS if each.is_dated])
        for month in list(Window(since, first + timedelta(days=1)).months())[:-1]
    }
    lacking = []
    for number in range(days):
        left = per_day - today_costs
        for month in sorted(by_month, reverse=True):
            while by_month[month] and by_month[month][0] <= left:
                left -= by_month[month].pop(0)
        day = first + timedelta(days=number)
        passed = [month.start for month in list(Window(since, day + timedelta(days=1)).months())[:-1]]
        lacking.append({month: len(by_month.get(month, ())) for month in passed})
    return lacking
