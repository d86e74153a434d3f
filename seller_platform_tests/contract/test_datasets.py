"""Tests the rules for every declared dataset, and how large the pages of its list are."""

import re

import pytest

from seller_platform.contract import DATASETS, LISTS, Account, Dataset, Kind, dataset_named
from seller_platform.contract.list_query import ListQuery

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


@_EVERY
def test_order_day_and_currency_name_columns(dataset: Dataset) -> None:
    for name in (*dataset.order, *([dataset.day] if dataset.day else [])):
        assert dataset.column(name)
    for column in dataset.money:
        if column.currency is not None:
            assert dataset.column(column.currency).kind is Kind.TEXT


@_EVERY
def test_a_dated_dataset_places_its_rows_by_a_date_or_a_timestamp(dataset: Dataset) -> None:
    if dataset.day is not None:
        assert dataset.is_dated
        assert dataset.column(dataset.day).kind in (Kind.DATE, Kind.TIMESTAMP)


@pytest.mark.parametrize("dataset", LISTS, ids=lambda dataset: dataset.name)
def test_a_list_has_page_sizes_or_a_fixed_one(dataset: Dataset) -> None:
    assert bool(dataset.page_sizes) != bool(dataset.fixed_page_size)


def test_an_unknown_dataset_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no dataset 'order'; the datasets are accounts, orders"):
        dataset_named("order")


ACCOUNT = Account(7, "Tea", "DE", "EUR", "Europe/Berlin", "M1", "S1")


@pytest.mark.parametrize(("name", "size"), [("orders", 2000), ("notifications", 100), ("accounts", None)])
def test_a_page_is_as_large_as_the_list_allows(name: str, size: int | None) -> None:
    assert ListQuery(dataset_named(name), ACCOUNT).page_size == size
