"""Tests that an account whose time zone or currency changes is read again whole, and loses no row."""

import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.planner import DueSlice, Planner
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import account_of, save_accounts
from seller_platform.warehouse.loads.receipts import days_read
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MovingList, api_of, order
from seller_platform_tests.support.stored_rows import connect_accounts

ORDERS, BY_PRODUCT, STOCK = map(dataset_named, ("orders", "sales_by_product", "warehouse_stock"))
SINCE = date(2026, 2, 1)
BEFORE, NOW = datetime(2026, 5, 9, 12, tzinfo=UTC), datetime(2026, 5, 10, 12, tzinfo=UTC)
LOS_ANGELES, TOKYO = "America/Los_Angeles", "Asia/Tokyo"
SHOP = Account(1, "Shop", "US", "USD", LOS_ANGELES, "US", "S")


@dataclass
class Shop:
    """An account with orders at all hours, and its upstream, which lists them by the account's local days."""

    database: Database
    upstream: MovingList
    account: Account

    def move(self, **changes: Any) -> None:
        """Change attributes of the account, at the upstream and in the registry, as discovery does."""
        self.account = replace(self.account, **changes)
        self.upstream.day_of = lambda row: str(self.day_of(row))
        save_accounts(self.database, "default", [("us-1", self.account)])

    def day_of(self, row: dict[str, Any]) -> date:
        moment = datetime.fromisoformat(row["purchase_date"])
        return moment.astimezone(ZoneInfo(self.account.timezone)).date()

    def due(self, now: datetime) -> list[DueSlice]:
        planner = Planner(self.database, [account_of(self.database, "us-1")], SINCE, now, requests_per_day=100)
        return planner.due([ORDERS])

    def load(self, month: Window, now: datetime) -> Window:
        """Load what is due of a month, and return its days."""
        with time_machine.travel(now, tick=False), api_of(self.upstream) as api:
            request = SliceRequest(ORDERS, "us-1", month, whole=False)
            receipt = SliceLoader(self.database, lambda _: api, now).load(request)
        assert receipt is not None
        return receipt.window

    def stored(self, *windows: Window) -> Counter[tuple[str, date]]:
        """Return the stored orders with their days, of some windows or all."""
        rows = self.database.execute(text("SELECT platform_order_id, local_day FROM seller.orders")).tuples().all()
        return Counter((name, day) for name, day in rows if not windows or any(day in window for window in windows))

    def listed(self, *windows: Window) -> Counter[tuple[str, date]]:
        """Return the orders of the upstream with their days, of some windows or all."""
        days = [(row["platform_order_id"], self.day_of(row)) for row in self.upstream.rows]
        return Counter(each for each in days if not windows or any(each[1] in window for window in windows))


@pytest.fixture
def shop(database: Database) -> Shop:
    first = datetime(2026, 2, 2, tzinfo=UTC)
    rows = [order(f"O-{number}", first + timedelta(hours=7 * number)) for number in range(330)]
    connect_accounts(database, [])
    return Shop(database, MovingList(rows, channel_of=lambda _: "platform"), SHOP)


def months(slices: list[DueSlice]) -> list[Window]:
    return [each.month for each in slices if each.month is not None]


@pytest.mark.parametrize(("former", "present"), [(LOS_ANGELES, TOKYO), (TOKYO, LOS_ANGELES)])
@pytest.mark.parametrize("sequence", ["oldest", "newest", "any"])
def test_an_account_that_changes_its_zone_has_each_order_once(
    shop: Shop, former: str, present: str, sequence: str
) -> None:
    shop.move(timezone=former)
    for month in months(shop.due(BEFORE)):
        shop.load(month, BEFORE)
    assert shop.stored() == shop.listed()
    settled = Window(SINCE, date(2026, 4, 1))
    assert min(each.window.start for each in shop.due(NOW)) >= settled.end

    shop.move(timezone=present)
    due = shop.due(NOW)
    ordered = months(due)
    if sequence == "any":
        random.Random(3).shuffle(ordered)
    read = []
    for month in reversed(ordered) if sequence == "newest" else ordered:
        read.append(shop.load(month, NOW))
        assert shop.stored(*read) == shop.listed(*read)

    assert [each.window.start for each in due] == [date(2026, number, 1) for number in (2, 3, 4, 5)]
    assert not any(each.is_background for each in due)
    assert shop.stored() == shop.listed()
    assert min(each.window.start for each in shop.due(NOW)) >= settled.end


def test_a_page_that_is_sent_again_is_placed_by_the_present_zone(shop: Shop) -> None:
    shop.upstream.rows = [order("O-1", datetime(2026, 3, 10, 3, tzinfo=UTC))]
    march = Window.month_of(date(2026, 3, 1))

    for zone in (LOS_ANGELES, TOKYO):
        shop.move(timezone=zone)
        shop.load(march, NOW)

    assert shop.stored() == Counter({("O-1", date(2026, 3, 10)): 1})


def test_a_changed_zone_is_named_until_all_is_read_again(shop: Shop) -> None:
    shop.move(timezone=LOS_ANGELES)
    for month in months(shop.due(BEFORE)):
        shop.load(month, BEFORE)
    assert slice_problems(shop.database, ["accounts"], accounts=["us-1"]) == ()

    shop.move(timezone=TOKYO)
    counts = []
    due: list[Window | None] = [None, *reversed(months(shop.due(NOW)))]
    for each in due:
        if each is not None:
            shop.load(each, NOW)
        counts.append(
            [(found.kind, found.message) for found in slice_problems(shop.database, ["accounts"], accounts=["us-1"])]
        )

    named = f"The account us-1 has {TOKYO} and USD now, but %s of its slices were read under {LOS_ANGELES} and USD. "
    assert [[kind for kind, _ in found] for found in counts] == [*[["rezoned"]] * 4, []]
    assert [found[0][1].startswith(named % count) for found, count in zip(counts, (4, 3, 2, 1), strict=False)]


def test_what_was_read_under_another_currency_is_due_again(shop: Shop) -> None:
    shop.move(timezone=TOKYO)
    for month in months(shop.due(BEFORE)):
        shop.load(month, BEFORE)
    march, zone = Window.month_of(date(2026, 3, 1)), ZoneInfo(TOKYO)
    before = days_read(shop.database, ORDERS, "us-1", march, zone, now=NOW)

    shop.move(currency_code="JPY")

    assert (len(before), days_read(shop.database, ORDERS, "us-1", march, zone, now=NOW)) == (31, {})
    assert months(shop.due(NOW))[0].start == SINCE
