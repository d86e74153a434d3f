"""Tests how people name accounts, by key or by title, and which accounts can be read."""

import pytest

from seller_platform.contract import Account
from seller_platform.errors import RequestError, UnknownAccountError, UnusableAccountError
from seller_platform.warehouse.connections.account_names import key_named
from seller_platform.warehouse.connections.accounts import KnownAccount, account_named, accounts_named, save_accounts
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
