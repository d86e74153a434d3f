"""Tests that wrong totals and filters that are ignored cost few requests, and neither lose nor double a row."""

from collections.abc import Callable
from typing import Any

import pytest

from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform_tests.support.http_upstream import KeptRows, MovingList, day_of_order, ledger, orders, read, stock

ORDERS, DAILY, STOCK, LEDGER = map(dataset_named, ("orders", "daily_product_sales", "warehouse_stock", "transactions"))


def _channel(row: dict[str, Any]) -> str:
    return "platform" if int(row["platform_order_id"][-1]) % 3 else "non-platform"


def _orders(count: int, **options: Any) -> MovingList:
    return MovingList(orders(count), day_of=day_of_order, **options)


def _ledger(count: int, *, minutes: int, **options: Any) -> MovingList:
    return ledger(orders(count, minutes=minutes), **options)


LISTS: dict[str, tuple[Dataset, Callable[[], MovingList]]] = {
    "one page": (LEDGER, lambda: _ledger(5, minutes=10)),
    "windows of one page": (LEDGER, lambda: _ledger(1200, minutes=30, page_size=500)),
    "several pages of one day": (LEDGER, lambda: _ledger(1200, minutes=1, page_size=500)),
    "undated, one page": (STOCK, lambda: MovingList(stock(45))),
    "undated, full pages": (STOCK, lambda: MovingList(stock(4000))),
    "without page sizes": (LEDGER, lambda: _ledger(5, minutes=10, envelope=("total",))),
    "one channel": (ORDERS, lambda: _orders(7, channel_of=lambda row: "platform")),
    "two channels": (ORDERS, lambda: _orders(300, channel_of=_channel)),
    "two channels in windows": (ORDERS, lambda: _orders(1500, channel_of=_channel, page_size=250)),
    "an ignored filter": (ORDERS, lambda: _orders(7)),
}


def _wrong_by(
    upstream: MovingList, difference: int, *, where: Callable[[Any], bool] = lambda asked: True
) -> MovingList:
    upstream.change = lambda page, asked: page | {"total": max(0, page["total"] + difference * where(asked))}
    return upstream


@pytest.mark.parametrize("difference", [1, -1])
@pytest.mark.parametrize("name", LISTS)
def test_a_total_that_is_wrong_by_one_costs_at_most_three_times_as_much(name: str, difference: int) -> None:
    dataset, make = LISTS[name]
    honest_sink, sink = KeptRows(), KeptRows()
    honest = read(make(), dataset, honest_sink)

    reading = read(_wrong_by(make(), difference), dataset, sink)

    assert reading.requests <= 3 * honest.requests
    assert (sink.digest, sink.tags) == (honest_sink.digest, honest_sink.tags)
    assert (reading.announced, reading.verdict) == (sink.count + difference, CountVerdict.MISMATCH)


@pytest.mark.parametrize("difference", [1, -1])
@pytest.mark.parametrize("is_filtered", [False, True], ids=["the unfiltered list", "the channels"])
def test_channels_keep_their_tags_where_only_some_totals_are_wrong(is_filtered: bool, difference: int) -> None:
    upstream, sink = _orders(20, channel_of=_channel), KeptRows()

    reading = read(
        _wrong_by(upstream, difference, where=lambda asked: ("sales_channel" in asked) is is_filtered), ORDERS, sink
    )

    assert sink.tags == {("platform",): 12, ("non-platform",): 8}
    assert (reading.requests <= 9, reading.verdict) == (True, CountVerdict.MISMATCH)


@pytest.mark.parametrize("difference", [1, -1])
def test_wrong_totals_of_a_filter_that_is_ignored_double_no_rows(difference: int) -> None:
    upstream, sink = _orders(7), KeptRows()

    read(_wrong_by(upstream, difference, where=lambda asked: "sales_channel" in asked), ORDERS, sink)

    assert (sink.count, sink.tags) == (7, {(None,): 7})


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
