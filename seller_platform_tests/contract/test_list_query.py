"""Tests that a page's query has the account, days, page and page size."""

from dataclasses import replace
from datetime import date

import pytest

from seller_platform.contract import Account, Window, dataset_named
from seller_platform.contract.list_query import ListQuery

ACCOUNT = Account(7, "Tea", "DE", "EUR", "Europe/Berlin", "M1", "S1")
MARCH = Window.month_of(date(2026, 3, 1))


def test_parameters_are_sent_in_one_order() -> None:
    query = ListQuery(dataset_named("orders"), ACCOUNT, MARCH, "platform", page=3)

    assert list(query.params.items()) == [
        ("seller_id", "S1"),
        ("marketplace_id", "M1"),
        ("start_date", "2026-03-01"),
        ("end_date", "2026-03-31"),
        ("per_page", "2000"),
        ("sales_channel", "platform"),
        ("page", "3"),
    ]


@pytest.mark.parametrize(("name", "size"), [("orders", 2000), ("notifications", 100), ("accounts", None)])
def test_a_page_is_as_large_as_the_list_allows(name: str, size: int | None) -> None:
    assert ListQuery(dataset_named(name), ACCOUNT).page_size == size


def test_a_page_may_be_smaller() -> None:
    query = replace(ListQuery(dataset_named("orders"), ACCOUNT, MARCH), per_page=250)

    assert (query.page_size, query.params["per_page"]) == (250, "250")
