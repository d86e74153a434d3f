"""Tests that rows without their key are stored and kept as former rows."""

from datetime import UTC, date, datetime

import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, Dataset, Kind, Slicing, Source, Window
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.warehouse.loads.slices import Slice, open_load
from seller_platform.warehouse.postgres.database import Database

ACCOUNT, DAY = "de-2", date(2026, 3, 1)
# The keys of reports are numbers of our own, and accounts without a number are refused.
KEYED = [
    each
    for each in DATASETS
    if each.key and each.source is not Source.REPORT and each.slicing is not Slicing.CONNECTION
]


def _load(database: Database, dataset: Dataset, rows: int) -> None:
    day_of = {Kind.TIMESTAMP: f"{DAY}T12:00:00+01:00", Kind.DATE: str(DAY)}
    row = [day_of[column.kind] if column.name == dataset.day else None for column in dataset.columns]
    with open_load(database, Slice(dataset, ACCOUNT, Window.day(DAY))) as load:
        load.spool.write([(*row, str(DAY))] * rows, tags=("platform",) if dataset.tags else (), page=1)
        load.store(LoadFacts(1, 1, 0, rows, CountVerdict.MATCH), started_at=datetime.now(UTC))


@pytest.mark.parametrize("dataset", KEYED, ids=lambda dataset: dataset.name)
def test_rows_without_their_key_are_stored_and_become_former_rows(database: Database, dataset: Dataset) -> None:
    for rows in (2, 1):
        _load(database, dataset, rows)

    counts = [
        database.execute(text(f"SELECT count(*) FROM {schema}.{dataset.name}")).scalar_one()
        for schema in ("seller", "history")
    ]
    assert counts == [1, 1]
