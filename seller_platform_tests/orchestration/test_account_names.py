"""Tests how accounts are named beside their keys."""

import re

import pytest

from seller_platform.contract import Account
from seller_platform.orchestration.account_names import account_metadata, name_of, subject_of, title_tags
from seller_platform.warehouse.connections.accounts import KnownAccount


def known(title: str, country: str | None = "DE", currency: str | None = "EUR", key: str = "S1.DE") -> KnownAccount:
    return KnownAccount(key, "default", Account(1, title, country, currency, "Europe/Berlin", "DE", "S1"))


@pytest.mark.parametrize(
    ("account", "tag"),
    [
        (known("Möbel & Söhne [EU]"), "Mobel_Sohne_EU.DE.EUR"),
        (known("  Shop ", None, None), "Shop"),
        (known("株式会社"), "S1_DE.DE.EUR"),
        (known("a long title " * 9), "a_long_title_a_long_title_a_long_title_a_long_title_a_lo.DE.EUR"),
    ],
)
def test_the_tag_of_a_title_has_only_characters_that_dagster_allows(account: KnownAccount, tag: str) -> None:
    (value,) = title_tags(account).values()

    assert value == tag
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", value)


def test_names_leave_out_what_an_account_does_not_have() -> None:
    assert name_of(known("Shop")) == "Shop, DE, EUR"
    assert name_of(known("Shop", None, "EUR")) == "Shop, EUR"
    assert account_metadata(known("", None, "EUR")) == {"currency": "EUR"}


def test_an_unknown_account_is_named_by_its_key() -> None:
    assert subject_of("S9.US", None, None) == "S9.US"
    assert (account_metadata(None), title_tags(None)) == ({}, {})
