"""Tests the result of reading lists, and what page 1 says about a list."""

from typing import Any

import pytest

from seller_platform.client.decoding.pages import Page
from seller_platform.client.lists.pagination import ReadResult, _Record, holds_the_list, is_short
from seller_platform.contract import Account, dataset_named
from seller_platform.contract.list_query import ListQuery

ORDERS = dataset_named("orders")
QUERY = ListQuery(ORDERS, Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S1"))


def _page(*numbers: int, **envelope: Any) -> Page:
    """Return a page of rows that differ in these numbers."""
    return Page([(number,) * (len(ORDERS.columns) + 1) for number in numbers], **envelope)


def test_lists_of_which_one_announces_no_total_have_none_together() -> None:
    announced, silent = ReadResult(2, 2, ("a doubt",), 1), ReadResult(3, None, ("another",))

    assert announced + silent == ReadResult(5, None, ("a doubt", "another"), 1)
    assert silent + announced == ReadResult(5, None, ("another", "a doubt"), 1)
    assert announced + announced == ReadResult(4, 4, ("a doubt", "a doubt"), 2)


@pytest.mark.parametrize(
    ("first", "is_whole"),
    [
        (_page(1, 2, total=2), True),
        (_page(1, 2, total=3), False),
        (_page(1, 2, total=1), False),
        (_page(total=0), True),
        (_page(1, 2, per_page=20), True),
        (_page(1, 2, per_page=20, last_page=1), True),
        (_page(1, 2, per_page=20, last_page=2), False),
        (_page(1, 2, per_page=2), False),
        (_page(1, 2), False),
        (_page(), True),
    ],
)
def test_page_1_is_the_whole_list_where_its_envelope_says_so(first: Page, is_whole: bool) -> None:
    assert holds_the_list(first) is is_whole


def test_a_page_is_short_with_fewer_rows_than_any_full_page() -> None:
    least = min(ORDERS.page_sizes)

    assert [is_short(_page(*range(rows)), QUERY) for rows in (least - 1, least)] == [True, False]
    assert [is_short(_page(*range(rows), per_page=20), QUERY) for rows in (19, 20)] == [True, False]


@pytest.mark.parametrize(
    ("totals", "doubts"),
    [
        ((10, 10, 10), ["page 3 repeats an earlier one"]),
        ((10, 11, 11), ["page 3 repeats an earlier one", "the total went from 10 to 11"]),
        ((None, None, None), []),
    ],
)
def test_rows_on_two_pages_are_a_doubt_and_those_within_a_page_are_counted(
    totals: tuple[int | None, ...], doubts: list[str]
) -> None:
    rows = ((1, 2, 2, 3), (3, 4, 5, 6, 6, 6), (1, 2, 2, 3))
    pages = [_page(*numbers, total=total) for numbers, total in zip(rows, totals, strict=True)]
    record = _Record(ORDERS, {})

    are_new = [record.is_new(page) for page in pages]
    result = record.result(QUERY, pages[0])

    assert are_new == [True, True, False]
    assert (result.rows, result.announced, result.duplicate_keys) == (10, totals[-1], 4)
    of_several_pages = "a list of several pages is read until two readings agree"
    assert list(result.doubts) == [*doubts, "1 row was on two pages", of_several_pages]


@pytest.mark.parametrize(
    ("total", "doubts"),
    [(1, ("1 row was announced and 2 read",)), (2, ()), (3, ("3 rows were announced and 2 read",))],
)
def test_another_total_of_the_only_page_is_a_doubt_until_it_is_confirmed(total: int, doubts: tuple[str, ...]) -> None:
    first, record = _page(1, 2, total=total), _Record(ORDERS, {})
    record.is_new(first)

    doubted = record.result(QUERY, first).doubts
    record.confirm(is_same=True)

    assert doubted == doubts
    assert record.result(QUERY, first).doubts == ()


def test_without_totals_a_page_that_is_not_full_is_the_last() -> None:
    pages, record, more = [_page(1, 2, 3), _page(4, 5, 6), _page(7), _page(8, last_page=5)], _Record(ORDERS, {}), []
    for page in pages:
        record.is_new(page)
        more.append(record.expects_more(pages[0]))

    assert more == [True, True, False, True]
