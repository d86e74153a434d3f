"""Tests how accounts are named beside their keys."""

from seller_platform.contract import Account
from seller_platform.orchestration.account_names import account_metadata, subject_of
from seller_platform.warehouse.connections.accounts import KnownAccount


def known(title: str, country: str | None = "DE", currency: str | None = "EUR", key: str = "de-2") -> KnownAccount:
    return KnownAccount(key, "default", Account(1, title, country, currency, "Europe/Berlin", "DE", "S1"))


def test_names_leave_out_what_an_account_does_not_have() -> None:
    assert known("Shop").label == "Shop, DE, EUR"
    assert known("Shop", None, "EUR").label == "Shop, EUR"
    assert account_metadata(known("", None, "EUR")) == {"currency": "EUR"}


def test_an_unknown_account_is_named_by_its_key() -> None:
    assert subject_of("us-9", None, None) == "us-9"
    assert account_metadata(None) == {}
