"""Tests that rows without their key are stored and kept as former rows."""

from datetime import date

import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, Dataset, Kind, Slicing, Source, Window
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.stored_rows import store_slice

DAY = date(2026, 3, 1)
# The keys of reports are numbers of our own, and accounts without a number are refused.
KEYED = [
    each
    for each in DATASETS
    if each.key and each.source is not Source.REPORT and each.slicing is not Slicing.CONNECTION
]


@pytest.mark.parametrize("dataset", KEYED, ids=lambda dataset: dataset.name)
def test_rows_without_their_key_are_stored_and_become_former_rows(database: Database, dataset: Dataset) -> None:
    day_of = {Kind.TIMESTAMP: f"{DAY}T12:00:00+01:00", Kind.DATE: str(DAY)}
    row = [day_of[column.kind] if column.name == dataset.day else None for column in dataset.columns]
    for rows in (2, 1):
        store_slice(database, dataset, Window.day(DAY), [(*row, str(DAY))] * rows)

    counts = [
        database.execute(text(f"SELECT count(*) FROM {schema}.{dataset.name}")).scalar_one()
        for schema in ("seller", "history")
    ]
    assert counts == [1, 1]
