"""Days with a change of clocks: 23 or 25 hours, two midnights or none.

PostgreSQL computes the expected day of each moment, because it has its own rules of time zones.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import text

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.ingest.loads.slices import SliceRequest, load_slice, window_to_load
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.days_due import AccountDay
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MovingList, api_of, order

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


def upstream_of(shop: Shop, *, in_utc: bool = False) -> MovingList:
    """Return an upstream that lists the shop's orders, with the offsets of its zone or in UTC."""
    rows = [
        order(f"o{number}", at) | {"purchase_date": at.astimezone(UTC if in_utc else shop.account.zone).isoformat()}
        for number, at in enumerate(shop.days)
    ]
    day_of = {row["platform_order_id"]: str(day) for row, day in zip(rows, shop.days.values(), strict=True)}
    return MovingList(rows, day_of=lambda row: day_of[row["platform_order_id"]], channel_of=lambda _: "platform")


def stored(database: Database) -> dict[datetime, date]:
    rows = database.execute(text("SELECT purchase_date, local_day FROM seller.orders")).all()
    assert len(rows) == len({at for at, _ in rows})
    return {at.astimezone(UTC): day for at, day in rows}


@changes
def test_days_loaded_one_by_one_or_together_have_each_row_once_on_its_day(
    database: Database, zone: str, day: date, hours: float
) -> None:
    """Timestamps are sent with the offsets of the zone, then in UTC."""
    shop = shop_in(database, zone, day)

    def load(window: Window, *, in_utc: bool = False) -> Receipt:
        request = SliceRequest(ORDERS, shop.account.key, window)
        with api_of(upstream_of(shop, in_utc=in_utc)) as api:
            receipt = load_slice(api, database, shop.account, request, window, run_id=None)
        assert [each.check_name for each in judgements(database, ORDERS) if not each.passed] == []
        return receipt

    one_by_one = [load(Window.day(each)) for each in shop.window.each_day()]
    after_days = stored(database)
    together = load(shop.window, in_utc=True)
    in_utc = stored(database)
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
