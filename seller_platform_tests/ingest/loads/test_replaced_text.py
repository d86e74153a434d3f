"""Tests that text that PostgreSQL does not store is replaced, and that a value that cannot be read costs one cell."""

import json
from contextlib import nullcontext
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ContractViolationError
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.http_upstream import MARCH, MovingList, day_of_order, load_orders, orders

_ODD = st.lists(
    st.text(st.characters(), max_size=4)
    | st.sampled_from(["\0", "\ud83d", "\ude00", "\U0001f600", "\\u0000", "\\", "\\ud800", "\ufffd", '"', "\n"]),
    max_size=6,
).map(lambda texts: "".join(["N", *texts]))  # the judge holds rows whose name went


def _load(database: Database, body: bytes) -> Receipt:
    empty = b'{"data": [], "total": 0, "current_page": 1, "last_page": 1}'

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=empty if "non-platform" in request.url.params.values() else body)

    return load_orders(database, answer)


def _body(rows: list[dict[str, Any]], *, is_escaped: bool) -> bytes:
    page = {"data": rows, "total": len(rows), "current_page": 1, "last_page": 1}
    return json.dumps(page, ensure_ascii=is_escaped).encode("utf-8", "surrogatepass")


def _stored(database: Database) -> list[tuple[str, dict[str, str] | None]]:
    rows = database.execute(text("SELECT product_name, extra FROM seller.orders ORDER BY platform_order_id"))
    return [tuple(row) for row in rows]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(odd=st.lists(_ODD, min_size=3, max_size=3), is_escaped=st.booleans(), is_lenient=st.booleans())
def test_text_that_cannot_be_stored_is_replaced_and_all_other_text_is_kept(
    database: Database, odd: list[str], is_escaped: bool, is_lenient: bool
) -> None:
    rows = orders(3)
    for row, name in zip(rows, odd, strict=True):
        row.update({"product_name": name}, **({"novel": name} if is_lenient else {}))
    # Pairs of surrogates are the character that they stand for.
    decoded = [name.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for name in odd]
    expected = [name.replace("\0", "\ufffd") for name in decoded]

    receipt = _load(database, _body(rows, is_escaped=is_escaped))

    assert _stored(database) == [(name, {"novel": name} if is_lenient else None) for name in expected]
    columns = ["product_name", "extra"] if is_lenient else ["product_name"]
    replaced = [
        {"page": 1, "row": number, "columns": columns}
        for number, (name, stored) in enumerate(zip(odd, expected, strict=True), start=1)
        if "\0" in name or stored.count("\ufffd") > name.count("\ufffd")
    ]
    noted = (receipt.notes or {}).get("replaced_text", {"rows": 0, "first": []})
    assert noted == {"rows": len(replaced), "first": replaced}


@pytest.mark.parametrize(
    "sent",
    [rb"\u0000", rb"\ud800", rb"\udc00\ud800", b"\xed\xa0\x80", b"\xff", b"\xc3", b"\0", rb"\uDBFF\u0041"],
    ids=repr,
)
def test_a_page_with_replaced_text_is_noted_by_every_load(database: Database, sent: bytes) -> None:
    body = _body(orders(3), is_escaped=True).replace(b'"Tea"', b'"' + sent + b'"', 1)
    assert sent in body

    first, again = _load(database, body), _load(database, body)

    assert (first.rows, first.changed, again.changed) == (3, True, False)
    assert "\ufffd" in _stored(database)[0][0]
    noted = {"rows": 1, "first": [{"page": 1, "row": 1, "columns": ["product_name"]}]}
    assert [(each.notes or {}).get("replaced_text") for each in (first, again)] == [noted, noted]


@pytest.mark.parametrize(
    ("numbers", "is_refused"),
    [
        ([b"CAF\xc9", b"CAF\xc8"], True),
        ([rb"CAF\ud800", rb"CAF\udc00"], True),
        ([rb"CAF\u0000", b"CAF\xc9"], True),
        ([b"CAF\xc9", rb"CAF\ufffd"], True),
        (["CAF\ufffd".encode(), b"CAF\xc9"], True),
        ([rb"CAF\ufffd", "CAF\ufffd".encode()], False),
        ([b"CAF\xc9", b"CAF\xc9"], False),
        ([b"CAF\xc9", b"CAG\xc9"], False),
    ],
)
@pytest.mark.parametrize("column", ["platform_order_id", "sku"])
def test_keys_that_differ_only_in_replaced_text_are_an_error(
    database: Database, numbers: list[bytes], is_refused: bool, column: str
) -> None:
    rows = [row | {column: f"O-{number}"} for number, row in enumerate(orders(3))]
    body = _body(rows, is_escaped=True)
    for number, sent in enumerate(numbers):
        body = body.replace(b"O-%d" % number, sent)

    with (
        pytest.raises(ContractViolationError, match=f"row 2 of page 1: its {column} differs")
        if is_refused
        else nullcontext()
    ):
        _load(database, body)

    assert len(_stored(database)) == (0 if is_refused else 3)


def _read(database: Database, rows: list[dict[str, Any]], **options: Any) -> Receipt:
    return load_orders(database, MovingList(rows, channel_of=lambda row: "platform", **options))


def _with(rows: list[dict[str, Any]], count: int, **values: Any) -> list[dict[str, Any]]:
    return [row | (values if number < count else {}) for number, row in enumerate(rows)]


def _problems(database: Database) -> dict[str, tuple[str, str]]:
    rows = database.execute(text("SELECT kind, message, severity FROM platform.problems"))
    return {kind: (message, severity) for kind, message, severity in rows}


@pytest.mark.parametrize(
    ("values", "kind", "named"),
    [
        ({"order_total": "N/A", "quantity_ordered": ""}, "unreadable", 'order_total "N/A", quantity_ordered ""'),
        ({"order_total": 19.900000000000002}, "overprecise", "order_total 19.900000000000002"),
    ],
)
def test_a_cell_costs_no_row_and_is_named_until_it_is_right(
    database: Database, values: dict[str, Any], kind: str, named: str
) -> None:
    for _ in range(2):
        receipt = _read(database, _with(orders(40), 1, **values))

        assert (receipt.rows, receipt.verdict) == (40, CountVerdict.MATCH)
        message, severity = _problems(database)[kind]
        assert severity == "warning"
        assert "1 of 40 rows have" in message
        assert f"row 1 of page 1 ({named})" in message
    _read(database, orders(40))
    assert kind not in _problems(database)


@pytest.mark.parametrize(
    ("rows", "count", "is_refused"), [(3, 3, False), (40, 4, False), (39, 4, True), (40, 40, True)]
)
@pytest.mark.parametrize("page_size", [10, None])
def test_a_list_with_many_unreadable_values_is_refused(
    database: Database, rows: int, count: int, page_size: int | None, *, is_refused: bool
) -> None:
    sent = _with(orders(rows, minutes=1), count, order_total="01,99")

    if is_refused:
        problem = f'{count} of {rows} values of order_total cannot be read; the first is "01,99" in row 1 of page 1'
        with pytest.raises(ContractViolationError, match=rf"orders of de-1, {MARCH}: {problem}"):
            _read(database, sent, page_size=page_size, day_of=day_of_order)
    else:
        assert _read(database, sent, page_size=page_size, day_of=day_of_order).rows == rows
