"""Compares refreshes that read as far back as days still change with refreshes of the fixed lookback.

`python -m seller_platform_tests.benchmarks.settling [--days 30]` prints one table.

Two accounts have the same orders, of which a declared share changes at each age of a day. Both are refreshed daily with
the fixed lookback until their days were observed for that long. Then one goes on so, and the other adapts.
"""

import argparse
import random
import sys
from datetime import UTC, date, datetime, time, timedelta

import httpx
import time_machine
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.ingest.loads.slices import SliceRequest, load_requested
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.history.settledness import lookbacks, settledness
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.support.http_upstream import FakeTime, api_of
from seller_platform_tests.support.installation import temporary_warehouse

ORDERS = dataset_named("orders")
CHANGED_AT_AGE = {1: 0.2, 2: 0.1, 3: 0.05, 4: 0.02, 6: 0.01, 9: 0.005}
"""The law: which share of a day's orders changes when the day is so many days old."""
ROWS_A_DAY = 400
MOST_REQUESTS, MOST_ERROR = 0.6, 0.1
_HOUR = time(12, tzinfo=UTC)


class Shop:
    """The orders of an account on any day: each change adds 1 to the total of an order."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.changes = [
            [age for age, share in CHANGED_AT_AGE.items() if rng.random() < share] for _ in range(ROWS_A_DAY)
        ]
        self.today = date.min
        self.requests = 0

    def total(self, number: int, day: date) -> int:
        """Return the total of an order of a day, as of today."""
        return 10 + sum((self.today - day).days >= age for age in self.changes[number])

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        asked = request.url.params
        channel = asked.get("sales_channel")
        window = Window(date.fromisoformat(asked["start_date"]), date.fromisoformat(asked["end_date"]) + _DAY)
        chosen = [
            {
                "platform_order_id": f"order-{day}-{number}",
                "purchase_date": f"{day}T10:00:00+00:00",
                "order_status": "Shipped",
                "order_total": self.total(number, day),
                "currency_code": "EUR",
                "quantity": 1,
                "sku": f"SKU-{number}",
                "asin": f"ASIN-{number}",
                "product_name": "Cup",
            }
            for day in window.until(self.today + _DAY).each_day()
            for number in range(ROWS_A_DAY)
            if channel in (None, "platform" if number % 10 else "non-platform")
        ]
        size, page = int(asked["per_page"]), int(asked.get("page", 1))
        last = max(1, -(-len(chosen) // size))
        rows = chosen[(page - 1) * size : page * size]
        return httpx.Response(200, json={"data": rows, "total": len(chosen), "last_page": last})


_DAY = timedelta(days=1)


def refresh(database: Database, shop: Shop, key: str, *, adaptive: bool) -> int:
    """Refresh an account as a schedule does, and return the number of stored orders that are out of date."""
    now = datetime.combine(shop.today, _HOUR)
    account = KnownAccount(key, "default", Account(1, key, "DE", "EUR", "UTC", "M", "S"))
    days = lookbacks(database, [ORDERS], [key], adaptive=adaptive)[ORDERS.name, key]
    first = Window.month_of(shop.today - timedelta(days=ORDERS.lookback_days))
    months = [first] if shop.today in first else [first, Window.month_of(shop.today)]
    with time_machine.travel(now, tick=True), api_of(shop, time=FakeTime()) as api:
        for month in months:
            request = SliceRequest(ORDERS, key, month)
            load_requested(api, database, account, request, now=now, whole=False, run_id=None, lookback_days=days)
    statement = text("SELECT platform_order_id, local_day, order_total FROM seller.orders WHERE account = :key")
    with database.begin() as connection:
        stored = connection.execute(statement, {"key": key}).tuples().all()
    return sum(total != shop.total(int(name.rpartition("-")[2]), day) for name, day, total in stored)


def compare(database: Database, days: int) -> list[Figure]:
    """Refresh both accounts, and compare requests and rows that are out of date."""
    shops = {key: Shop(7) for key in ("FIXED", "ADAPTIVE")}
    begin = datetime.now(UTC).date() - timedelta(days=days + ORDERS.lookback_days + 5)
    stale = dict.fromkeys(shops, 0)
    for number in range(ORDERS.lookback_days + 5 + days):
        is_compared = number >= ORDERS.lookback_days + 5
        for key, shop in shops.items():
            shop.today = begin + timedelta(days=number)
            if number == ORDERS.lookback_days + 5:
                shop.requests = 0
            out_of_date = refresh(database, shop, key, adaptive=is_compared and key == "ADAPTIVE")
            stale[key] += out_of_date if is_compared else 0
    forecast = settledness(database, [ORDERS], ["FIXED"])[ORDERS.name, "FIXED"].percent
    law = {age: 100 * sum(share for at, share in CHANGED_AT_AGE.items() if at > age) for age in forecast}
    actual = {
        age: 100 * sum(at > age for changes in shops["FIXED"].changes for at in changes) / ROWS_A_DAY for age in law
    }
    error = max(abs(float(forecast[age]) - share) / share for age, share in actual.items() if share)
    ratio = shops["ADAPTIVE"].requests / shops["FIXED"].requests
    return [
        Figure("changes after 1, 2, 3, 5, 7, 10 days, %: law",
               ", ".join(f"{law[age]:.1f}" for age in (1, 2, 3, 5, 7, 10))),
        Figure("  as it was drawn", ", ".join(f"{actual[age]:.1f}" for age in (1, 2, 3, 5, 7, 10))),
        Figure("  forecast", ", ".join(f"{forecast[age]:.1f}" for age in (1, 2, 3, 5, 7, 10))),
        Figure("  largest error of the forecast", f"{error:.1%}", f"at most {MOST_ERROR:.0%}", error <= MOST_ERROR),
        Figure("orders out of date after a refresh, fixed", stale["FIXED"]),
        Figure("  adaptive", stale["ADAPTIVE"], "as many", stale["ADAPTIVE"] <= stale["FIXED"]),
        Figure(f"requests of {days} refreshes, fixed", shops["FIXED"].requests),
        Figure("  adaptive", shops["ADAPTIVE"].requests),
        Figure("  adaptive, by fixed", f"{ratio:.2f}", f"at most {MOST_REQUESTS}", ratio <= MOST_REQUESTS),
    ]  # fmt: skip


def main() -> int:
    """Compare and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=int, default=30)
    chosen = parser.parse_args()
    with temporary_warehouse() as (url, _), Database(url) as database:
        figures = compare(database, chosen.days)
    return print_figures("Settledness", figures)


if __name__ == "__main__":
    sys.exit(main())
