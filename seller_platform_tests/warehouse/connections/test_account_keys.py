"""Tests that an account keeps its key, and that no key is given to two accounts."""

from collections.abc import Sequence

import pytest
from sqlalchemy import text

from seller_platform.contract import Account
from seller_platform.warehouse.connections.account_keys import with_keys
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.postgres.database import Database


def of(number: int, seller: str | None, country: str = "US", marketplace: str = "M") -> Account:
    return Account(number, f"Shop {number}", country, "USD", "UTC", marketplace, seller)


def listed(database: Database, *accounts: Account, connection: str = "default") -> tuple[Sequence[str], str]:
    """List accounts, as a connection that is believed, and return their keys and what would be doubted."""
    save_connection(database, KnownConnection(connection, f"http://{connection}", "http://auth", "client"))
    keyed, doubt = with_keys(database, connection, accounts)
    save_accounts(database, connection, [(each.key, each) for each in keyed])
    return [each.key for each in keyed], doubt


@pytest.mark.parametrize(
    ("now", "keys", "doubted"),
    [
        ([of(1, "A", "CA"), of(2, "B")], ["us-1", "us-2"], []),
        ([of(1, None), of(2, "B")], ["us-1", "us-2"], []),
        ([of(2, "B"), of(3, "C")], ["us-2", "us-3"], []),
        ([of(0, "A"), of(1, None), of(2, "B")], ["us-0", "us-1", "us-2"], []),
        ([of(7, "A"), of(2, "B")], ["us-1", "us-2"], ["us-1 was account 1 of seller A.M and is account 7 of"]),
        ([of(1, "B"), of(2, "A")], ["us-2", "us-1"], ["us-1 was account 1", "us-2 was account 2"]),
        ([of(1, "C"), of(2, "B")], ["us-1", "us-2"], ["us-1 was account 1 of seller A.M and is account 1 of seller C"]),
        ([of(1, "A", marketplace="N")], ["us-1"], ["of seller A.M and is account 1 of seller A.N"]),
        ([of(1, "C"), of(7, "A")], ["us-1-2", "us-1"], ["us-1 was account 1"]),
        ([of(2, "A"), of(3, "B")], ["us-1", "us-2"], ["us-1 was account 1", "us-2 was account 2"]),
    ],
)
def test_an_account_keeps_its_key_and_another_identity_is_named(
    database: Database, now: list[Account], keys: list[str], doubted: list[str]
) -> None:
    listed(database, of(1, "A"), of(2, "B"))

    found, doubt = listed(database, *now)

    assert found == keys
    assert all(each in doubt for each in doubted)
    assert doubt.count("was account") == len(doubted)


def test_connections_share_an_account_only_if_number_and_seller_are_equal(database: Database) -> None:
    first, _ = listed(database, of(1, "A"), of(2, "B"), of(3, None))

    second, _ = listed(database, of(1, "A"), of(2, "X"), of(3, None), of(4, "B"), connection="europe")
    gone, _ = listed(database, of(2, "B"))
    back, _ = listed(database, of(1, "A", "CA"), of(2, "B"))

    assert first == ["us-1", "us-2", "us-3"]
    assert second == ["us-1", "us-2.europe", "us-3.europe", "us-4.europe"]
    assert (gone, back) == (["us-2"], ["us-1", "us-2"])


def test_a_key_of_generated_rows_is_not_given_to_an_account(database: Database) -> None:
    row = "INSERT INTO seller.accounts (account, id, connection, load_id, page) VALUES ('us-1', 1, 'sandbox', 0, 0)"
    database.execute(text(row))

    assert listed(database, of(1, "A")) == (["us-1-2"], "")
