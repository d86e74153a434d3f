"""Tests how large pages of a list are."""

import pytest

from seller_platform.contract import Account, dataset_named
from seller_platform.contract.list_query import ListQuery

ACCOUNT = Account(7, "Tea", "DE", "EUR", "Europe/Berlin", "M1", "S1")


@pytest.mark.parametrize(("name", "size"), [("orders", 2000), ("notifications", 100), ("accounts", None)])
def test_a_page_is_as_large_as_the_list_allows(name: str, size: int | None) -> None:
    assert ListQuery(dataset_named(name), ACCOUNT).page_size == size
