"""Tests that accounts with other facts are held, and that one whose zone or currency changes is read again whole."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Account, Window, dataset_named
from seller_platform.errors import ImplausibleReadingError, ReadingHeldError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.planner import DueSlice, Planner
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.connections.accounts import (
    KnownConnection,
    account_of,
    accounts,
    save_accounts,
    save_connection,
)
from seller_platform.warehouse.loads.days_due import days_read
from seller_platform.warehouse.loads.holds import Accepted
from seller_platform.warehouse.loads.judgement import held_readings
from seller_platform.warehouse.loads.receipts import Slice, doubt_of, open_holds, why_it_waits
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MovingList, api_of, order
from seller_platform_tests.support.stored_rows import connect_accounts

CONNECTION = KnownConnection("default", "http://api", "http://api", "client")
LEDGER, MARCH = dataset_named("transactions"), Window(date(2026, 3, 1), date(2026, 4, 1))
Listed = tuple[int, str, str]


def _discover(
    database: Database,
    listed: Sequence[Listed],
    accepted: Accepted | None = None,
    facts: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
    amount: str = "2.50",
) -> None:
    """Read a list of accounts: number, country and seller of each, other facts, and the amount of each entry."""
    of_all = {"currency_code": "EUR", "timezone": "UTC", "marketplace": "M", "account_title": "Shop"}
    rows = [
        {**of_all, "id": number, "country_code": country, "seller_id": seller, **facts.get(number, {})}
        for number, country, seller in listed
    ]
    body = {"accounts": rows, "user": {"id": 1, "name": "Ada"}}
    entry = {"posted_date": "2026-03-05T10:00:00Z", "order_id": "O-1", "amount": amount}
    entries = {"data": [entry], "total": 1}
    with api_of(lambda each: httpx.Response(200, json=entries if "start_date" in each.url.params else body)) as api:
        discover(lambda _: api, database, CONNECTION, run_id=None, accepted=accepted)


def _stored(database: Database) -> dict[str, Listed]:
    facts = {each.key: each.account for each in accounts(database)}
    listed = dict(database.execute(text("SELECT account, id FROM seller.accounts")).tuples().all())
    assert listed == {key: account.id for key, account in facts.items()}
    return {key: (each.id, str(each.country_code), str(each.seller_id)) for key, each in facts.items()}


@pytest.mark.parametrize(
    ("now", "keys"),
    [
        ([(9, "DE", "A"), (2, "FR", "B"), (3, "IT", "C")], ["de-1", "fr-2", "it-3"]),
        ([(1, "DE", "Z"), (2, "FR", "B"), (3, "IT", "C")], ["de-1", "fr-2", "it-3"]),
        ([(2, "DE", "A"), (1, "FR", "B"), (3, "IT", "C")], ["de-1", "fr-2", "it-3"]),
        ([(9, "DE", "A"), (1, "ES", "Z"), (2, "FR", "B"), (3, "IT", "C")], ["de-1", "es-1", "fr-2", "it-3"]),
    ],
)
def test_a_new_identity_is_held_until_accepted(database: Database, now: Sequence[Listed], keys: Sequence[str]) -> None:
    before = [(1, "DE", "A"), (2, "FR", "B"), (3, "IT", "C")]
    save_connection(database, CONNECTION)
    _discover(database, before)

    with pytest.raises(ReadingHeldError, match=r"de-1 was account 1 of seller A\.M and is account"):
        _discover(database, now)
    while_held = _stored(database)
    (held,) = open_holds(database)
    accepted = Accepted(doubt_of(held))
    with pytest.raises(ReadingHeldError, match=r"seller X\.M"):
        _discover(database, [*now[:-1], (3, "IT", "X")], accepted)
    _discover(database, now, accepted)

    assert while_held == dict(zip(["de-1", "fr-2", "it-3"], before, strict=True))
    assert _stored(database) == dict(zip(keys, now, strict=True))
    assert open_holds(database) == ()


def test_other_facts_of_an_account_are_published_under_its_key(database: Database) -> None:
    save_connection(database, CONNECTION)
    _discover(database, [(1, "DE", "A"), (2, "FR", "B")])

    _discover(database, [(1, "AT", "A"), (3, "US", "C")])

    assert _stored(database) == {"de-1": (1, "AT", "A"), "us-3": (3, "US", "C")}


def _load_ledger(database: Database, key: str) -> None:
    entry = {"posted_date": "2026-03-05T10:00:00Z", "order_id": "O-1", "amount": "2.50"}
    with api_of(lambda _: httpx.Response(200, json={"data": [entry], "total": 1})) as api:
        account = account_of(database, key)
        load_slice(api, database, account, SliceRequest(LEDGER, key, MARCH), MARCH, run_id=None)


IN_TOKYO, IN_DOLLARS = {"timezone": "Asia/Tokyo"}, {"currency_code": "USD"}


@pytest.mark.parametrize(
    ("facts", "amount", "doubtful"),
    [
        ({1: IN_TOKYO}, "2.50", []),
        ({1: IN_TOKYO, 2: IN_TOKYO}, "2.50", ["de-1", "fr-2"]),
        ({1: IN_DOLLARS}, "2.50", ["de-1"]),
        ({1: IN_DOLLARS}, "2.70", []),
        ({3: IN_DOLLARS}, "2.50", []),
        ({1: IN_DOLLARS, 2: IN_TOKYO, 3: IN_TOKYO}, "9.00", ["de-1", "fr-2", "it-3"]),
    ],
)
def test_doubtful_zones_and_currencies_are_held_and_dated_lists_wait(
    database: Database, facts: Mapping[int, Mapping[str, str]], amount: str, doubtful: Sequence[str]
) -> None:
    """The dated lists of these accounts wait; the third reading that says so is believed."""
    listed = [(1, "DE", "A"), (2, "FR", "B"), (3, "IT", "C")]
    save_connection(database, CONNECTION)
    _discover(database, listed)
    _load_ledger(database, "de-1")
    before = accounts(database)

    if not doubtful:
        _discover(database, listed, facts=facts, amount=amount)
        assert accounts(database) != before
        return
    for days in range(2):
        with time_machine.travel(utc_now() + timedelta(days=days)), pytest.raises(ReadingHeldError) as held:
            _discover(database, listed, facts=facts, amount=amount)
    waiting = [key for key in ("de-1", "fr-2", "it-3") if why_it_waits(database, account_of(database, key))]
    assert (accounts(database), waiting) == (before, doubtful)
    assert all(f"{key} was in UTC with EUR and is in " in str(held.value) for key in doubtful)
    with pytest.raises(ReadingHeldError, match="transactions of de-1"):
        _load_ledger(database, "de-1")

    with time_machine.travel(utc_now() + timedelta(days=2)):
        _discover(database, listed, facts=facts, amount=amount)
        _load_ledger(database, "de-1")
    assert accounts(database) != before


ORDERS = dataset_named("orders")
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

    def load(self, month: Window, now: datetime, *, is_second: bool = False) -> Window:
        """Load what is due of a month, and return its days."""
        with time_machine.travel(now, tick=False), api_of(self.upstream) as api:
            request = SliceRequest(ORDERS, "us-1", month, whole=False, is_second=is_second)
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
def test_an_account_that_changes_zone_has_each_order_once(shop: Shop, former: str, present: str, sequence: str) -> None:
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


def test_an_account_that_changes_its_zone_loses_no_recent_rows(shop: Shop) -> None:
    april, now = Window.month_of(date(2026, 4, 1)), datetime(2026, 5, 15, tzinfo=UTC)
    shop.move(timezone=LOS_ANGELES)
    shop.load(april, now)

    shop.move(timezone=TOKYO)
    shop.upstream.rows = [row for row in shop.upstream.rows if row["purchase_date"] < "2026-04-18"]

    with pytest.raises(ImplausibleReadingError, match="rows are missing"):
        shop.load(april, now + timedelta(days=1))
    with pytest.raises(ReadingHeldError):
        shop.load(april, now + timedelta(days=1), is_second=True)
    shop.load(Window.month_of(date(2026, 5, 1)), now + timedelta(days=1))  # another month ends no doubt about this one
    with shop.database.begin() as connection:
        assert [*held_readings(connection, Slice(ORDERS, "us-1", april))] == [""]


def test_a_page_that_is_sent_again_is_placed_by_the_present_zone(shop: Shop) -> None:
    shop.upstream.rows = [order("O-1", datetime(2026, 3, 10, 3, tzinfo=UTC))]
    march = Window.month_of(date(2026, 3, 1))

    for zone in (LOS_ANGELES, TOKYO):
        shop.move(timezone=zone)
        shop.load(march, NOW)

    assert shop.stored() == Counter({("O-1", date(2026, 3, 10)): 1})


def test_what_was_read_under_another_currency_is_due_again(shop: Shop) -> None:
    shop.move(timezone=TOKYO)
    for month in months(shop.due(BEFORE)):
        shop.load(month, BEFORE)
    march, zone = Window.month_of(date(2026, 3, 1)), ZoneInfo(TOKYO)
    before = days_read(shop.database, ORDERS, "us-1", march, zone, now=NOW)

    shop.move(currency_code="JPY")

    assert (len(before), days_read(shop.database, ORDERS, "us-1", march, zone, now=NOW)) == (31, {})
    assert months(shop.due(NOW))[0].start == SINCE
