"""Measures how old the orders of today become in a simulated week, where they are read every 15 minutes.

A clock of its own drives the planning and the loads of our code over an upstream in this process: each request takes
as long as an answer of the upstream does, some are refused once, and the daily refresh runs in between. A tick is
skipped while the run before is under way. The age of an account is the time since the start of the newest reading that
is stored; it is taken once a minute.
"""

import random
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from unittest import mock
from zoneinfo import ZoneInfo

import httpx
import time_machine
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.retries import RequestClock
from seller_platform.contract import Account, Window
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.ingest.loads.loading import SLICES_AT_ONCE, SliceLoader, load_each
from seller_platform.ingest.loads.planner import REFRESH_HOUR, Planner
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.jobs.today import today_slices
from seller_platform.warehouse.connections.accounts import KnownConnection, accounts, save_accounts, save_connection
from seller_platform.warehouse.monitoring.freshness import last_readings
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support.installation import temporary_warehouse

MOST_MINUTES = 15.0
# PostgreSQL does not travel in time.
_END_AT_ONCE = """
CREATE FUNCTION end_at_once() RETURNS trigger LANGUAGE plpgsql
    AS 'BEGIN NEW.finished_at = NEW.started_at; RETURN NEW; END';
CREATE TRIGGER end_at_once BEFORE INSERT ON platform.loads FOR EACH ROW EXECUTE FUNCTION end_at_once()
"""
_TICK = timedelta(minutes=15)
_ZONES = ("America/Los_Angeles", "America/New_York", "Europe/London", "Europe/Berlin", "Asia/Tokyo", "Australia/Sydney")
_FIRST_DAY = date(2026, 10, 27)
# A queued run is launched by a process of its own.
_LAUNCH_SECONDS = 4.0
_ANSWER_SECONDS = 0.4
_REFUSED = 0.005
_ORDERS_A_DAY = 30
_DAY = timedelta(days=1)


