"""Tests that a list that changes meanwhile is read completely or not at all, and days without a date one by one."""

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import pytest

from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ContractViolationError, UnusableAccountError
from seller_platform_tests.support.http_upstream import (
    BERLIN,
    MARCH,
    KeptRows,
    MovingList,
    api_of,
    day_of_order,
    ledger,
    order,
    orders,
    read,
    stock,
)

ORDERS, STOCK, DAILY = map(dataset_named, ("orders", "warehouse_stock", "daily_product_sales"))
TRANSACTIONS = dataset_named("transactions")
_ASKED = {"start_date": "2026-03-01", "end_date": "2026-03-31"}


def platform_orders(rows: list[dict[str, Any]], **options: Any) -> MovingList:
    return MovingList(rows, day_of=day_of_order, channel_of=lambda row: "platform", **options)


def test_the_request_names_account_days_page_and_page_size() -> None:
    upstream = ledger(orders(3))

    read(upstream, TRANSACTIONS, KeptRows())

    assert upstream.requests == [
        {
            "seller_id": "S1",
            "marketplace_id": "A1PA6795UKMFR9",
            "start_date": "2026-03-01",
            "end_date": "2026-03-31",
            "per_page": "2000",
            "page": "1",
        }
    ]


def test_a_filter_that_is_ignored_is_noticed_and_the_list_read_once() -> None:
    upstream, sink = MovingList(orders(7), day_of=day_of_order), KeptRows()

    reading = read(upstream, ORDERS, sink)

    assert (reading.requests, reading.verdict, sink.tags) == (4, CountVerdict.MATCH, {(None,): 7})
    assert reading.notes["facet_ignored"] == {"unfiltered": 7, "platform": 7, "non-platform": 7}


def test_a_first_row_of_another_channel_is_no_sign_of_an_ignored_filter() -> None:
    rows = orders(2)
    channels = {rows[0]["platform_order_id"]: "platform", rows[1]["platform_order_id"]: "non-platform"}
    upstream = MovingList(rows[:1], day_of=day_of_order, channel_of=lambda row: channels[row["platform_order_id"]])
    upstream.before_request = lambda number: upstream.rows.extend(rows[1:] if number == 2 else [])
    sink = KeptRows()

    reading = read(upstream, ORDERS, sink)

    assert "facet_ignored" not in reading.notes
    assert sink.tags == {("platform",): 1, ("non-platform",): 1}


def test_rows_that_belong_to_no_channel_are_not_lost() -> None:
    upstream = MovingList(
        orders(7),
        day_of=day_of_order,
        channel_of=lambda row: None if row["platform_order_id"] == "O-000002" else "platform",
    )
    sink = KeptRows()

    reading = read(upstream, ORDERS, sink)

    assert (sink.count, sink.tags, reading.verdict) == (7, {(None,): 7}, CountVerdict.MATCH)
    assert reading.notes["facet_ignored"] == {"unfiltered": 7, "platform": 6, "non-platform": 0}


def test_an_order_that_arrives_between_the_totals_does_not_cost_the_tags() -> None:
    upstream, sink = platform_orders(orders(7)), KeptRows()
    late = order("O-late", datetime(2026, 3, 20, tzinfo=UTC))
    upstream.before_request = lambda number: upstream.rows.append(late) if number == 2 else None

    reading = read(upstream, ORDERS, sink)

    assert (sink.count, sink.tags, reading.announced, reading.verdict) == (8, {("platform",): 8}, 8, CountVerdict.MATCH)
    assert reading.notes == {"moved": {"before": 7, "after": 8}}


def test_sums_that_are_wrong_in_two_ways_are_no_filter_that_loses_rows() -> None:
    upstream, rows, sink = platform_orders(orders(7)), orders(9), KeptRows()
    surplus = {1: 8, 4: 8, 5: 9, 8: 9}
    upstream.before_request = lambda number: upstream.rows.__setitem__(slice(None), rows[: surplus.get(number, 7)])

    reading = read(upstream, ORDERS, sink)

    assert (sink.tags, reading.verdict, len(upstream.requests)) == ({("platform",): 7}, CountVerdict.MATCH, 11)


