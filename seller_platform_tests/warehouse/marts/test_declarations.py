"""Tests the declarations of marts: documentation, and existing origins of columns."""

import pytest

from seller_platform.warehouse.marts import MARTS, Mart
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import stored

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


@_EVERY_MART
def test_every_input_is_in_the_lineage_of_a_column(mart: Mart) -> None:
    used = {of.partition(".")[0] for column in mart.columns for of in column.of}

    assert used == {each.dataset.name for each in mart.inputs}


@_EVERY_MART
def test_every_mart_has_checks_of_its_own_beside_the_keys(mart: Mart) -> None:
    names = [check.name for check in mart.all_checks]

    assert names[:3] == ["keys_are_unique", "sums_agree_with_the_inputs", "values_are_possible"]
    assert len(set(names)) == len(names)
    assert mart.key
    assert all(check.doc.endswith(".") for check in mart.all_checks)


def test_every_mart_has_a_table_and_every_column_a_comment(database: Database) -> None:
    tables = stored(database, "SELECT tablename FROM pg_tables WHERE schemaname = 'marts'")
    uncommented = (
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'marts' "
        "AND col_description((table_schema || '.' || table_name)::regclass, ordinal_position) IS NULL"
    )

    assert {name for (name,) in tables} == {mart.name for mart in MARTS}
    assert stored(database, uncommented) == []
