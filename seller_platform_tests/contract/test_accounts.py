"""Tests that account keys are valid partition keys and tag values for any title."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seller_platform.contract import Account, account_key


@pytest.mark.parametrize(
    ("country", "connection", "key"),
    [
        ("US", "default", "us-1042"),
        ("de", "default", "de-1042"),
        (None, "default", "xx-1042"),
        ("", "default", "xx-1042"),
        ("USA", "default", "xx-1042"),
        ("Ü1", "default", "xx-1042"),
        ("US", "europe", "us-1042.europe"),
        (None, "a|b,c/d...e", "xx-1042.a_b_c_d___e"),
    ],
)
def test_a_key_is_country_and_number_and_the_connection(country: str | None, connection: str, key: str) -> None:
    assert account_key(Account(1042, "Shop", country, None, "", None, None), connection) == key


@given(st.integers(-(2**63), 2**63 - 1), st.text(), st.text(min_size=1))
@pytest.mark.slow
def test_a_key_is_always_a_legal_tag(number: int, country: str, connection: str) -> None:
    key = account_key(Account(number, "Shop", country, None, "", None, None), connection)

    assert re.fullmatch(r"[A-Za-z0-9_.-]{1,63}", key)


def test_an_account_is_selected_by_exactly_one_method() -> None:
    account = Account(7, "Shop", "US", "USD", "UTC", "US-1", "A1")
    nameless = Account(7, "Shop", "US", "USD", "UTC", None, "A1")

    assert account.selection == {"seller_id": "A1", "marketplace_id": "US-1"}
    assert nameless.selection == {"account_title": "Shop"}
