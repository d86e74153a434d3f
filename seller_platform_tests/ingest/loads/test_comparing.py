"""Tests comparisons of slices with the upstream by value, which may be repaired."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.ingest.loads.comparing import Comparison, ComparisonResult, SliceComparer
from seller_platform.ingest.loads.loading import load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.history.changes import changes_since
from seller_platform.warehouse.loads.holds import READINGS_TO_BELIEVE
from seller_platform.warehouse.loads.receipts import Receipt, open_holds
from seller_platform.warehouse.monitoring.comparable_slices import comparable_slices
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import api_of
from seller_platform_tests.support.moving_ledger import Installation, installed

HOUR = timedelta(hours=1)
CONTENT = "posted_date, transaction_type, sku, description, amount, currency, local_day"
EQUAL, DIFFERENT, REPAIRED, HELD, *_ = ComparisonResult
ROW = "ctid = (SELECT min(ctid) FROM seller.transactions WHERE amount < -2)"
CHANGES = {
    "an amount": f"UPDATE seller.transactions SET amount = amount - 1 WHERE {ROW}",
    "a day": f"UPDATE seller.transactions SET local_day = local_day + 1 WHERE {ROW}",
    "an empty value": f"UPDATE seller.transactions SET description = '' WHERE {ROW}",
    "a row that is gone": f"DELETE FROM seller.transactions WHERE {ROW}",
    "rows of another program": "INSERT INTO seller.transactions (posted_date, transaction_type, sku, amount, "
    "local_day, account, load_id, page) SELECT posted_date, 'Fee', 'x', 1, local_day, account, load_id, page "
    "FROM seller.transactions",
}


@pytest.fixture
def installation(database: Database) -> Iterator[Installation]:
    """An account with six months of a ledger, all loaded."""
    with installed(Installation(database, number_of_months=6)) as installation:
        yield installation


def _compare_all(installation: Installation, *, repairs: str | None = None) -> list[Comparison]:
    months = [Window.month_of(month) for month in installation.months]
    slices = comparable_slices(installation.database, [TRANSACTIONS], installation.keys, months, installation.now)
    requests = [SliceRequest(each.dataset, each.account, each.window) for each, _ in slices]
    with api_of(installation.answer) as api:
        comparer = SliceComparer(installation.database, lambda _: api, installation.now, repairs=repairs)
        return list(comparer.compare_each(requests, {requests[-1]}))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_another_program_changed_is_found_and_repaired(installation: Installation, change: str) -> None:
    before = installation.stored(columns=CONTENT)
    installation.database.execute(text(change))
    altered, loads = installation.stored(), installation.stored("platform.loads")

    found = _compare_all(installation)
    left = (installation.stored(), installation.stored("platform.loads"))
    repaired = _compare_all(installation, repairs="Ada")

    assert DIFFERENT in {each.result for each in found}
    assert all(each.listed and bool(each.examples) is (each.result is DIFFERENT) for each in found)
    assert [each.may_have_changed for each in found] == [False] * (len(found) - 1) + [True]
    assert left == (altered, loads)
    assert [each.result for each in repaired] == [REPAIRED if each.result is DIFFERENT else EQUAL for each in found]
    assert installation.stored(columns=CONTENT) == before
    months = [Window.month_of(month) for month in installation.months]
    changes = [changes_since(installation.database, TRANSACTIONS, found[0].account, month) for month in months]
    assert ["for Ada at" in repair for each in changes for repair in each.repairs] == [
        True for each in found if each.result is DIFFERENT
    ]
    assert {each.result for each in _compare_all(installation)} == {EQUAL}


def test_what_the_upstream_loses_is_held_and_published_by_accept(installation: Installation) -> None:
    before, whole = installation.stored(columns=CONTENT), installation.rows
    installation.rows = {slice_: rows[:1] for slice_, rows in whole.items()}

    held = _compare_all(installation, repairs="Ada")
    kept = installation.stored(columns=CONTENT)
    with api_of(installation.answer) as api:
        for each in open_holds(installation.database):
            accept_load(installation.loader(api), each.id)

    assert {each.result for each in held} == {HELD}
    assert kept == before
    assert len(installation.stored(columns=CONTENT)) == len(whole)
    assert {each.result for each in _compare_all(installation)} == {EQUAL}


def test_examples_name_row_field_and_both_values(installation: Installation) -> None:
    sku, amount = installation.database.execute(
        text(f"UPDATE seller.transactions SET amount = amount - 1 WHERE {ROW} RETURNING sku, amount")
    ).one()

    (different,) = [each for each in _compare_all(installation) if each.result is DIFFERENT]

    assert (different.not_stored, different.not_listed) == (1, 1)
    sentences = " ".join(different.examples)
    assert str(sku) in sentences
    assert f"{amount + 1:f}".rstrip("0") in sentences


@pytest.mark.parametrize("ended_by", ["accept", "sync"])
@pytest.mark.parametrize("change", ["amount = amount * -3", "sku = 'x' || sku"])
def test_a_held_comparison_ends_as_the_upstream_has_it(installation: Installation, change: str, ended_by: str) -> None:
    def rows() -> list[tuple[Any, ...]]:
        of_list = text("SELECT local_day, sku, amount FROM seller.transactions ORDER BY 1, 2, 3")
        return [tuple(row) for row in installation.database.execute(of_list)]

    def load(*, by_value: str | None = None) -> Receipt | None:
        request = SliceRequest(TRANSACTIONS, account, month, by_value=by_value)
        (result,) = load_each([request], installation.loader(api), second_reading_seconds=0)
        return result.receipt

    before, (account,), month = rows(), installation.keys, Window.month_of(installation.months[0])
    installation.database.execute(text(f"UPDATE seller.transactions SET {change} WHERE local_day < '{month.end}'"))
    slice_ = (account, month.start)  # what loads have stored before would not be in doubt
    installation.rows[slice_] = [{**row, "amount": round(5 * row["amount"], 2)} for row in installation.rows[slice_]]
    with api_of(installation.answer) as api:
        assert load(by_value="a test") is None
        (held,) = open_holds(installation.database)
        if ended_by == "accept":
            accept_load(installation.loader(api), held.id)
        else:
            for reading in range(2, READINGS_TO_BELIEVE + 1):
                installation.now += 21 * HOUR
                assert (load() is None) is (reading < READINGS_TO_BELIEVE)

    assert open_holds(installation.database) == ()
    assert sorted(rows()) == sorted((day, sku, amount * (5 if day < month.end else 1)) for day, sku, amount in before)