@dataclass
class Simulation:
    """A week of accounts whose orders come at random moments, and the clock of all that reads them."""

    database: Database
    accounts: int
    hours: int
    rng: random.Random = field(default_factory=lambda: random.Random(15))
    ticks: Counter[str] = field(default_factory=Counter)
    requests: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.start = datetime(_FIRST_DAY.year, _FIRST_DAY.month, _FIRST_DAY.day, tzinfo=UTC)
        self.now, self.end = self.start, self.start + timedelta(hours=self.hours)
        self.zones = {f"S{number:03}.M": _ZONES[number % len(_ZONES)] for number in range(self.accounts)}
        save_connection(self.database, KnownConnection("default", "http://api", "http://api", "client"))
        save_accounts(
            self.database,
            "default",
            [
                (key, Account(number, key, "US", "USD", zone, "M", key.removesuffix(".M")))
                for number, (key, zone) in enumerate(self.zones.items())
            ],
        )
        self.known = {each.key: each for each in accounts(self.database)}
        self.orders = {key: sorted(self._orders(key)) for key in self.zones}
        with self.database.begin() as connection:
            connection.exec_driver_sql(_END_AT_ONCE)

    def run(self) -> None:
        """Let the ticks of both schedules run until the end."""
        clock = RequestClock(lambda: self.now.timestamp(), lambda: self.now)  # noqa: PLW0108  # `now` changes
        with (
            time_machine.travel(self.now, tick=False) as self.traveller,
            SellerApi("http://upstream/api", transport=httpx.MockTransport(self.answer), clock=clock) as self.api,
            mock.patch("tenacity.nap.time", self),
        ):
            at = self.start
            while at < self.end:
                self._move_to(at)
                if self.now > at:
                    self.ticks["skipped"] += 1
                else:
                    self.ticks["read"] += 1
                    if at.hour == REFRESH_HOUR and at.minute == 0:
                        self._refresh()
                    self._read_today(at)
                at += _TICK

    def ages_minutes(self) -> list[float]:
        """Return the age of each account's orders once a minute from the second tick on, the youngest first."""
        statement = text(
            "SELECT finished_at, started_at FROM platform.loads "
            "WHERE account = :key AND window_end > CAST(started_at AT TIME ZONE :zone AS date) ORDER BY finished_at"
        )
        ages: list[float] = []
        for key, zone in self.zones.items():
            with self.database.begin() as connection:
                readings = connection.execute(statement, {"key": key, "zone": zone}).tuples().all()
            stored, began = [each for each, _ in readings], [each for _, each in readings]
            moment = self.start + 2 * _TICK + timedelta(seconds=self.rng.uniform(0, 60))
            while moment < self.end:
                newest = bisect_right(stored, moment) - 1
                ages.append((moment - began[newest]).total_seconds() / 60)
                moment += timedelta(minutes=1)
        return sorted(ages)

    def missing(self) -> int:
        """Return how many orders that are older than an hour are not stored, or more than once."""
        statement = text("SELECT platform_order_id, count(*) FROM seller.orders GROUP BY 1")
        with self.database.begin() as connection:
            stored = dict(connection.execute(statement).tuples().all())
        until = self.end - timedelta(hours=1)
        expected = [
            f"{key}-{number}" for key, of_key in self.orders.items() for number, at in enumerate(of_key) if at < until
        ]
        return sum(stored.get(order) != 1 for order in expected)

    def sleep(self, seconds: float) -> None:
        """Move the clock forward."""
        with self.lock:
            self._move_to(self.now + timedelta(seconds=seconds))

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Answer with the orders that came so far."""
        with self.lock:
            self.requests += 1
            seconds, is_refused = self.rng.expovariate(1 / _ANSWER_SECONDS), self.rng.random() < _REFUSED
            self._move_to(self.now + timedelta(seconds=seconds / SLICES_AT_ONCE))
            now = self.now
        if is_refused:
            return httpx.Response(429, headers={"Retry-After": "5"}, json={"error": "too many requests"})
        asked = request.url.params
        key = f"{asked['seller_id']}.M"
        zone, channel = ZoneInfo(self.zones[key]), asked.get("sales_channel")
        window = Window(date.fromisoformat(asked["start_date"]), date.fromisoformat(asked["end_date"]) + _DAY)
        came = self.orders[key][: bisect_right(self.orders[key], now)]
        chosen = [
            {
                "platform_order_id": f"{key}-{number}",
                "purchase_date": at.isoformat(),
                "order_status": "Pending" if now - at < timedelta(hours=8) else "Shipped",
                "order_total": 10,
                "currency_code": "USD",
                "quantity_ordered": 1,
                "sku": "SKU-1",
                "asin": "B000EXAMPL",
                "product_name": "Cup",
            }
            for number, at in enumerate(came)
            if window.start <= at.astimezone(zone).date() < window.end
            and channel in (None, "platform" if number % 10 else "non-platform")
        ]
        return httpx.Response(200, json={"data": chosen, "total": len(chosen), "last_page": 1})

    def _orders(self, key: str) -> Iterator[datetime]:
        """Yield the moments of an account's orders, also of the days before the simulation."""
        first = self.start - 3 * _DAY
        seconds = int((self.end - first).total_seconds())
        for _ in range(_ORDERS_A_DAY * seconds // 86_400):
            yield first + timedelta(seconds=self.rng.randrange(seconds))

    def _move_to(self, moment: datetime) -> None:
        if moment > self.now:
            self.now = moment
            self.traveller.move_to(moment, tick=False)

    def _read_today(self, at: datetime) -> None:
        self.sleep(_LAUNCH_SECONDS)
        self._load([each.request for each in today_slices(self.known.values(), at)])

    def _refresh(self) -> None:
        planner = Planner(self.database, list(self.known.values()), _FIRST_DAY - 3 * _DAY, self.now)
        self._load([each.request for each in planner.due([ORDERS], scheduled=True)])

    def _load(self, requests: list[SliceRequest]) -> None:
        loader = SliceLoader(self.database, lambda _: self.api, self.now, adaptive=False)
        self.ticks.update("failed" for each in load_each(requests, loader) if each.error)


def simulate(database: Database, *, accounts: int, hours: int) -> Promises:
    """Run the simulation and return its figures."""
    simulation = Simulation(database, accounts, hours)
    simulation.run()
    ages = simulation.ages_minutes()
    missing = simulation.missing()
    newest = last_readings(database, [ORDERS], simulation.known.values(), now=simulation.end)
    oldest = max(each.age_hours(simulation.end) for each in newest)
    percentile = ages[len(ages) * 95 // 100]
    figures = [
        Figure("accounts, hours", f"{accounts}, {hours}"),
        Figure("ticks", simulation.ticks["read"]),
        Figure("ticks skipped, as a run was under way", simulation.ticks["skipped"]),
        Figure("slices that failed", simulation.ticks["failed"], "0", simulation.ticks["failed"] == 0),
        Figure("requests", simulation.requests),
        Figure("age of orders, minutes: median", f"{ages[len(ages) // 2]:.1f}"),
        Figure("  95th percentile", f"{percentile:.1f}", f"at most {MOST_MINUTES:g}", percentile <= MOST_MINUTES),
        Figure("  largest", f"{ages[-1]:.1f}"),
        Figure("  oldest account as `status` shows it, hours", f"{oldest:.2f}", "at most 1", oldest <= 1),
        Figure("orders of more than an hour ago that are missing or doubled", missing, "0", missing == 0),
    ]
    return Promises("Today's orders every 15 minutes", figures)


def measure(*, accounts: int = 100, days: int = 7) -> Promises:
    """Options: accounts, and simulated days."""
    with temporary_warehouse() as (url, _), Database(url) as database:
        return simulate(database, accounts=accounts, hours=24 * days)
