"""Tests that a total that is wrong by one costs few requests and no rows."""

from collections.abc import Callable
from typing import Any

import pytest

from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform_tests.support.http_upstream import KeptRows, MovingList, day_of_order, ledger, orders, read, stock

ORDERS, STOCK, LEDGER = (dataset_named(name) for name in ("orders", "warehouse_stock", "transactions"))


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


def test_a_page_that_is_not_full_is_not_taken_for_the_last() -> None:
    upstream, sink = _ledger(40, minutes=5, page_size=10), KeptRows()
    # It echoes the page size that was asked for, and sends pages of ten.
    upstream.change = lambda page, asked: page | {"per_page": 2000, "last_page": None}

    reading = read(upstream, LEDGER, sink)

    assert (sink.count, reading.verdict) == (40, CountVerdict.MATCH)
