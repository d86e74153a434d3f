"""Tests that a list ends where its rows do, whatever its counts say, and that contradictions are a mismatch."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, count, product, repeat
from typing import Any

import httpx
import pytest

from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ContractViolationError, UpstreamUnavailableError
from seller_platform_tests.support.http_upstream import KeptRows, MovingList, day_of_order, orders, read, stock

STOCK, NOTIFICATIONS = dataset_named("warehouse_stock"), dataset_named("notifications")
MATCH, MISMATCH, UNVERIFIABLE = CountVerdict.MATCH, CountVerdict.MISMATCH, CountVerdict.UNVERIFIABLE

Envelope = Callable[[int, Sequence[Any], int], Mapping[str, object]]
"""Takes the number of a page, its rows and the rows of all pages, and returns what stands beside the rows."""

HONEST: Envelope = lambda page, rows, total: {  # noqa: E731
    "total": total, "per_page": 100, "last_page": max(1, -(-total // 100)), "current_page": page
}  # fmt: skip
NO_COUNTS: Envelope = lambda page, rows, total: {}  # noqa: E731


def _changed(**changes: Any) -> Envelope:
    """Return an honest envelope but for these fields, of which functions take the page, its rows and the total."""

    def envelope(page: int, rows: Sequence[Any], total: int) -> Mapping[str, object]:
        changed = {name: each(page, rows, total) if callable(each) else each for name, each in changes.items()}
        return {**HONEST(page, rows, total), **changed}

    return envelope


class Pages:
    """An upstream that sends these pages, and then what it sends beyond the end.

    Attributes:
        requests: The numbers of the pages that were requested.
    """

    def __init__(self, pages: Sequence[Sequence[Any]], envelope: Envelope, *, beyond: str = "empty") -> None:
        self._pages, self._envelope, self._beyond = pages, envelope, beyond
        self.requests: list[int] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        number, total = int(request.url.params.get("page", 1)), sum(map(len, self._pages))
        self.requests.append(number)
        if number > len(self._pages) and self._beyond.isdigit():
            return httpx.Response(int(self._beyond))
        if number > len(self._pages) and self._beyond in ("{}", "[]"):
            return httpx.Response(200, text=self._beyond)
        if number > len(self._pages) and self._beyond in ("null", "false", '""'):
            page = {"data": json.loads(self._beyond), **self._envelope(number, [], total)}
            return httpx.Response(200, text=json.dumps(page))
        if number > len(self._pages) and self._beyond == "nothing":
            return httpx.Response(200, json={"data": [], "total": 0, "last_page": 0, "current_page": None})
        if number > len(self._pages) and self._beyond in ("last", "first"):
            number = len(self._pages) if self._beyond == "last" else 1
        rows = self._pages[number - 1] if number <= len(self._pages) else []
        return httpx.Response(200, text=json.dumps({"data": rows, **self._envelope(number, rows, total)}))


def _pages(*sizes: int) -> list[list[Any]]:
    rows = iter(stock(sum(sizes)))
    return [[next(rows) for _ in range(size)] for size in sizes]


def _read(upstream: Callable[[httpx.Request], httpx.Response], dataset: Dataset = STOCK) -> tuple[KeptRows, LoadFacts]:
    sink = KeptRows()
    return sink, read(upstream, dataset, sink)


SHAPES = {
    "none": (),
    "one": (7,),
    "exactly full": (100,),
    "full and short": (100, 3),
    "filtered after paging": (100, 97, 100, 12),
    "one row filtered": (100, 99, 100),
    "first page filtered": (90, 100),
}
ENVELOPES: dict[str, tuple[Envelope, CountVerdict]] = {
    "honest": (HONEST, MATCH),
    "no counts": (NO_COUNTS, UNVERIFIABLE),
    "texts": (_changed(total=lambda *each: f"{each[2]:,}", last_page=lambda *each: str(-(-each[2] // 100))), MATCH),
    "null total": (_changed(total=None), UNVERIFIABLE),
    "negative total": (_changed(total=-1), UNVERIFIABLE),
    "last page 0": (_changed(last_page=0), MATCH),
    "no last page": (_changed(last_page=None), MATCH),
    "no total, no sizes": (_changed(total=None, per_page=None), UNVERIFIABLE),
    "the size that was asked for": (_changed(per_page=2000), MATCH),
    "only the last page": (_changed(total=None, per_page=None, current_page=None), UNVERIFIABLE),
}
BEYOND = ("204", "404", "422", "nothing", "null", "false", '""', "{}", "[]", "last", "first")
"""What upstreams send beyond the end of a list; `nothing` has no counts, and `null` stands in place of the rows."""


@pytest.mark.parametrize(
    ("shape", "envelope", "beyond"),
    [
        *product(SHAPES, ENVELOPES, ["empty"]),
        *product(["exactly full", "first page filtered"], ["honest", "no counts", "last page 0"], BEYOND),
    ],
)
def test_all_rows_are_read_and_the_counts_are_judged(shape: str, envelope: str, beyond: str) -> None:
    pages, (sent, verdict) = _pages(*SHAPES[shape]), ENVELOPES[envelope]

    sink, reading = _read(Pages(pages, sent, beyond=beyond if pages else "empty"))

    assert sorted(row[0] for row in sink.rows) == [row["sku"] for page in pages for row in page]
    assert reading.verdict is verdict
    assert reading.announced == (None if verdict is UNVERIFIABLE else sum(map(len, pages)))


@pytest.mark.parametrize(
    ("sizes", "envelope", "note"),
    [
        ((100, 3), _changed(total=104), None),
        ((100, 3), _changed(total=102), None),
        ((7,), _changed(total=8), None),
        ((7,), _changed(total=6), None),
        ((100, 100, 3), _changed(total=lambda page, rows, total: len(rows)), "the total went from 100 to 3"),
        ((100, 100), _changed(total=lambda page, rows, total: 300 - 100 * page), "the total went from 200 to 100"),
        ((100, 100), _changed(last_page=1), "the list has 1 page by its last_page, and 2 pages by its rows"),
        ((100, 100), _changed(last_page=lambda page, *each: 3 - page), "the list has 1 page by its last_page"),
        ((7,), _changed(last_page=3), "the list has 3 pages by its last_page, and 1 page by its rows"),
        ((7,), _changed(total=None, last_page=2), "the list has 2 pages by its last_page, and 1 page by its rows"),
        ((100, 3), _changed(total=None, last_page=1), "the list has 1 page by its last_page, and 2 pages by its rows"),
        ((100, 3), _changed(total=None, current_page=7), "page 1 says that it is page 7"),
        ((100, 0, 100, 3), _changed(total=203, last_page=4), "the list has 4 pages by its last_page, and 3 pages by"),
    ],
)
def test_counts_that_contradict_rows_are_a_mismatch(sizes: Sequence[int], envelope: Envelope, note: str | None) -> None:
    sink, reading = _read(Pages(_pages(*sizes), envelope))

    assert (sink.count, reading.verdict) == (sum(sizes), MISMATCH)
    assert str(reading.notes.get("contradiction")).startswith(str(note))


def test_a_second_page_that_was_announced_and_has_no_rows_may_have_lost_them() -> None:
    (rows,) = _pages(3)
    left = {"data": rows[1:], "total": 2, "last_page": 1}  # the first row went after page 1 was read
    answers = chain([{"data": rows[:2], "total": 2, "last_page": 2}, {**left, "data": []}], repeat(left))

    sink, reading = _read(lambda _: httpx.Response(200, json=next(answers)))

    assert ([row[0] for row in sink.rows], reading.verdict) == ([row["sku"] for row in rows[1:]], MATCH)


@pytest.mark.parametrize(
    ("sizes", "envelope", "requests"),
    [
        ((), HONEST, [1]),
        ((7,), HONEST, [1]),
        ((100,), HONEST, [1, 2]),
        ((100, 3), HONEST, [1, 2]),
        ((100, 100), HONEST, [1, 2, 3]),
        ((), NO_COUNTS, [1]),
        ((7,), NO_COUNTS, [1, 2]),
        ((100, 3), NO_COUNTS, [1, 2, 3]),
    ],
)
def test_one_more_is_sent_where_lists_may_go_on(sizes: Sequence[int], envelope: Envelope, requests: list[int]) -> None:
    upstream = Pages(_pages(*sizes), envelope)

    _, reading = _read(upstream)

    assert upstream.requests == requests * (2 if len(sizes) > 1 else 1)
    assert reading.notes == ({"attempts": 2} if len(sizes) > 1 else {})


@pytest.mark.parametrize("status", [204, 205])
@pytest.mark.parametrize("dataset", ["warehouse_stock", "notifications", "orders", "transactions", "sales_by_date"])
def test_an_answer_without_a_body_is_an_empty_list(dataset: str, status: int) -> None:
    sink, reading = _read(lambda request: httpx.Response(status), dataset_named(dataset))

    assert (sink.count, reading.verdict, reading.notes) == (0, UNVERIFIABLE, {})
    assert reading.requests <= 3


@pytest.mark.parametrize(
    ("envelope", "problem"),
    [
        (_changed(total=5), "5 rows were announced of .* and none was sent"),
        (
            _changed(total=None, last_page=3),
            "no row of .* was sent: the list has 3 pages by its last_page, and 0 pages",
        ),
        (_changed(total=0, last_page=3), "no row of .* was sent: the list has 3 pages by its last_page, and 0 pages"),
    ],
)
def test_announced_rows_that_are_not_sent_are_no_empty_list(envelope: Envelope, problem: str) -> None:
    with pytest.raises(UpstreamUnavailableError, match=problem):
        _read(Pages([[]], envelope))


def test_a_list_without_an_end_is_refused() -> None:
    numbers, envelope = count(), _changed(total=3)

    def answer(request: httpx.Request) -> httpx.Response:
        rows = [{"sku": f"SKU-{next(numbers)}"} for _ in range(2)]
        page = int(request.url.params["page"])
        return httpx.Response(200, text=json.dumps({"data": rows, **envelope(page, rows, 2)}))

    with pytest.raises(ContractViolationError, match="the list has no end: page 2000 has rows"):
        _read(answer)


def test_a_total_that_moves_while_rows_are_added_is_no_contradiction() -> None:
    upstream, sink = MovingList(stock(150), page_size=100), KeptRows()
    upstream.before_request = lambda number: upstream.rows.extend(stock(151)[150:] if number == 2 else [])

    reading = read(upstream, STOCK, sink)

    assert (sink.count, reading.verdict, reading.notes) == (151, MATCH, {"attempts": 2})


@pytest.mark.parametrize("rows", [None, False, "", 5, "none"])
def test_a_page_that_is_announced_has_rows(rows: object) -> None:
    upstream = Pages(_pages(100, 3), HONEST)

    def answer(request: httpx.Request) -> httpx.Response:
        sent = json.loads(upstream(request).text)
        return httpx.Response(200, json=sent | ({"data": rows} if request.url.params["page"] == "2" else {}))

    with pytest.raises(ContractViolationError, match=r"data is .* in the answer, but the rows should be there"):
        _read(answer)


@pytest.mark.parametrize("sent", ['{"data": null, "total": 0}', '{"total": 0}', '{"data": {}, "total": "0"}'])
def test_nothing_beside_a_total_of_zero_is_an_empty_list(sent: str) -> None:
    sink, reading = _read(lambda request: httpx.Response(200, text=sent))

    assert (sink.count, reading.verdict, reading.requests) == (0, MATCH, 1)


@pytest.mark.parametrize("name", ["transactions", "orders"])
def test_counts_that_contradict_each_other_on_page_1_are_a_mismatch(name: str) -> None:
    rows = orders(1_200, minutes=30)

    def answer(request: httpx.Request) -> httpx.Response:
        sent, size = request.url.params, min(500, int(request.url.params["per_page"]))
        listed = [row for row in rows if sent["start_date"] <= day_of_order(row) <= sent["end_date"]]
        if sent.get("sales_channel") == "non-platform":
            listed = []
        first = size * (int(sent["page"]) - 1)
        page = [{**row, "posted_date": row["purchase_date"]} for row in listed[first : first + size]]
        return httpx.Response(200, json={"data": page, "total": len(listed), "per_page": size, "last_page": 1})

    sink, reading = _read(answer, dataset_named(name))

    assert (sink.count, reading.announced, reading.verdict) == (1_200, 1_200, MISMATCH)


def test_a_page_that_repeats_another_in_another_order_brings_no_rows() -> None:
    page = _pages(100)[0]

    sink, reading = _read(Pages([page, page[::-1]], NO_COUNTS))

    assert (sink.count, reading.verdict) == (100, UNVERIFIABLE)


REPEATED: dict[str, tuple[str, dict[str, Any]]] = {
    "keyed rows": ("1", {"data": {"1": {"sku": "A"}, "1~": {"sku": "B"}}, "total": 2}),
    "two lists of rows": ("data", {"data": stock(2), "data~": stock(1), "total": 2}),
    "rows and none": ("data", {"data~": [], "data": stock(3), "total": 3}),
    "two totals": ("total", {"total~": 300, "data": stock(2), "total": 2}),
    "a total behind other arrays": ("total", {"links": [], "data": stock(2), "total": 2, "links2": [{}], "total~": 30}),
    "one of two rows": ("sku", {"data": [*stock(2), {**stock(1)[0], "sku~": "B"}], "total": 3}),
    "in place of another": ("sku", {"data": [{**row, "sku~": row.pop("location")} for row in stock(2)], "total": 2}),
    "a sparse row": ("sku", {"data": [{"sku": "A"}, {"sku": "B", "sku~": "C"}], "total": 2}),
    "a keyed row": ("sku", {"data": {"1": {"sku": "A"}, "2": {"sku": "B", "sku~": "C"}}, "total": 2}),
    "a field of a field": ("b", {"data": [{"sku": "A", "new": {"b": 1, "b~": 2}}], "total": 1}),
    "quotes in texts": ("sku", {"data": [{"sku": 'A": "B":', "sku~": '":'}], "total": 1}),
}


@pytest.mark.parametrize("colon", [":", " : "])
@pytest.mark.parametrize("is_again", [False, True])
@pytest.mark.parametrize("where", REPEATED)
def test_a_name_that_stands_twice_is_requested_again_then_refused(where: str, *, is_again: bool, colon: str) -> None:
    name, page = REPEATED[where]
    honest = json.dumps(page, separators=(",", colon))
    doubtful = honest.replace("~", "")
    answers = chain([doubtful], repeat(doubtful if is_again else honest))

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=next(answers))

    if is_again:
        with pytest.raises(ContractViolationError, match=f"an object that has the name '{name}' twice; it came twice"):
            _read(answer)
    else:
        assert _read(answer)[0].count == len(page["data"])


def test_a_name_stands_twice_whatever_else_changes() -> None:
    numbers = count()

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text=f'{{"data": [{{"sku": "A", "sku": "B"}}], "request_id": {next(numbers)}}}')

    with pytest.raises(ContractViolationError, match="an object that has the name 'sku' twice; it came twice"):
        _read(answer)


def test_a_name_of_a_row_among_many_stands_twice() -> None:
    rows = json.dumps({"data": stock(1_500), "total": 1_500}).replace('"location"', '"sku"', 1)

    with pytest.raises(ContractViolationError, match="has the name 'sku' twice"):
        _read(lambda request: httpx.Response(200, text=rows))


def test_notifications_are_read_until_a_page_of_each_type_is_empty() -> None:
    ends = (0, 100), (100, 189), (200, 249)
    pages = [[{"id": number} for number in range(*each)] for each in ends]

    sink, reading = _read(Pages(pages, NO_COUNTS), NOTIFICATIONS)

    assert (sink.count, reading.verdict, reading.requests) == (3 * 238, UNVERIFIABLE, 2 * 3 * 4)
