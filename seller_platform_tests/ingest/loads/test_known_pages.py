"""Tests that pages that are sent again change nothing that is stored, and are not decoded."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from sqlalchemy import text

from seller_platform.client.decoding.pages import LateRows, PageDecoder
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import Dataset, Window, dataset_named
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import NO_PAGES, LoadFacts, PageFacts
from seller_platform.errors import ContractViolationError, ErrorAnswerError
from seller_platform.warehouse.loads.copy_format import Row
from seller_platform.warehouse.loads.spool import Spool
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import (
    BERLIN,
    MARCH,
    MovingList,
    api_of,
    day_of_order,
    load_orders,
    order,
    orders,
    stock,
)

ORDERS, STOCK, TRANSACTIONS = dataset_named("orders"), dataset_named("warehouse_stock"), dataset_named("transactions")
DAY = date(2026, 3, 10)


_OPEN: list[Spool] = []


@pytest.fixture(autouse=True)
def close_spools() -> Iterator[None]:
    yield
    while _OPEN:
        _OPEN.pop().close()


class CountingSpool(Spool):
    """Counts the pages that were decoded before they were written, and those that were not."""

    def __init__(self, known: Mapping[bytes, PageFacts]) -> None:
        self.at_once = self.late = 0
        super().__init__("a slice", BERLIN.key, 1, known)

    def write(self, rows: Sequence[Row], **options: Any) -> None:
        self.at_once += 1
        super().write(rows, **options)

    def write_late(self, *values: Any, **options: Any) -> None:
        self.late += 1
        super().write_late(*values, **options)


def _read(
    upstream: Callable[[httpx.Request], httpx.Response],
    dataset: Dataset,
    known: Mapping[bytes, PageFacts] = NO_PAGES,
    *,
    window: Window = MARCH,
) -> tuple[CountingSpool, LoadFacts]:
    spool = CountingSpool(known)
    _OPEN.append(spool)
    days, day = (window, None) if dataset.is_dated else (None, DAY)
    facts = read_slice(api_of(upstream), dataset, BERLIN, days, day, spool)
    return spool, facts


def _contents(spool: Spool) -> tuple[object, ...]:
    lines = sorted(line for chunk in spool.chunks() for line in chunk.splitlines())
    return lines, sorted(spool.hashes), spool.count, spool.digest, spool.days, spool.pages


def _ledger(count: int) -> list[dict[str, Any]]:
    entry = {column.name: None for column in TRANSACTIONS.columns}
    return [
        entry | {"posted_date": f"2026-03-{1 + number % 28:02d}T12:00:00+01:00", "amount": number % 7}
        for number in range(count)
    ]


LISTS = [
    (ORDERS, lambda: MovingList(orders(900), day_of_order, 100, channel_of=lambda row: "platform")),
    (ORDERS, lambda: MovingList([row | {"novel": [1.10]} for row in orders(300)], day_of_order)),
    (TRANSACTIONS, lambda: MovingList(_ledger(900), lambda row: row["posted_date"][:10], 100)),
    (STOCK, lambda: MovingList(stock(250), page_size=100)),
    (STOCK, lambda: MovingList(stock(50) * 2)),
]


@pytest.mark.parametrize(("dataset", "upstream"), LISTS)
def test_the_same_pages_are_not_decoded_again(dataset: Dataset, upstream: Callable[[], MovingList]) -> None:
    source = upstream()
    first, facts = _read(source, dataset)

    again, facts_again = _read(source, dataset, first.pages)

    assert (again.at_once, again.late > 0) == (0, True)
    assert facts_again == facts
    assert again.digest == first.digest
    assert _contents(again) == _contents(first)


def test_known_rows_beside_an_error_are_no_rows() -> None:
    body = {"data": [order("A", datetime(2026, 3, 5, tzinfo=UTC))], "total": 1}
    known: dict[bytes, PageFacts] = {}
    decoder = PageDecoder(ORDERS, ZoneInfo("Europe/Berlin"), MARCH.start, known=known)
    query = ListQuery(ORDERS, window=MARCH)
    page = decoder.decode(json.dumps(body).encode(), query)
    assert page.key is not None
    known[page.key] = PageFacts(1, bytes(16), {"2026-03-05": 1})

    again = decoder.decode(json.dumps(body | {"total": 7}).encode(), query)

    assert isinstance(again.rows, LateRows)
    assert (again.total, list(again.rows) == page.rows, again.rows[0]) == (7, True, page.rows[0])
    with pytest.raises(ErrorAnswerError):
        decoder.decode(json.dumps(body | {"error": "no"}).encode(), query)


@pytest.mark.parametrize(
    ("body", "pages"),
    [
        ('{"data": [%s], "total": 1, "links": ["a"]}', 1),
        ('{"links": ["a"], "data": [%s], "total": 1}', 1),
        ('{"data": {"1": %s}, "total": 1}', 0),
    ],
)
def test_pages_are_remembered_where_their_rows_are_an_array(body: str, pages: int) -> None:
    row = '{"posted_date": "2026-03-05T00:00:00Z", "description": "[a]"}'
    text_ = body.replace("%s", row)

    first, facts = _read(lambda _: httpx.Response(200, text=text_), TRANSACTIONS)

    assert (len(first.pages), first.count, facts.announced) == (pages, 1, 1)


def test_brackets_in_texts_are_no_ends_of_the_rows() -> None:
    row = '{"posted_date": "2026-03-05T00:00:00Z", "description": "]}, [{"}'
    body = '{"message": "%s", "data": [%s], "total": 1, "status": "]"}'

    plain, _ = _read(lambda _: httpx.Response(200, text=body % ("ok", row)), TRANSACTIONS)
    before, _ = _read(lambda _: httpx.Response(200, text=body % ("[ok]", row)), TRANSACTIONS)

    assert plain.count == before.count == 1
    assert before.digest == plain.digest


def test_pages_are_known_to_the_next_load_and_go_with_their_receipt(database: Database) -> None:
    source = MovingList(orders(50), day_of_order)

    first = load_orders(database, source)
    unchanged = load_orders(database, source)
    known = _loads_that_know(database)
    source.rows.pop()
    changed = load_orders(database, source)
    known_then = _loads_that_know(database)
    database.execute(text("DELETE FROM platform.loads"))

    assert (known, known_then) == ([first.id], [changed.id])
    assert (unchanged.changed, unchanged.digest, changed.rows) == (False, first.digest, 49)
    assert _loads_that_know(database) == []


def test_a_known_page_does_not_hide_that_rows_were_deleted_by_hand(database: Database) -> None:
    source = MovingList(orders(50), day_of_order)
    load_orders(database, source)
    database.execute(text("DELETE FROM seller.orders WHERE platform_order_id = 'O-000007'"))

    receipt = load_orders(database, source)

    assert (receipt.rows, receipt.changed) == (50, True)
    assert database.execute(text("SELECT count(*) FROM seller.orders")).scalar_one() == 50


def test_a_known_page_of_a_day_outside_the_window_is_refused() -> None:
    source = MovingList(orders(5))
    first, _ = _read(source, ORDERS)

    with pytest.raises(ContractViolationError, match="outside"):
        _read(source, ORDERS, first.pages, window=Window(date(2026, 2, 1), MARCH.start))


def _loads_that_know(database: Database) -> list[int]:
    return list(database.execute(text("SELECT load_id FROM platform.known_pages ORDER BY 1")).scalars())
