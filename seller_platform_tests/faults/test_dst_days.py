"""Days with a change of clocks: 23 or 25 hours, two midnights or none.

PostgreSQL computes the expected day of each moment, because it has its own rules of time zones.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.client.oauth.tokens import TokenAuth
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.ingest.loads.slices import SliceRequest, load_slice, window_to_load
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.service.users.store import grant_accounts
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.days_due import AccountDay
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import raw_server
from seller_platform_tests.support import served as serving
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.raw_server import RawServer, forwarding
from seller_platform_tests.support.stored_rows import insert_rows, list_accounts

pytestmark = pytest.mark.slow

ORDERS, STOCK = dataset_named("orders"), dataset_named("warehouse_stock")
DAY = timedelta(days=1)

changes = pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/Los_Angeles", date(2026, 3, 8), 23),
        ("America/Los_Angeles", date(2026, 11, 1), 25),
        ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
        ("America/Sao_Paulo", date(2018, 11, 4), 23),  # from midnight to one o'clock
        ("America/Sao_Paulo", date(2018, 2, 17), 25),  # from midnight back to eleven
        ("America/Havana", date(2026, 11, 1), 25),  # from one o'clock back to midnight
        ("Pacific/Apia", date(2011, 12, 30), 0),  # the day that Samoa left out
    ],
    ids=str,
)
"""The zone, the day on which its clock is changed, and how many hours that day has."""


@dataclass(frozen=True)
class Shop:
    """A shop that sells every half hour, on three days around a change of clocks."""

    account: KnownAccount
    days: dict[datetime, date]
    window: Window


def shop_in(database: Database, zone: str, day: date) -> Shop:
    """Return a shop with the local day of each half hour, as PostgreSQL computes it."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    around = Window(day - DAY, day + 2 * DAY)
    statement = text(
        "SELECT at, CAST(at AT TIME ZONE :zone AS date) AS day "
        "FROM generate_series(CAST(:first AS timestamptz), :last, interval '30 minutes') AS at"
    )
    rows = database.execute(statement, {"zone": zone, "first": noon - 3 * DAY, "last": noon + 3 * DAY}).all()
    days = {at.astimezone(UTC): local for at, local in rows if local in around}
    return Shop(KnownAccount("xx-9", "default", Account(9, "Shop DST", "X", "EUR", zone, "X", "DST")), days, around)


@contextmanager
def served(databases: Databases, shop: Shop) -> Iterator[tuple[SellerApi, RawServer]]:
    """Serve the shop's orders, and yield the API and the server between it and the service."""
    with (
        databases.lent() as upstream,
        serving.served(upstream, upstream.url) as service,
        raw_server.serving(forwarding(service.base_url)) as between,
    ):
        list_accounts(upstream, {shop.account.key: shop.account.account})
        grant_accounts(upstream, serving.ANN, [shop.account.key])
        rows = [
            (f"o{number}", at.isoformat(), "Shipped", Decimal("1.10"), "EUR", 1, "SKU", "ASIN", "Cup", day)
            for number, (at, day) in enumerate(shop.days.items())
        ]
        insert_rows(upstream, ORDERS, shop.account.key, rows)
        with SellerApi(between.url, auth=TokenAuth(serving.issue_token(upstream, serving.ANN))) as api:
            yield api, between


def _in_utc(document: dict[str, Any]) -> dict[str, Any]:
    for row in document["data"]:
        row["purchase_date"] = datetime.fromisoformat(row["purchase_date"]).astimezone(UTC).isoformat()
    return document


def stored(database: Database) -> dict[datetime, date]:
    rows = database.execute(text("SELECT purchase_date, local_day FROM seller.orders")).all()
    assert len(rows) == len({at for at, _ in rows})
    return {at.astimezone(UTC): day for at, day in rows}


@changes
def test_days_loaded_one_by_one_or_together_have_each_row_once_on_its_day(
    databases: Databases, database: Database, zone: str, day: date, hours: float
) -> None:
    """Timestamps are sent with the offsets of the zone, then in UTC."""
    shop = shop_in(database, zone, day)

    def load(window: Window) -> Receipt:
        request = SliceRequest(ORDERS, shop.account.key, window)
        receipt = load_slice(api, database, shop.account, request, window, run_id=None)
        assert [each.check_name for each in judgements(database, ORDERS) if not each.passed] == []
        return receipt

    with served(databases, shop) as (api, between):
        one_by_one = [load(Window.day(each)) for each in shop.window.each_day()]
        after_days = stored(database)
        between.plan = lambda _: raw_server.rewritten(_in_utc)
        together = load(shop.window)
        in_utc = stored(database)
        between.plan = lambda _: None
        again = load(Window.day(day))

    sold = Counter(shop.days.values())
    assert sold[day] == hours * 2
    assert [receipt.rows for receipt in one_by_one] == [sold[each] for each in shop.window.each_day()]
    assert after_days == shop.days
    assert (together.rows, together.verdict) == (len(shop.days), "match")
    assert in_utc == shop.days
    assert again.rows == sold[day]
    assert stored(database) == shop.days


@changes
def test_a_snapshot_and_a_refresh_are_of_the_day_it_is(database: Database, zone: str, day: date, hours: float) -> None:
    shop, there = shop_in(database, zone, day), ZoneInfo(zone)
    begins = {each: min(at for at, its in shop.days.items() if its == each) for each in shop.days.values()}

    days = {at: AccountDay.at(at, shop.account.key, there) for at in shop.days}
    snapshots = {
        at: window_to_load(database, shop.account, SliceRequest(STOCK, shop.account.key, None), now=at)
        for at in shop.days
    }

    assert Counter(shop.days.values())[day] == hours * 2
    assert {at: each.today for at, each in days.items()} == shop.days
    assert snapshots == {at: Window.day(local_day) for at, local_day in shop.days.items()}
    assert {each.today: each.begins_at.astimezone(UTC) for each in days.values()} == begins
