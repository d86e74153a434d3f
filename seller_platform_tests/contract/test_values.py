"""Tests datasets, windows as half-open ranges of days, keys of accounts as legal tags, and verdicts on counts."""

import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seller_platform.contract import DATASETS, Account, Dataset, Window, account_key, dataset_named
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CountVerdict

_DAYS = st.dates(date(1990, 1, 1), date(2090, 1, 1))
_WINDOWS = st.builds(lambda start, days: Window(start, start + timedelta(days=days)), _DAYS, st.integers(0, 800))


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="before its start"):
        Window(date(2026, 3, 2), date(2026, 3, 1))


def test_a_month_ends_where_the_next_begins() -> None:
    assert Window.month_of(date(2024, 2, 29)) == Window(date(2024, 2, 1), date(2024, 3, 1))
    assert Window.month_of(date(2026, 12, 31)).end == date(2027, 1, 1)
    assert str(Window.month_of(date(2026, 2, 5))) == "2026-02-01..2026-02-28"


@given(_WINDOWS, st.integers(1, 40))
def test_parts_add_up_to_the_whole(window: Window, days: int) -> None:
    for parts in (list(window.split(days)), list(window.months())):
        assert [day for part in parts for day in part.each_day()] == list(window.each_day())
        assert not any(part.is_empty for part in parts)


@given(_WINDOWS)
def test_months_do_not_cross_borders(window: Window) -> None:
    for part in window.months():
        assert part.start.replace(day=1) == part.last_day.replace(day=1)


@given(_WINDOWS, _DAYS)
def test_until_and_since_cut_a_window_in_two(window: Window, day: date) -> None:
    assert [*window.until(day).each_day(), *window.since(day).each_day()] == list(window.each_day())
    assert (day in window) == (window.start <= day < window.end)


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


def test_a_mismatch_is_the_worst_verdict_and_a_match_the_best() -> None:
    match, mismatch, unverifiable = CountVerdict.MATCH, CountVerdict.MISMATCH, CountVerdict.UNVERIFIABLE

    assert CountVerdict.worst({match, unverifiable, mismatch}) is mismatch
    assert CountVerdict.worst({match, unverifiable}) is unverifiable
    assert CountVerdict.worst({match}) is match


_EVERY = pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)


def test_names_paths_and_columns_are_unique() -> None:
    assert len({dataset.name for dataset in DATASETS}) == len(DATASETS)


@_EVERY
def test_every_column_has_a_sentence_and_a_name_of_its_own(dataset: Dataset) -> None:
    columns = [*dataset.columns, *dataset.tags]
    names = [name for column in columns for name in (column.name, *column.aliases)]

    assert len(names) == len(set(names))
    for text in [dataset.doc, *(column.doc for column in columns)]:
        assert re.fullmatch(r"\S.*[.]", text, re.DOTALL), text


def test_an_unknown_dataset_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no dataset 'order'; the datasets are accounts, orders"):
        dataset_named("order")


ACCOUNT = Account(7, "Tea", "DE", "EUR", "Europe/Berlin", "M1", "S1")


@pytest.mark.parametrize(("name", "size"), [("orders", 2000), ("notifications", 100), ("accounts", None)])
def test_a_page_is_as_large_as_the_list_allows(name: str, size: int | None) -> None:
    assert ListQuery(dataset_named(name), ACCOUNT).page_size == size
