"""Tests the declarations of marts: documentation, and existing origins of columns."""

import pytest

from seller_platform.warehouse.marts import MARTS, Mart

_EVERY_MART = pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)


@_EVERY_MART
def test_every_column_has_a_sentence_and_comes_from_columns_that_exist(mart: Mart) -> None:
    datasets = {each.dataset.name: each.dataset for each in mart.inputs}

    for column in mart.columns:
        assert column.doc.endswith("."), column.name
        for of in column.of:
            dataset, _, name = of.partition(".")
            assert dataset in datasets, f"{column.name} is computed from {of}, which is not among the inputs"
            datasets[dataset].column(name)
