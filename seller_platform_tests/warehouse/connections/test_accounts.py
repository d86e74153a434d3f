"""Tests which accounts can be read."""

import pytest

from seller_platform.contract import Account
from seller_platform.errors import UnusableAccountError
from seller_platform.warehouse.connections.accounts import KnownAccount


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
