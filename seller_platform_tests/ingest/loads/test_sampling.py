"""Tests that months drawn at random are compared value by value, within their share of the requests."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import TRANSACTIONS
from seller_platform.errors import UpstreamError
from seller_platform.ingest.loads.acceptance import accept_load
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.sampling import compare_sample, requests_for_comparisons
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.loads.holds import READINGS_TO_BELIEVE
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.slices import Receipt
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


def _compare(installation: Installation, api: SellerApi | None = None, per_day: int | None = 2400) -> list[SliceResult]:
    loader = SliceLoader(
        installation.database, lambda _: api or api_of(installation.answer), installation.now, adaptive=False
    )
    return list(compare_sample(loader, requests_per_day=per_day, second_reading_seconds=0))


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
    loader = SliceLoader(installation.database, lambda _: api_of(installation.answer), installation.now, adaptive=False)
    one = compare_sample(loader, requests_per_day=4800, second_reading_seconds=0)
    next(one)

    assert _compare(installation, per_day=4800) == []
    list(one)
    installation.now += HOUR
    assert _compare(installation, per_day=4800) != []


@pytest.mark.parametrize("ended_by", ["accept", "sync"])
@pytest.mark.parametrize("change", ["amount = amount * -3", "sku = 'x' || sku"])
def test_a_held_comparison_ends_with_the_rows_of_the_upstream(
    installation: Installation, change: str, ended_by: str
) -> None:
    def rows() -> object:
        of_list = text("SELECT posted_date, sku, amount FROM seller.transactions ORDER BY 1, 2, 3")
        return installation.database.execute(of_list).all()

    def load(*, by_value: str | None = None) -> Receipt | None:
        loader = SliceLoader(installation.database, lambda _: api, installation.now, adaptive=False)
        request = SliceRequest(TRANSACTIONS, account, month, by_value=by_value)
        (result,) = load_each([request], loader, second_reading_seconds=0)
        return result.receipt

    before, (account,), month = rows(), installation.keys, Window.month_of(installation.months[0])
    _execute(installation, f"UPDATE seller.transactions SET {change} WHERE local_day < '{month.end}'")
    with api_of(installation.answer) as api:
        assert load(by_value="a test") is None
        (held,) = open_holds(installation.database)
        if ended_by == "accept":
            accept_load(SliceLoader(installation.database, lambda _: api, installation.now, adaptive=False), held.id)
        else:
            for reading in range(2, READINGS_TO_BELIEVE + 1):
                installation.now += 21 * HOUR
                assert (load() is None) is (reading < READINGS_TO_BELIEVE)

    assert open_holds(installation.database) == ()
    assert rows() == before
