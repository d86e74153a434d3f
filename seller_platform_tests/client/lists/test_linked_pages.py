"""Tests of pages that the upstream links to each other: they are read once, and no link leads elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from seller_platform.contract import dataset_named
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ListChangedError, RequestRefusedError
from seller_platform_tests.support.http_upstream import KeptRows, MovingList, ledger, orders, read, stock

STOCK, TRANSACTIONS, NOTIFICATIONS = map(dataset_named, ("warehouse_stock", "transactions", "notifications"))


@dataclass
class PinningList(MovingList):
    """A list whose pages link to the next one as the list was at the first.

    Attributes:
        link: The header of a page, with `{query}` in place of the parameters of the next page.
        refusal: The answer to pages of an earlier moment; None answers them.
    """

    link: str = '<?{query}>; rel="next"'
    refusal: httpx.Response | None = None
    moments: list[list[dict[str, Any]]] = field(default_factory=list)

    def answer(self, asked: Mapping[str, str]) -> httpx.Response:
        if "as_of" in asked and self.refusal is not None:
            return self.refusal
        present = self.rows
        if "as_of" in asked:
            self.rows = self.moments[int(asked["as_of"])]
        else:
            self.moments.append([*present])
        answer, size = super().answer(asked), self.page_size or int(asked.get("per_page", 100))
        is_last = int(asked["page"]) * size >= len([row for row in self.rows if self._is_asked_for(row, asked)])
        self.rows = present
        following = {"as_of": str(len(self.moments) - 1), **asked, "page": str(int(asked["page"]) + 1)}
        answer.headers.update({} if is_last else {"Link": self.link.format(query=urlencode(following))})
        return answer


def test_linked_pages_are_read_once_although_the_list_changes() -> None:
    upstream, sink = PinningList(stock(4500), page_size=500), KeptRows()
    upstream.before_request = lambda number: upstream.rows.pop(0) if number > 1 else None

    reading = read(upstream, STOCK, sink)

    assert [row[0] for row in sink.rows] == [f"SKU-{number:05d}" for number in range(4500)]
    assert (reading.requests, reading.announced, reading.verdict, reading.notes) == (9, 4500, CountVerdict.MATCH, {})


def test_a_dated_list_with_links_is_not_read_in_smaller_windows() -> None:
    entries = ledger(orders(1400))
    upstream = PinningList(entries.rows, entries.day_of, page_size=500)

    reading = read(upstream, TRANSACTIONS, sink := KeptRows())

    assert (sink.count, reading.requests, {asked["end_date"] for asked in upstream.requests}) == (
        1400,
        3,
        {"2026-03-31"},
    )


@pytest.mark.parametrize("rows", [250, 300])
def test_a_list_without_total_ends_with_the_page_without_a_link(rows: int) -> None:
    upstream = PinningList([{"id": number} for number in range(rows)], envelope=())

    reading = read(upstream, NOTIFICATIONS, sink := KeptRows())

    assert (sink.count, reading.requests, reading.verdict) == (3 * rows, 9, CountVerdict.UNVERIFIABLE)


@pytest.mark.parametrize(
    "refusal",
    [
        httpx.Response(410, json={"message": "begin again"}),
        httpx.Response(422, json={"message": "invalid", "errors": {"as_of": ["belongs to another database"]}}),
    ],
)
def test_a_walk_that_the_upstream_ends_begins_again_without_links(refusal: httpx.Response) -> None:
    upstream = PinningList(stock(1200), page_size=500, refusal=refusal)

    reading = read(upstream, STOCK, sink := KeptRows())

    assert (sink.count, reading.verdict, reading.notes) == (1200, CountVerdict.MATCH, {"attempts": 3})


def test_another_refusal_of_a_linked_page_is_that_of_the_list() -> None:
    upstream = PinningList(stock(1200), page_size=500, refusal=httpx.Response(403, json={"message": "not yours"}))

    with pytest.raises(RequestRefusedError, match="not yours"):
        read(upstream, STOCK, KeptRows())

    assert len([asked for asked in upstream.requests if "as_of" not in asked]) == 1


def test_a_walk_that_ends_over_a_list_that_always_changes_is_refused() -> None:
    upstream = PinningList(stock(1200), page_size=500, refusal=httpx.Response(410, json={}))
    upstream.before_request = lambda number: upstream.rows.pop(0)

    with pytest.raises(ListChangedError, match="in each of 3 attempts"):
        read(upstream, STOCK, KeptRows())


@pytest.mark.parametrize(
    "link",
    [
        '<http://elsewhere/api/warehouse/list?{query}>; rel="next"',
        '<https://upstream/api/warehouse/list?{query}>; rel="next"',
        '</api/sales/orders?{query}>; rel="next"',
        '<?{query}>; rel="last"',
        '<?{query}&seller_id=S2>; rel="next"',
        '<?{query}&unknown=1>; rel="next"',
        '<?as_of=0&page=2>; rel="next"',
        "<http://[>; rel=next",
        "?{query}",
    ],
)
def test_a_link_that_leads_elsewhere_is_not_followed(link: str) -> None:
    upstream = PinningList(stock(1200), page_size=500, link=link)

    reading = read(upstream, STOCK, sink := KeptRows())

    assert all("as_of" not in asked for asked in upstream.requests)
    assert (sink.count, reading.requests, reading.notes) == (1200, 6, {"attempts": 2})


def test_an_absolute_link_to_the_same_endpoint_is_followed() -> None:
    link = '<http://x/>; rel="first", <http://upstream/api/warehouse/list?{query}>; REL=next'
    upstream = PinningList(stock(1200), page_size=500, link=link)

    assert read(upstream, STOCK, KeptRows()).requests == 3


def test_linked_pages_that_do_not_add_up_are_read_until_two_readings_agree() -> None:
    upstream = PinningList(stock(1200), page_size=500, change=lambda page, asked: page | {"total": 1201})

    reading = read(upstream, STOCK, KeptRows())

    assert (reading.verdict, reading.announced, reading.notes) == (CountVerdict.MISMATCH, 1201, {"attempts": 2})