def test_page_1_of_a_longer_list_is_decoded_only_where_its_rows_are_stored() -> None:
    in_windows, of_one_day, sink = ledger(orders(2700, minutes=15)), ledger(orders(2700, minutes=0)), KeptRows()
    in_windows.before_request = lambda number: in_windows.rows[0].update(quantity="many" if number == 1 else 1)

    for upstream in (in_windows, of_one_day):
        reading = read(upstream, TRANSACTIONS, sink)

        assert (len(set(sink.rows)), sink.count, reading.verdict) == (2700, 2700, CountVerdict.MATCH)
        assert set(reading.notes) <= {"attempts"}
    assert [asked["page"] for asked in in_windows.requests] == ["1", "1", "1"]  # no more than of two pages
    assert {asked["page"] for asked in of_one_day.requests} == {"1", "2"}


def test_the_bytes_of_a_body_that_cannot_be_read_do_not_count() -> None:
    body = json.dumps(ledger(orders(1)).page(_ASKED)).encode()
    answers = [body[:-1] + b', "error": "busy"}', body]

    reading = read(lambda _: httpx.Response(200, content=answers.pop(0)), TRANSACTIONS, KeptRows())

    assert (reading.requests, reading.body_bytes) == (2, len(body))


def test_a_long_list_is_read_in_one_page_windows_unless_walks_are_cheaper() -> None:
    upstream, sink = platform_orders(orders(4400), page_size=500), KeptRows()

    reading = read(upstream, ORDERS, sink, look_ahead=4)

    asked = [asked for asked in upstream.requests if asked.get("sales_channel") == "platform"]
    assert (sink.count, reading.verdict, reading.notes) == (4400, CountVerdict.MATCH, {})
    assert {each["page"] for each in asked} == {"1"}
    assert 9 < len(asked) <= 18


def test_rows_without_their_key_are_read_and_the_first_are_named() -> None:
    upstream, sink = MovingList(stock(4500)), KeptRows()
    for number in (3, 2_001, *range(4_000, 4_007)):
        upstream.rows[number]["sku"] = None
    upstream.rows[3]["warehouse_name"] = None

    reading = read(upstream, STOCK, sink)

    assert (sink.count, reading.verdict) == (4500, CountVerdict.MATCH)
    assert reading.notes["null_keys"] == {
        "rows": 9,
        "first": [
            {"page": 1, "row": 4, "columns": ["sku", "warehouse_name"]},
            {"page": 2, "row": 2, "columns": ["sku"]},
            *({"page": 3, "row": row, "columns": ["sku"]} for row in (1, 2, 3)),
        ],
    }


def test_equal_ledger_entries_are_all_kept_on_any_pages() -> None:
    upstream, sink = ledger(orders(1200, minutes=1), page_size=500), KeptRows()
    for number in range(498, 503):
        upstream.rows[number] = upstream.rows[498]

    reading = read(upstream, TRANSACTIONS, sink)

    assert (sink.count, reading.verdict) == (1200, CountVerdict.MATCH)
    assert reading.notes == {"attempts": 2, "duplicate_keys": 4}


def test_an_upstream_that_ignores_page_numbers_is_a_mismatch() -> None:
    upstream, sink = ledger(orders(1200, minutes=1), page_size=500), KeptRows()
    upstream.change = lambda _, asked: upstream.page({**asked, "page": "1"})

    reading = read(upstream, TRANSACTIONS, sink)

    assert (sink.count, reading.announced, reading.verdict) == (500, 1200, CountVerdict.MISMATCH)


def test_no_row_is_lost_between_pages_that_are_smaller_than_asked_for() -> None:
    upstream, sink = ledger(orders(3), page_size=2, envelope=("per_page",)), KeptRows()
    # Page 2 of the upstream is empty then.
    upstream.before_request = lambda number: upstream.rows.pop(0) if number == 2 else None

    reading = read(upstream, TRANSACTIONS, sink)

    assert (sink.count, len(upstream.rows), reading.verdict) == (2, 2, CountVerdict.UNVERIFIABLE)
    assert [row[3] for row in sink.rows] == [row["sku"] for row in upstream.rows]


