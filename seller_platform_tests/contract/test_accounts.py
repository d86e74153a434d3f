"""Tests that account keys are valid partition keys and tag values for any title."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seller_platform.contract import Account, account_key


@pytest.mark.parametrize(
    ("seller", "marketplace", "key"),
    [
        ("A1B2", "US-1", "A1B2.US-1"),
        ("A1", "shop.example", "A1.shop.example"),
        ("A.1", "US", "account-7"),
        ("A|1", "US", "account-7"),
        ("A1", "U,S", "account-7"),
        ("A1", "x...y", "account-7"),
        ("", "US", "account-7"),
        (None, "US", "account-7"),
        ("A1", None, "account-7"),
        ("A" * 40, "M" * 22, "A" * 40 + "." + "M" * 22),
        ("A" * 40, "M" * 23, "account-7"),
    ],
)
def test_the_key_is_the_selector_where_it_may_be(seller: str | None, marketplace: str | None, key: str) -> None:
    assert account_key(7, seller, marketplace) == key


@given(st.text(), st.text())
@pytest.mark.slow
def test_a_key_is_always_a_legal_tag(seller: str, marketplace: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", account_key(12, seller, marketplace))


def test_an_account_is_selected_by_exactly_one_method() -> None:
    account = Account(7, "Shop", "US", "USD", "UTC", "US-1", "A1")
    nameless = Account(7, "Shop", "US", "USD", "UTC", None, "A1")

    assert account.selection == {"seller_id": "A1", "marketplace_id": "US-1"}
    assert nameless.selection == {"account_title": "Shop"}
