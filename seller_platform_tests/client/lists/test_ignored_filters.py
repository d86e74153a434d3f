"""Tests that no row is stored once for each value of a filter that the upstream ignores, whatever happens meanwhile."""

from collections.abc import Callable
from typing import Any

import pytest

from seller_platform.contract import dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform_tests.support.http_upstream import KeptRows, MovingList, day_of_order, orders, read

ORDERS, DAILY = dataset_named("orders"), dataset_named("daily_product_sales")

Rows = list[dict[str, Any]]


def _sales(count: int) -> Rows:
    return [{"date": "2026-03-01", "sku": f"SKU-{number}", "units_ordered": 1} for number in range(count)]


@pytest.mark.parametrize("request_number", [1, 2, 3])
@pytest.mark.parametrize("change", [lambda rows: rows[:-1], lambda rows: rows * 2])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_false_page_of_an_ignored_filter_doubles_no_order(
    count: int, change: Callable[[Rows], Rows], request_number: int
) -> None:
    upstream, sink = MovingList(orders(count), day_of=day_of_order), KeptRows()
    upstream.change = lambda page, _: (
        page | ({"data": change(page["data"])} if len(upstream.requests) == request_number else {})
    )

    reading = read(upstream, ORDERS, sink)

    assert (sink.tags, reading.verdict) == ({(None,): count}, CountVerdict.MATCH)
    assert reading.requests <= 9


def test_a_list_that_shrinks_while_its_filter_is_ignored_is_not_doubled() -> None:
    upstream, sink = MovingList(orders(2), day_of=day_of_order), KeptRows()
    upstream.before_request = lambda number: upstream.rows.pop() if number == 2 else None

    reading = read(upstream, ORDERS, sink)

    assert (sink.tags, reading.verdict) == ({(None,): 1}, CountVerdict.MATCH)


def test_a_list_that_changes_in_each_reading_is_read_in_smaller_windows() -> None:
    upstream, sink = MovingList(orders(600, minutes=1), day_of=day_of_order, page_size=250), KeptRows()
    upstream.before_request = lambda number: number < 40 and upstream.rows[0].update(product_name=str(number))

    reading = read(upstream, ORDERS, sink)

    assert (sink.tags, reading.verdict) == ({(None,): 600}, CountVerdict.MATCH)
    assert {asked["end_date"] for asked in upstream.requests} > {"2026-03-31"}


@pytest.mark.parametrize("count", [2, 700])
@pytest.mark.parametrize("request_number", [2, 3])
def test_merged_sales_that_change_are_not_doubled_by_an_ignored_filter(request_number: int, count: int) -> None:
    upstream, sink = MovingList(_sales(count), day_of=lambda row: row["date"]), KeptRows()
    upstream.before_request = lambda number: upstream.rows[1].update(units_ordered=2 if number >= request_number else 1)

    reading = read(upstream, DAILY, sink)

    assert (sink.tags, reading.verdict) == ({(None,): count}, CountVerdict.MATCH)


def test_merged_sales_without_totals_are_not_doubled_by_an_ignored_filter() -> None:
    upstream, sink = MovingList(_sales(7), day_of=lambda row: row["date"], envelope=("per_page",)), KeptRows()

    reading = read(upstream, DAILY, sink)

    assert (sink.tags, reading.requests) == ({(None,): 7}, 5)


def test_an_order_that_disappears_does_not_cost_the_tags_of_equal_channels() -> None:
    rows = orders(2)
    first = rows[0]["platform_order_id"]
    upstream = MovingList(
        rows,
        day_of=day_of_order,
        channel_of=lambda row: "platform" if row["platform_order_id"] == first else "non-platform",
        envelope=("per_page",),
    )
    upstream.before_request = lambda number: upstream.rows.pop() if number == 4 else None
    sink = KeptRows()

    reading = read(upstream, ORDERS, sink)

    assert sink.tags == {("platform",): 1, ("non-platform",): 1}
    assert reading.requests == 5
