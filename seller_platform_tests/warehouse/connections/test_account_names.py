"""Tests how people name accounts, which of them can be read, and that an account keeps a key that no other has."""

from collections.abc import Sequence

import pytest
from sqlalchemy import text

from seller_platform.contract import Account
from seller_platform.errors import RequestError, UnknownAccountError, UnusableAccountError
from seller_platform.ingest.loads.accounts import with_keys
from seller_platform.warehouse.connections.accounts import (
    KnownAccount,
    KnownConnection,
    account_named,
    accounts_named,
    key_named,
    save_accounts,
    save_connection,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import connect_accounts

ACCOUNTS = {
    key: Account(number, title, "US", "USD", "UTC", "M", seller)
    for number, (key, title, seller) in enumerate(
        [
            ("us-1", "North Pine US", "S1"),
            ("de-2", "Cup & Co", "S2"),
            ("fr-3", "CUP & CO", "S3"),
            ("it-4", "Twins", "S4"),
            ("it-5", "Twins", "S5"),
            ("it-6", "us-1", None),
            ("it-7", "S4.M", "S4"),
            ("it-8", "", "S4"),
        ]
    )
}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("us-1", "us-1"),
        ("US-1", "us-1"),
        ("North Pine US", "us-1"),
        (" north pine us ", "us-1"),
        ("Cup & Co", "de-2"),
        ("CUP & CO", "fr-3"),
        ("S1.M", "us-1"),
        ("s2.m", "de-2"),
        ("S4.M", "it-7"),
    ],
)
def test_an_account_is_named_by_its_key_or_its_title_or_its_seller(name: str, key: str) -> None:
    assert key_named(name, ACCOUNTS) == key


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Twins", r"several accounts are named 'Twins': it-4 \(Twins\), it-5 \(Twins\)\. Name the account by"),
        ("cup & co", r"several accounts are named 'cup & co': de-2 \(Cup & Co\), fr-3 \(CUP & CO\)"),
    ],
)
def test_a_title_of_several_accounts_lists_their_keys(name: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        key_named(name, ACCOUNTS)


@pytest.mark.parametrize("name", ["", "None", "None.M", "S6"])
def test_a_name_that_no_account_has_is_unknown(name: str) -> None:
    with pytest.raises(UnknownAccountError):
        key_named(name, ACCOUNTS)


def test_a_name_that_is_spelled_nearly_right_is_suggested() -> None:
    with pytest.raises(
        UnknownAccountError, match=r"'Nort Pine US' \(did you mean 'North Pine US'\?\); the accounts are: de-2"
    ):
        key_named("Nort Pine US", ACCOUNTS)


def test_a_listed_account_comes_before_a_retired_one(database: Database) -> None:
    old = ("us-1", Account(1, "Shop", "US", "USD", "America/New_York", "US", "S1"))
    gone = ("us-2", Account(2, "Gone", "US", "USD", "America/New_York", "US", "S2"))
    new = ("us-3", Account(3, "Shop", "US", "USD", "America/New_York", "US", "S3"))
    connect_accounts(database, [old, gone])
    save_accounts(database, "default", [new])

    named = [account_named(database, name).key for name in ("shop", "us-1", "gone")]

    assert named == ["us-3", "us-1", "us-2"]
    assert [each.key for each in accounts_named(database, ["Shop"])] == ["us-3"]
    with pytest.raises(UnknownAccountError, match=r"there is no account 'gone'; the accounts are: us-3"):
        accounts_named(database, ["gone"])


@pytest.mark.parametrize(
    ("title", "zone", "problem"),
    [
        ("Shop", "Sea/Atlantis", "account de-2: time zone 'Sea/Atlantis' is not known"),
        ("Shop", "", "account de-2: it has no time zone"),
        ("", "Europe/Berlin", "account de-2: it has neither a title nor a seller"),
    ],
)
def test_an_account_that_cannot_be_read_has_no_zone_of_its_own(title: str, zone: str, problem: str) -> None:
    account = KnownAccount("de-2", "default", Account(1, title, "DE", "EUR", zone, "DE", None))

    with pytest.raises(UnusableAccountError, match=problem) as caught:
        _ = account.zone

    assert caught.value.exit_code == 4
    assert account.zone_or_utc.key == (zone if "/Berlin" in zone else "UTC")


def _of(number: int, seller: str | None, country: str = "US", marketplace: str = "M") -> Account:
    return Account(number, f"Shop {number}", country, "USD", "UTC", marketplace, seller)


def _listed(database: Database, *accounts: Account, connection: str = "default") -> tuple[Sequence[str], str]:
    """List accounts, as a connection that is believed, and return their keys and what would be doubted."""
    save_connection(database, KnownConnection(connection, f"http://{connection}", "http://auth", "client"))
    keyed, doubt = with_keys(database, connection, accounts)
    save_accounts(database, connection, [(each.key, each) for each in keyed])
    return [each.key for each in keyed], doubt


@pytest.mark.parametrize(
    ("now", "keys", "doubted"),
    [
        ([_of(1, "A", "CA"), _of(2, "B")], ["us-1", "us-2"], []),
        ([_of(1, None), _of(2, "B")], ["us-1", "us-2"], []),
        ([_of(2, "B"), _of(3, "C")], ["us-2", "us-3"], []),
        ([_of(0, "A"), _of(1, None), _of(2, "B")], ["us-0", "us-1", "us-2"], []),
        ([_of(7, "A"), _of(2, "B")], ["us-1", "us-2"], ["us-1 was account 1 of seller A.M and is account 7 of"]),
        ([_of(1, "B"), _of(2, "A")], ["us-2", "us-1"], ["us-1 was account 1", "us-2 was account 2"]),
        (
            [_of(1, "C"), _of(2, "B")],
            ["us-1", "us-2"],
            ["us-1 was account 1 of seller A.M and is account 1 of seller C"],
        ),
        ([_of(1, "A", marketplace="N")], ["us-1"], ["of seller A.M and is account 1 of seller A.N"]),
        ([_of(1, "C"), _of(7, "A")], ["us-1-2", "us-1"], ["us-1 was account 1"]),
        ([_of(2, "A"), _of(3, "B")], ["us-1", "us-2"], ["us-1 was account 1", "us-2 was account 2"]),
    ],
)
def test_an_account_keeps_its_key_and_another_identity_is_named(
    database: Database, now: list[Account], keys: list[str], doubted: list[str]
) -> None:
    _listed(database, _of(1, "A"), _of(2, "B"))

    found, doubt = _listed(database, *now)

    assert found == keys
    assert all(each in doubt for each in doubted)
    assert doubt.count("was account") == len(doubted)


def test_connections_share_an_account_only_if_number_and_seller_are_equal(database: Database) -> None:
    first, _ = _listed(database, _of(1, "A"), _of(2, "B"), _of(3, None))

    second, _ = _listed(database, _of(1, "A"), _of(2, "X"), _of(3, None), _of(4, "B"), connection="europe")
    gone, _ = _listed(database, _of(2, "B"))
    back, _ = _listed(database, _of(1, "A", "CA"), _of(2, "B"))

    assert first == ["us-1", "us-2", "us-3"]
    assert second == ["us-1", "us-2.europe", "us-3.europe", "us-4.europe"]
    assert (gone, back) == (["us-2"], ["us-1", "us-2"])


def test_a_key_of_generated_rows_is_not_given_to_an_account(database: Database) -> None:
    row = "INSERT INTO seller.accounts (account, id, connection, load_id, page) VALUES ('us-1', 1, 'sandbox', 0, 0)"
    database.execute(text(row))

    assert _listed(database, _of(1, "A")) == (["us-1-2"], "")
