"""Tests the date view of the statistics without dates: it is asked for day by day."""

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import httpx
import pytest

from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ContractViolationError
from seller_platform_tests.support.http_upstream import BERLIN, KeptRows, api_of

BY_DATE, LEDGER = dataset_named("sales_by_date"), dataset_named("transactions")
WEEK = Window(date(2026, 3, 1), date(2026, 3, 8))
QUIET = date(2026, 3, 4)
"""A day without sales, which has no row."""


def _row(day: date) -> dict[str, Any]:
    return {"units_ordered": day.day, "profit": "1,000.5"}


def _upstream(rows_of: Callable[[date], list[dict[str, Any]]]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        start, end = (date.fromisoformat(request.url.params[name]) for name in ("start_date", "end_date"))
        days = (start + timedelta(days=offset) for offset in range((end - start).days + 1))
        rows = [row for day in days if day != QUIET for row in rows_of(day)]
        return httpx.Response(200, json={"data": rows, "total": len(rows), "per_page": 500, "last_page": 1})

    return answer


def _read(upstream: Any, sink: KeptRows, *, dataset: Dataset = BY_DATE) -> LoadFacts:
    with api_of(upstream) as api:
        return read_slice(api, dataset, BERLIN, WEEK, None, sink)


@pytest.mark.parametrize("dated", [0, 3], ids=["no row has its date", "some rows have it"])
def test_days_without_a_date_are_asked_for_one_by_one(dated: int) -> None:
    sink = KeptRows()

    reading = _read(_upstream(lambda day: [_row(day) | ({"date": str(day)} if day.day <= dated else {})]), sink)

    placed = [(row[0], row[1], row[-1]) for row in sink.rows]
    assert placed == [(f"2026-03-0{day}", day, f"2026-03-0{day}") for day in (1, 2, 3, 5, 6, 7)]
    assert (reading.requests, reading.announced, reading.verdict) == (1 + 7, 6, CountVerdict.MATCH)
    assert reading.notes == {"asked_by_day": 7}


def test_days_with_their_date_cost_one_request() -> None:
    sink = KeptRows()

    reading = _read(_upstream(lambda day: [_row(day) | {"date": str(day)}]), sink)

    assert (sink.count, reading.requests, reading.notes) == (6, 1, {})


@pytest.mark.parametrize(
    ("rows_of", "problem"),
    [
        (lambda day: [_row(day), _row(day)], "2026-03-01 has 2 rows, but a day has one"),
        (
            lambda day: [_row(day) | ({"date": "2026-03-09"} if day.day == 2 else {})],
            "date is 2026-03-09 in the row of 2026-03-02 that was asked for",
        ),
    ],
)
def test_a_day_that_cannot_be_placed_even_so_is_refused(
    rows_of: Callable[[date], list[dict[str, Any]]], problem: str
) -> None:
    with pytest.raises(ContractViolationError, match=problem):
        _read(_upstream(rows_of), KeptRows())


def test_rows_of_a_list_that_is_not_computed_need_their_day() -> None:
    with pytest.raises(ContractViolationError, match="row 1 of the page: posted_date is missing or null"):
        _read(_upstream(lambda day: [{"sku": "A"}]), KeptRows(), dataset=LEDGER)
