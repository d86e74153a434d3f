"""Tests comparisons of slices that are drawn at random."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.errors import UpstreamError
from seller_platform.ingest.loads.loading import SliceResult
from seller_platform.sampling.comparing import compare_sample, requests_for_comparisons
from seller_platform.sampling.draws import Stratum, requests_of_comparisons, sample
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import api_of
from seller_platform_tests.support.moving_ledger import Installation, installed

HOUR = timedelta(hours=1)
CONTENT = "posted_date, transaction_type, sku, description, amount, currency, local_day"


@pytest.fixture
def installation(database: Database) -> Iterator[Installation]:
    """An account with six months of a ledger, all loaded."""
    with installed(Installation(database, number_of_months=6)) as installation:
        yield installation


def _compare(installation: Installation, api: SellerApi | None = None, per_day: int | None = 2400) -> list[SliceResult]:
    return list(compare_sample(installation.loader(api), requests_per_day=per_day, second_reading_seconds=0))


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
    one = compare_sample(
        installation.loader(api_of(installation.answer)), requests_per_day=4800, second_reading_seconds=0
    )
    next(one)

    assert _compare(installation, per_day=4800) == []
    list(one)
    installation.now += HOUR
    assert _compare(installation, per_day=4800) != []


def test_a_comparison_at_random_repairs_what_another_program_changed(installation: Installation) -> None:
    before = installation.stored(columns=CONTENT)
    _execute(installation, "UPDATE seller.transactions SET amount = amount * -3")

    results = _all_hours(installation, 24 * 3)

    assert installation.stored(columns=CONTENT) == before
    changed = [each.receipt for each in results if each.receipt is not None and each.receipt.changed]
    assert {(each.notes or {})["repaired"]["by"] for each in changed} == {"a comparison at random"}
