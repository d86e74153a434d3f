"""Tests that stored slices are compared with the upstream by value, and repaired."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.ingest.loads.comparing import Comparison, ComparisonResult, SliceComparer
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.history.changes import changes_since
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.monitoring.comparable_slices import comparable_slices
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.sampling import Installation, installed
from seller_platform_tests.support.http_upstream import api_of

EQUAL, DIFFERENT, REPAIRED, HELD = (
    ComparisonResult.EQUAL,
    ComparisonResult.DIFFERENT,
    ComparisonResult.REPAIRED,
    ComparisonResult.HELD,
)
ROW = "ctid = (SELECT min(ctid) FROM seller.transactions WHERE amount < -2)"
CHANGES = {
    "an amount": f"UPDATE seller.transactions SET amount = amount - 1 WHERE {ROW}",
    "all amounts": "UPDATE seller.transactions SET amount = amount * -3",
    "a day": f"UPDATE seller.transactions SET local_day = local_day + 1 WHERE {ROW}",
    "an empty value": f"UPDATE seller.transactions SET description = '' WHERE {ROW}",
    "a key": "UPDATE seller.transactions SET sku = 'x' || sku",
    "a row that is gone": f"DELETE FROM seller.transactions WHERE {ROW}",
    "all rows": "DELETE FROM seller.transactions",
    "rows of another program": "INSERT INTO seller.transactions (posted_date, transaction_type, sku, amount, "
    "local_day, account, load_id, page) SELECT posted_date, 'Fee', 'x', 1, local_day, account, load_id, page "
    "FROM seller.transactions",
}


@pytest.fixture
def installation(database: Database) -> Iterator[Installation]:
    """An account with two months of a ledger, all loaded."""
    with installed(database, accounts=1, number_of_months=2) as installation:
        yield installation


def _compare(installation: Installation, *, repairs: str | None = None) -> list[Comparison]:
    months = [Window.month_of(month) for month in installation.months]
    slices = comparable_slices(installation.database, [TRANSACTIONS], installation.keys, months, installation.now)
    requests = [SliceRequest(each.dataset, each.account, each.window) for each, _ in slices]
    with api_of(installation.answer) as api:
        comparer = SliceComparer(installation.database, lambda _: api, installation.now, repairs=repairs)
        return list(comparer.compare_each(requests, {requests[-1]}))


def _stored(installation: Installation, table: str = "seller.transactions") -> list[Any]:
    return sorted(map(repr, installation.database.execute(text(f"SELECT * FROM {table}")).all()))


def _content(installation: Installation) -> list[Any]:
    rows = "SELECT posted_date, transaction_type, sku, description, amount, currency, local_day"
    return sorted(map(repr, installation.database.execute(text(f"{rows} FROM seller.transactions")).all()))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_another_program_changed_is_found_and_repaired(installation: Installation, change: str) -> None:
    before = _content(installation)
    installation.database.execute(text(change))
    altered, loads = _stored(installation), _stored(installation, "platform.loads")

    found = _compare(installation)
    left = (_stored(installation), _stored(installation, "platform.loads"))
    repaired = _compare(installation, repairs="Ada")

    assert DIFFERENT in {each.result for each in found}
    assert all(each.listed and bool(each.examples) is (each.result is DIFFERENT) for each in found)
    assert [each.may_have_changed for each in found] == [False] * (len(found) - 1) + [True]
    assert left == (altered, loads)
    assert [each.result for each in repaired] == [REPAIRED if each.result is DIFFERENT else EQUAL for each in found]
    assert _content(installation) == before
    months = [Window.month_of(month) for month in installation.months]
    changes = [changes_since(installation.database, TRANSACTIONS, found[0].account, month) for month in months]
    assert ["for Ada at" in repair for each in changes for repair in each.repairs] == [
        True for each in found if each.result is DIFFERENT
    ]
    assert {each.result for each in _compare(installation)} == {EQUAL}


def test_what_the_upstream_loses_is_held_and_published_by_accept(installation: Installation) -> None:
    before, whole = _content(installation), installation.rows
    installation.rows = {slice_: rows[:1] for slice_, rows in whole.items()}

    held = _compare(installation, repairs="Ada")
    kept = _content(installation)
    with api_of(installation.answer) as api:
        loader = SliceLoader(installation.database, lambda _: api, installation.now, adaptive=False)
        for each in open_holds(installation.database):
            accept_load(loader, each.id)

    assert {each.result for each in held} == {HELD}
    assert kept == before
    assert len(_content(installation)) == len(whole)
    assert {each.result for each in _compare(installation)} == {EQUAL}


def test_examples_name_row_field_and_both_values(installation: Installation) -> None:
    sku, amount = installation.database.execute(
        text(f"UPDATE seller.transactions SET amount = amount - 1 WHERE {ROW} RETURNING sku, amount")
    ).one()

    (different,) = [each for each in _compare(installation) if each.result is DIFFERENT]

    assert (different.not_stored, different.not_listed) == (1, 1)
    sentences = " ".join(different.examples)
    assert str(sku) in sentences
    assert f"{amount + 1:f}".rstrip("0") in sentences
