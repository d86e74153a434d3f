"""Tests how people name accounts: by key or by title."""

import pytest

from seller_platform.contract import Account
from seller_platform.errors import RequestError, UnknownAccountError
from seller_platform.warehouse.connections.account_names import key_named
from seller_platform.warehouse.connections.accounts import account_named, accounts_named, save_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import connect_accounts

TITLES = {"S1.US": "North Pine US", "S2.DE": "Cup & Co", "S3.FR": "CUP & CO", "S4.IT": "Twins", "S5.IT": "Twins"}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("S1.US", "S1.US"),
        ("s1.us", "S1.US"),
        ("North Pine US", "S1.US"),
        (" north pine us ", "S1.US"),
        ("Cup & Co", "S2.DE"),
        ("CUP & CO", "S3.FR"),
    ],
)
def test_an_account_is_named_by_its_key_or_its_title(name: str, key: str) -> None:
    assert key_named(name, TITLES) == key


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Twins", r"several accounts have the title 'Twins': S4\.IT \(Twins\), S5\.IT \(Twins\)\. Name the account by"),
        ("cup & co", r"several accounts have the title 'cup & co': S2\.DE \(Cup & Co\), S3\.FR \(CUP & CO\)"),
    ],
)
def test_a_title_of_several_accounts_lists_their_keys(name: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        key_named(name, TITLES)


def test_a_name_that_is_spelled_nearly_right_is_suggested() -> None:
    with pytest.raises(
        UnknownAccountError, match=r"'Nort Pine US' \(did you mean 'North Pine US'\?\); the accounts are: S1"
    ):
        key_named("Nort Pine US", TITLES)


def test_a_listed_account_comes_before_a_retired_one(database: Database) -> None:
    old = ("S1.US", Account(1, "Shop", "US", "USD", "America/New_York", "US", "S1"))
    gone = ("S2.US", Account(2, "Gone", "US", "USD", "America/New_York", "US", "S2"))
    new = ("S3.US", Account(3, "Shop", "US", "USD", "America/New_York", "US", "S3"))
    connect_accounts(database, [old, gone])
    save_accounts(database, "default", [new])

    named = [account_named(database, name).key for name in ("shop", "S1.US", "gone")]

    assert named == ["S3.US", "S1.US", "S2.US"]
    assert [each.key for each in accounts_named(database, ["Shop"])] == ["S3.US"]
    with pytest.raises(UnknownAccountError, match=r"there is no account 'gone'; the accounts are: S3\.US"):
        accounts_named(database, ["gone"])