def test_only_so_many_pages_are_held_at_once() -> None:
    upstream, lock = platform_orders(orders(4350), page_size=100), threading.Lock()
    asked_for, written, ahead = [0], [0], [0]

    class Counting(KeptRows):
        def write(self, *args: Any, **options: Any) -> None:
            super().write(*args, **options)
            with lock:
                written[0] += 1

    def answer(request: httpx.Request) -> httpx.Response:
        with lock:
            asked_for[0] += request.url.params.get("sales_channel") == "platform"
            ahead[0] = max(ahead[0], asked_for[0] - written[0])
        return upstream(request)

    read(answer, ORDERS, Counting(), look_ahead=3)

    # Three pages ahead, and the page that is written.
    assert ahead[0] <= 3 + 1


def test_an_account_without_a_known_zone_is_refused() -> None:
    account = BERLIN.__class__(2, "Atlantis", None, None, "Sea/Atlantis", None, None)

    with api_of(platform_orders([])) as api, pytest.raises(UnusableAccountError, match="'Sea/Atlantis' is not known"):
        read_slice(api, ORDERS, account, MARCH, None, KeptRows())


class MergingList(MovingList):
    """Daily product sales whose unfiltered list has one row for each day and SKU."""

    def page(self, asked: Mapping[str, str]) -> dict[str, Any]:
        if "sales_channel" in asked:
            return super().page(asked)
        kept, merged = self.rows, dict[str, dict[str, Any]]()
        for row in kept:
            before = merged.get(row["sku"])
            units = row["units_ordered"] + (before["units_ordered"] if before else 0)
            merged[row["sku"]] = {**row, "units_ordered": units}
        self.rows = list(merged.values())
        page = super().page(asked)
        self.rows = kept
        return page


def merging(platform: int, other: int, both: int) -> MergingList:
    """Return sales of so many SKUs in one channel, in the other, and in both."""
    channels = ["platform"] * platform + ["non-platform"] * other + ["platform", "non-platform"] * both
    numbers = [*range(platform + other), *(number for number in range(1000, 1000 + both) for _ in range(2))]
    rows = [
        {"date": "2026-03-01", "sku": f"SKU-{number}", "units_ordered": 1, "channel": channel}
        for number, channel in zip(numbers, channels, strict=True)
    ]
    return MergingList(rows, day_of=lambda row: row["date"], channel_of=lambda row: row["channel"])


@pytest.mark.parametrize(("platform", "other", "both"), [(3, 2, 0), (3, 2, 4), (0, 0, 5), (1, 0, 5), (600, 3, 10)])
def test_channels_that_the_unfiltered_list_merges_are_read_one_by_one(platform: int, other: int, both: int) -> None:
    sink = KeptRows()

    reading = read(merging(platform, other, both), DAILY, sink)

    rows = platform + other + 2 * both
    assert (reading.announced, reading.verdict, reading.requests, sink.count) == (rows, CountVerdict.MATCH, 3, rows)
    assert sink.tags == {("platform",): platform + both, ("non-platform",): other + both}


@pytest.mark.parametrize("both", [1, 700])
def test_a_filter_that_a_merging_upstream_ignores_is_noticed(both: int) -> None:
    upstream, sink = merging(0, 0, both), KeptRows()
    upstream.change = lambda _, asked: upstream.page(
        {name: value for name, value in asked.items() if name != "sales_channel"}
    )

    reading = read(upstream, DAILY, sink)

    assert (sink.tags, reading.verdict) == ({(None,): both}, CountVerdict.MATCH)
    assert reading.notes["facet_ignored"] == {"unfiltered": both, "platform": both, "non-platform": both}


@pytest.mark.parametrize("wrong", [3, 9])
def test_an_unfiltered_total_beyond_what_merged_channels_allow_is_doubted(wrong: int) -> None:
    upstream, sink = merging(3, 2, 1), KeptRows()
    upstream.change = lambda page, asked: page | ({} if "sales_channel" in asked else {"total": wrong})

    reading = read(upstream, DAILY, sink)

    assert (reading.verdict, reading.announced) == (CountVerdict.MISMATCH, wrong)


BY_DATE = dataset_named("sales_by_date")
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
def test_a_day_not_placed_even_so_is_refused(rows_of: Callable[[date], list[dict[str, Any]]], problem: str) -> None:
    with pytest.raises(ContractViolationError, match=problem):
        _read(_upstream(rows_of), KeptRows())
