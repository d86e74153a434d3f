"""Tests the rules for every declared dataset, and how large the pages of its list are."""

import re

import pytest

from seller_platform.contract import DATASETS, Account, Dataset, dataset_named
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


def test_an_unknown_dataset_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no dataset 'order'; the datasets are accounts, orders"):
        dataset_named("order")


ACCOUNT = Account(7, "Tea", "DE", "EUR", "Europe/Berlin", "M1", "S1")


@pytest.mark.parametrize(("name", "size"), [("orders", 2000), ("notifications", 100), ("accounts", None)])
def test_a_page_is_as_large_as_the_list_allows(name: str, size: int | None) -> None:
    assert ListQuery(dataset_named(name), ACCOUNT).page_size == size
