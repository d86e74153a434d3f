"""Tests that accounts with another number, seller, time zone or currency are held."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType

import httpx
import pytest
import time_machine
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Window, dataset_named
from seller_platform.errors import ReadingHeldError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.ingest.loads.slices import SliceRequest, load_slice
from seller_platform.warehouse.connections.accounts import KnownConnection, account_of, accounts, save_connection
from seller_platform.warehouse.loads.holds import Accepted
from seller_platform.warehouse.loads.receipts import open_holds, why_it_waits
from seller_platform.warehouse.loads.slices import doubt_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import api_of

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
def test_another_identity_is_held_until_a_person_accepts_it(
    database: Database, now: Sequence[Listed], keys: Sequence[str]
) -> None:
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


TOKYO, DOLLARS = {"timezone": "Asia/Tokyo"}, {"currency_code": "USD"}


@pytest.mark.parametrize(
    ("facts", "amount", "doubtful"),
    [
        ({1: TOKYO}, "2.50", []),
        ({1: TOKYO, 2: TOKYO}, "2.50", ["de-1", "fr-2"]),
        ({1: DOLLARS}, "2.50", ["de-1"]),
        ({1: DOLLARS}, "2.70", []),
        ({3: DOLLARS}, "2.50", []),
        ({1: DOLLARS, 2: TOKYO, 3: TOKYO}, "9.00", ["de-1", "fr-2", "it-3"]),
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
