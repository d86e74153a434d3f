"""Tests what a service answers about an account whose time zone is not known."""

import pytest

from seller_platform.contract import dataset_named
from seller_platform_tests.support.served import ANN, Served, execute, insert_rows

TRANSACTIONS = dataset_named("transactions")


@pytest.mark.parametrize("zone", ["Sea/Atlantis", None])
def test_an_account_without_a_known_zone_is_answered_in_utc(service: Served, zone: str | None) -> None:
    execute(service.database, "UPDATE seller.accounts SET timezone = %s WHERE account = 'S1.US'", zone)
    insert_rows(service.database, TRANSACTIONS, "S1.US", [("2026-03-01T12:00:00-08:00", *[None] * 8, "2026-03-01")])

    with service.client(ANN) as client:
        listed = client.get(
            TRANSACTIONS.path,
            params={
                "account_title": "Shop US",
                "per_page": "500",
                "start_date": "2026-03-01",
                "end_date": "2026-03-01",
            },
        )
        accounts = client.get("/user/accounts")

    assert [row["posted_date"] for row in listed.json()["data"]] == ["2026-03-01T20:00:00+00:00"]
    assert zone in [account["timezone"] for account in accounts.json()["accounts"]]
