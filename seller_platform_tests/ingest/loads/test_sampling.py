"""Tests comparisons of slices with the upstream by value: of all, which may be repaired, and of some at random."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import UpstreamError
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.ingest.loads.comparing import Comparison, ComparisonResult, SliceComparer
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.sampling import compare_sample, requests_for_comparisons
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.history.changes import changes_since
from seller_platform.warehouse.loads.holds import READINGS_TO_BELIEVE
from seller_platform.warehouse.loads.receipts import Receipt, open_holds
from seller_platform.warehouse.monitoring.comparable_slices import comparable_slices
from seller_platform.warehouse.monitoring.sampling import Stratum, requests_of_comparisons, sample
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.figures.sampling import Installation, installed
from seller_platform_tests.support.http_upstream import api_of

HOUR = timedelta(hours=1)


@pytest.fixture
def installation(database: Database) -> Iterator[Installation]:
    """An account with six months of a ledger, all loaded."""
    with installed(database, accounts=1, number_of_months=6) as installation:
        yield installation


def _loader(installation: Installation, api: SellerApi | None = None) -> SliceLoader:
    with_api = api or api_of(installation.answer)
    return SliceLoader(installation.database, lambda _: with_api, installation.now, adaptive=False)


def _compare(installation: Installation, api: SellerApi | None = None, per_day: int | None = 2400) -> list[SliceResult]:
    return list(compare_sample(_loader(installation, api), requests_per_day=per_day, second_reading_seconds=0))


def _execute(installation: Installation, statement: str) -> int:
    with installation.database.begin() as connection:
        return connection.execute(text(statement)).rowcount


def _all_hours(installation: Installation, hours: int, per_day: int | None = 2400) -> list[SliceResult]:
    results = []
    for _ in range(hours):
        results += _compare(installation, per_day=per_day)
        installation.now += HOUR
    return results


def test_what_is_equal_is_not_written(installation: Installation) -> None:
    def rows() -> object:
        return installation.database.execute(
            text("SELECT account, ctid, xmin, load_id, row_hash FROM seller.transactions ORDER BY 1, 2")
        ).all()

    before = rows()
    results = _all_hours(installation, 24)

    assert [each.receipt.changed for each in results if each.receipt is not None] == [False] * 24
    assert rows() == before
    settled = sample(installation.database, installation.now).strata[Stratum.SETTLED]
    assert (settled.comparisons, settled.different, settled.slices) == (24, 0, 6)


def test_the_requests_of_a_day_are_spent_hour_by_hour(installation: Installation) -> None:
    spent = []
    for hour in range(25):
        installation.now = installation.now.replace(hour=0, minute=5) + hour * HOUR if hour == 0 else installation.now
        spent.append(sum(each.receipt.requests for each in _compare(installation, per_day=1200) if each.receipt))
        installation.now += HOUR

    assert sum(spent[:24]) == requests_for_comparisons(1200) == 12
    assert max(spent[:24]) == 1
    assert spent[24] == 0  # the first hour of the next day has half a request


def test_what_does_not_fit_yet_waits_for_the_next_hours(installation: Installation) -> None:
    _execute(installation, "UPDATE platform.loads SET requests = 3")
    results = []
    for _ in range(6):
        results.append(_compare(installation, per_day=1200))  # half a request an hour
        installation.now += HOUR

    _execute(installation, "DELETE FROM platform.comparisons")
    first, *_ = _compare(installation)

    assert [len(each) for each in results[:-1]] == [0] * 5
    assert results[-1][0].request == first.request


def test_few_requests_a_day_compare_nothing(installation: Installation) -> None:
    assert _all_hours(installation, 24, per_day=99) == []


def test_an_upstream_that_is_away_is_asked_for_three_slices_an_hour(installation: Installation) -> None:
    away = api_of(lambda _: httpx.Response(400, json={"error": "no"}))

    results = _compare(installation, away, per_day=240_000)
    later = _compare(installation, away, per_day=240_000)

    assert [isinstance(each.error, UpstreamError) for each in results] == [True] * 3
    assert {each.request for each in later} != {each.request for each in results}
    assert sample(installation.database, installation.now).strata[Stratum.SETTLED].comparisons == 0
    assert requests_of_comparisons(installation.database, installation.now.date()) == {"default": 6}
    assert _execute(installation, "SELECT 1 FROM platform.slices WHERE error IS NOT NULL") == 0


def test_two_processes_do_not_compare_at_once(installation: Installation) -> None:
    one = compare_sample(_loader(installation), requests_per_day=4800, second_reading_seconds=0)
    next(one)

    assert _compare(installation, per_day=4800) == []
    list(one)
    installation.now += HOUR
    assert _compare(installation, per_day=4800) != []


@pytest.mark.parametrize("ended_by", ["accept", "sync"])
@pytest.mark.parametrize("change", ["amount = amount * -3", "sku = 'x' || sku"])
def test_a_held_comparison_ends_as_the_upstream_has_it(installation: Installation, change: str, ended_by: str) -> None:
    def rows() -> list[tuple[Any, ...]]:
        of_list = text("SELECT local_day, sku, amount FROM seller.transactions ORDER BY 1, 2, 3")
        return [tuple(row) for row in installation.database.execute(of_list)]

    def load(*, by_value: str | None = None) -> Receipt | None:
        request = SliceRequest(TRANSACTIONS, account, month, by_value=by_value)
        (result,) = load_each([request], _loader(installation, api), second_reading_seconds=0)
        return result.receipt

    before, (account,), month = rows(), installation.keys, Window.month_of(installation.months[0])
    _execute(installation, f"UPDATE seller.transactions SET {change} WHERE local_day < '{month.end}'")
    slice_ = (account, month.start)  # what loads have stored before would not be in doubt
    installation.rows[slice_] = [{**row, "amount": round(5 * row["amount"], 2)} for row in installation.rows[slice_]]
    with api_of(installation.answer) as api:
        assert load(by_value="a test") is None
        (held,) = open_holds(installation.database)
        if ended_by == "accept":
            accept_load(_loader(installation, api), held.id)
        else:
            for reading in range(2, READINGS_TO_BELIEVE + 1):
                installation.now += 21 * HOUR
                assert (load() is None) is (reading < READINGS_TO_BELIEVE)

    assert open_holds(installation.database) == ()
    assert sorted(rows()) == sorted((day, sku, amount * (5 if day < month.end else 1)) for day, sku, amount in before)


def test_a_comparison_at_random_repairs_what_another_program_changed(installation: Installation) -> None:
    before = _content(installation)
    _execute(installation, "UPDATE seller.transactions SET amount = amount * -3")

    results = _all_hours(installation, 24 * 3)

    assert _content(installation) == before
    changed = [each.receipt for each in results if each.receipt is not None and each.receipt.changed]
    assert {(each.notes or {})["repaired"]["by"] for each in changed} == {"a comparison at random"}


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


def _compare_all(installation: Installation, *, repairs: str | None = None) -> list[Comparison]:
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

    found = _compare_all(installation)
    left = (_stored(installation), _stored(installation, "platform.loads"))
    repaired = _compare_all(installation, repairs="Ada")

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
    assert {each.result for each in _compare_all(installation)} == {EQUAL}


def test_what_the_upstream_loses_is_held_and_published_by_accept(installation: Installation) -> None:
    before, whole = _content(installation), installation.rows
    installation.rows = {slice_: rows[:1] for slice_, rows in whole.items()}

    held = _compare_all(installation, repairs="Ada")
    kept = _content(installation)
    with api_of(installation.answer) as api:
        for each in open_holds(installation.database):
            accept_load(_loader(installation, api), each.id)

    assert {each.result for each in held} == {HELD}
    assert kept == before
    assert len(_content(installation)) == len(whole)
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
