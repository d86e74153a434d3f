"""Tests that an account whose number or seller is another one is held until a person accepts it."""

from collections.abc import Sequence

import httpx
import pytest
from sqlalchemy import text

from seller_platform.errors import ReadingHeldError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.warehouse.connections.accounts import KnownConnection, accounts, save_connection
from seller_platform.warehouse.loads.holds import Accepted
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import doubt_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import api_of

CONNECTION = KnownConnection("default", "http://api", "http://api", "client")
Listed = tuple[int, str, str]


def _discover(database: Database, listed: Sequence[Listed], accepted: Accepted | None = None) -> None:
    """Read a list of accounts: number, country and seller of each."""
    facts = {"currency_code": "EUR", "timezone": "UTC", "marketplace": "M"}
    rows = [
        {**facts, "id": number, "account_title": "Shop", "country_code": country, "seller_id": seller}
        for number, country, seller in listed
    ]
    body = {"accounts": rows, "user": {"id": 1, "name": "Ada"}}
    with api_of(lambda _: httpx.Response(200, json=body)) as api:
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
