"""Tests that all spellings of a page have the same rows, and wrong values fail."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seller_platform.client.decoding.pages import Page, PageDecoder
from seller_platform.contract import DATASETS, Dataset, Kind, Source, Window, dataset_named
from seller_platform.contract.list_query import ListQuery
from seller_platform.errors import ContractViolationError, ErrorAnswerError, UnreadableBodyError

ZONE = ZoneInfo("Europe/Berlin")
# October, whose last Sunday has an hour twice.
WINDOW = Window(date(2026, 10, 1), date(2026, 11, 1))

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
_DAYS = st.dates(WINDOW.start, WINDOW.last_day)
_FIRST_MOMENT = datetime(2026, 10, 1, tzinfo=ZONE).astimezone(UTC)
_MOMENTS = st.integers(0, 31 * 86_400 - 1).map(lambda each: (_FIRST_MOMENT + timedelta(seconds=each)).astimezone(ZONE))


@dataclass(frozen=True)
class Spelled:
    """One value: its JSON text in our own spelling, and in another one."""

    own: str
    other: str


@st.composite
def _number(draw: st.DrawFn) -> Spelled:
    number = draw(st.decimals(-(10**9), 10**9, places=2) | st.decimals(-1, 1, places=6))
    own, grouped = f"{number:f}", f"{number:,f}"
    return Spelled(own, draw(st.sampled_from([own, f'"{own}"', f'"{grouped}"', f'" {grouped} "'])))


@st.composite
def _integer(draw: st.DrawFn) -> Spelled:
    number = draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-2000, 2000))
    return Spelled(str(number), draw(st.sampled_from([str(number), f'"{number}"', f'"{number:,}"', f"{number}.0"])))


@st.composite
def _boolean(draw: st.DrawFn) -> Spelled:
    value = draw(st.booleans())
    spellings = ["true", "1", '"1"', '"true"', '"True"'] if value else ["false", "0", '"0"', '"false"']
    return Spelled(spellings[0], draw(st.sampled_from(spellings)))


@st.composite
def _timestamp(draw: st.DrawFn) -> Spelled:
    moment = draw(_MOMENTS)
    own = moment.isoformat()
    spellings = [own, own.replace("T", " ")]
    if moment.replace(tzinfo=None, fold=0).replace(tzinfo=ZONE).isoformat() == own:
        bare = moment.replace(tzinfo=None).isoformat()
        spellings += [bare, bare.replace("T", " ")]
    return Spelled(f'"{own}"', f'"{draw(st.sampled_from(spellings))}"')


def _same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Spelled]:
    return values.map(lambda value: Spelled(json.dumps(value), json.dumps(value, ensure_ascii=False)))


_VALUES: dict[Kind, Callable[[], st.SearchStrategy[Spelled]]] = {
    Kind.TEXT: lambda: _same(_TEXT),
    Kind.INTEGER: _integer,
    Kind.MONEY: _number,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: _boolean,
    Kind.DATE: lambda: _same(_DAYS.map(date.isoformat)),
    Kind.TIMESTAMP: _timestamp,
    Kind.JSON: lambda: st.just(Spelled('[{"amount":1.10}]', '[{"amount":1.10}]')),
}


@st.composite
def rows_in_two_spellings(draw: st.DrawFn, dataset: Dataset) -> tuple[list[str], list[str]]:
    """Return rows as JSON texts in our spelling, and the same rows in another."""
    pairs = [draw(_row(dataset)) for _ in range(draw(st.integers(0, 4)))]
    return [own for own, _ in pairs], [other for _, other in pairs]


@st.composite
def _row(draw: st.DrawFn, dataset: Dataset) -> tuple[str, str]:
    own, other = [], []
    for column in dataset.columns:
        if not column.key and column.name != dataset.day and draw(st.booleans()):
            own.append(_field(column.name, "null"))
            other += draw(st.sampled_from([[], [_field(column.name, "null")]]))
            continue
        value = draw(_VALUES[column.kind]())
        own.append(_field(column.name, value.own))
        aliases = [(alias,) for alias in column.aliases]
        names = [(column.name,), *aliases, *((column.name, *alias) for alias in aliases)]
        other += [_field(name, value.other) for name in draw(st.sampled_from(names))]
    return "{" + ",".join(own) + "}", "{" + ", ".join(draw(st.permutations(other))) + "}"


def _field(name: str, text: str) -> str:
    return f"{json.dumps(name)}: {text}"


def page_of(rows: list[str], *, container: str = "array", counts: str = "numbers") -> bytes:
    """Return the body of a page with these rows."""
    if container == "bare":
        return f"[{','.join(rows)}]".encode()
    data = (
        "{" + ",".join(f'"{number}": {row}' for number, row in enumerate(rows)) + "}"
        if container == "keyed"
        else f"[{','.join(rows)}]"
    )
    envelope = {
        "numbers": f', "total": {len(rows)}, "per_page": 500, "last_page": 1, "current_page": 1',
        "strings": f', "total": "{len(rows)}", "per_page": "1,500", "last_page": "1", "current_page": "1"',
        "absent": ', "links": {"next": null}',
    }
    return f'{{"data": {data}{envelope[counts]}}}'.encode()


ORDERS, TRANSACTIONS = dataset_named("orders"), dataset_named("transactions")
DAILY, INVENTORY = dataset_named("daily_product_sales"), dataset_named("inventory")

ORDER = {
    "platform_order_id": "O-1",
    "purchase_date": "2026-10-10T12:00:00+02:00",
    "order_status": "Shipped",
    "order_total": 10.10,
    "currency_code": "EUR",
    "quantity_ordered": 1,
    "sku": "A",
    "asin": None,
    "product_name": "Tea",
}


def decoder_of(dataset: Dataset, *, window: Window = WINDOW, zone: ZoneInfo = ZONE) -> Callable[[bytes], Page]:
    decoder = PageDecoder(dataset, zone, window.start)
    query = ListQuery(dataset, window=window if dataset.is_dated else None)
    return lambda body: decoder.decode(body, query)


def decoded(dataset: Dataset, *rows: dict[str, Any] | str) -> Sequence[tuple[Any, ...]]:
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    return decoder_of(dataset)(page_of(texts)).rows


@pytest.mark.parametrize("dataset", DATASETS, ids=lambda dataset: dataset.name)
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_spelling_of_a_row_is_the_same_row(dataset: Dataset, data: st.DataObject) -> None:
    own, other = data.draw(rows_in_two_spellings(dataset))
    containers = ["array", "keyed", *(["bare"] if dataset.source is Source.PRODUCT_LOOKUP else [])]
    container = data.draw(st.sampled_from(containers))
    counts = data.draw(st.sampled_from(["numbers", "strings", *(["absent"] if own or container != "keyed" else [])]))
    body = page_of(other, container=container, counts=counts)
    decode = decoder_of(dataset)

    canonical = decoder_of(dataset)(page_of(own))
    first, again = decode(body), decode(body)

    assert _texts(first.rows) == _texts(again.rows) == _texts(canonical.rows)
    assert canonical.total == len(own)
    assert first.total == again.total == (len(own) if container != "bare" and counts != "absent" else None)


def _texts(rows: Sequence[tuple[Any, ...]]) -> list[list[str]]:
    """Return rows as texts, so that equal numbers of different scale differ."""
    return [[f"{type(value).__name__} {value}" for value in row] for row in rows]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC"])
def test_the_local_day_is_the_day_in_the_zone_of_the_account(zone: str) -> None:
    account, start = ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=UTC)
    moments = [start + timedelta(minutes=173 * number) for number in range(3_100)]
    texts = [
        (moment.isoformat(), moment.astimezone(account).isoformat(), f"{moment:%Y-%m-%dT%H:%M:%S}.5Z")[number % 3]
        for number, moment in enumerate(moments)
    ]
    rows = [json.dumps({"posted_date": text}) for text in texts]

    page = decoder_of(TRANSACTIONS, window=Window(date(2025, 1, 1), date(2028, 1, 1)), zone=account)(page_of(rows))

    assert [row[-1] for row in page.rows] == [moment.astimezone(account).date().isoformat() for moment in moments]


def test_money_is_kept_as_it_was_sent() -> None:
    amounts = ["0.10", "100", "-0.00", "12345678901234567890.123456789", "1E+2", '"1,234.50"', '"+7.1"']

    rows = decoded(TRANSACTIONS, *(f'{{"posted_date": "2026-10-02T00:00:00Z", "amount": {each}}}' for each in amounts))

    expected = ["0.10", "100", "-0.00", "12345678901234567890.123456789", "1E+2", "1234.50", "7.1"]
    assert [str(row[6]) for row in rows] == expected


def test_fields_the_contract_does_not_know_are_kept_as_they_were_sent() -> None:
    body = page_of([json.dumps(ORDER), json.dumps(ORDER)[:-1] + ', "gift": {"a": [1.10, null]}, "vat": "x"}'])

    page = decoder_of(ORDERS)(body)

    assert page.extras == {1: '{"gift":{"a": [1.10, null]},"vat":"x"}'}
    assert page.unknown_fields == {"gift", "vat"}


def test_the_envelope_is_read_in_every_spelling() -> None:
    page = decoder_of(ORDERS)(
        b'{"data": [], "total": "1,565", "per_page": 500.0, "last_page": null, "current_page": {}}'
    )

    assert (page.total, page.per_page, page.last_page, page.current_page) == (1565, 500, None, None)


def test_a_period_with_its_dates_in_an_object_is_a_period() -> None:
    row = {"sku": "A", "dates": {"from_date": "2026-01-01", "to_date": "2026-12-31"}, "cost_elements": []}

    rows = decoder_of(dataset_named("cost_periods"))(json.dumps([row]).encode()).rows

    assert rows == [("A", "2026-01-01", "2026-12-31", "[]", "2026-10-01")]


@pytest.mark.parametrize(
    ("day", "problem"),
    [
        (None, "purchase_date is missing or null"),
        ("yesterday", 'purchase_date is "yesterday", which is no timestamp'),
        ("2026-10-10", 'purchase_date is "2026-10-10"'),
        ("0000-00-00", 'purchase_date is "0000-00-00"'),
        ("", 'purchase_date is ""'),
        ("2026-10-10T25:00:00Z", "purchase_date"),
        ("2026-02-30T10:00:00Z", "purchase_date"),
        ("2026-10-10T10:60:00Z", "purchase_date"),
        ("2026-10-10T10:00:00+16:00", "purchase_date"),
        ("2026-10-10T10:00:00+99:00", "purchase_date"),
        ("0001-01-01T00:00:00+14:00", "purchase_date"),
        (20261010, "purchase_date is 20261010"),
        ("2026-10-31T23:30:00+00:00", "lies on 2026-11-01 in Europe/Berlin.*another calendar"),
        ("2026-09-30T21:59:59+00:00", "lies on 2026-09-30 in Europe/Berlin.*another calendar"),
    ],
)
def test_a_row_without_a_day_of_the_window_is_refused_by_its_place(day: object, problem: str) -> None:
    with pytest.raises(ContractViolationError, match=f"orders: row 2 of the page: .*{problem}"):
        decoded(ORDERS, ORDER, ORDER | {"purchase_date": day})


_UNREADABLE = {
    "order_total": [
        '"NaN"', '"-Infinity"', '"sNaN12"', '"1,56"', '"12 EUR"', '""', '"N/A"', "true", '{"a": 1}', "1e131072",
        "1e-16384",
    ],
    "quantity_ordered": ["1.5", str(2**63), '"9e999999"', str(-(2**63) - 1), "[1]", '""', '"-"', '"1e-400000"'],
    "product_name": ["{}", "[]", "true"],
    "restock_date": [
        '"2026-10-1"', '"20261001"', '"2026-W40-4"', '"2026-13-01"', '"01.10.2026"', '"0000-01-01"', '"0000-00-00"',
        '""', '"N/A"', "0", '"2026-10-01T00:00:00Z"'
    ],
    "last_updated": ['"2026-10-01"', '"0000-00-00 00:00:00"', '""', '"0001-01-01T00:00:00+14:00"', "1790000000", "{}"],
    "read": ['"yes"', "2", '""', "[]"],
}  # fmt: skip
_DATASET_OF = {
    **dict.fromkeys(("order_total", "quantity_ordered", "product_name"), ORDERS),
    "restock_date": INVENTORY,
    "last_updated": dataset_named("warehouse_stock"),
    "read": dataset_named("notifications"),
}


@pytest.mark.parametrize(("column", "sent"), [(name, sent) for name, all_ in _UNREADABLE.items() for sent in all_])
def test_a_value_that_cannot_be_read_is_null_and_named(column: str, sent: str) -> None:
    dataset = _DATASET_OF[column]
    row = ORDER if dataset == ORDERS else {"sku": "A"}
    marked = json.dumps(row | {column: "MARK"}).replace('"MARK"', sent)
    number = [each.name for each in dataset.columns].index(column)

    page = decoder_of(dataset)(page_of([json.dumps(row), marked]))

    assert page.defects == {"unreadable_values": {1: {column: sent}}}
    assert page.rows[1] == tuple(None if position == number else value for position, value in enumerate(page.rows[0]))


def test_two_names_of_one_field_are_read_as_one_value() -> None:
    rows = [{"taxes": taxes, "product_sales_tax": other} for taxes, other in (("N/A", 1), (1, 1), (1, 2), ("N/A", "-"))]

    page = decoder_of(DAILY)(page_of([json.dumps(row | {"date": "2026-10-01", "sku": "A"}) for row in rows]))

    assert [row[6] for row in page.rows] == [1, 1, None, None]
    assert page.defects == {"unreadable_values": {2: {"taxes": "1 and 2"}, 3: {"taxes": '"N/A" and "-"'}}}


@pytest.mark.parametrize("is_lenient", [False, True])
def test_amounts_beyond_their_minor_unit_are_kept_and_named(is_lenient: bool) -> None:
    sent = [("EUR", "19.900000000000002"), ("EUR", "19.90000"), ("JPY", "19.9"), ("JPY", "1200.00"), ("KWD", "1.234")]
    rows = [
        json.dumps(ORDER | {"order_total": "MARK", "currency_code": code} | ({"novel": 1} if is_lenient else {}))
        for code, _ in sent
    ]

    texts = [row.replace('"MARK"', amount) for row, (_, amount) in zip(rows, sent, strict=True)]
    page = decoder_of(ORDERS)(page_of(texts))

    assert [str(row[3]) for row in page.rows] == [amount for _, amount in sent]
    expected = {0: {"order_total": "19.900000000000002"}, 2: {"order_total": "19.9"}}
    assert page.defects == {"excess_digits": expected}


@pytest.mark.parametrize("is_new", [False, True], ids=["a page of the declared form", "a page of another form"])
def test_a_row_without_its_key_is_a_row(is_new: bool) -> None:
    unnamed = {name: value for name, value in ORDER.items() if name != "platform_order_id"} | {"sku": None}

    rows = decoded(ORDERS, ORDER, unnamed | ({"novel": 1} if is_new else {}))

    assert [(row[0], row[6]) for row in rows] == [("O-1", "A"), (None, None)]


def test_a_row_that_is_no_object_is_refused() -> None:
    with pytest.raises(
        ContractViolationError, match="row 2 of the page: it is a string of 3 characters, not an object"
    ):
        decoded(ORDERS, ORDER, '"abc"')


def test_a_written_backslash_u0000_is_no_nul() -> None:
    rows = decoded(ORDERS, ORDER | {"product_name": "C:\\u0000", "novel": "\\\\u0000"})

    assert rows[0][8] == "C:\\u0000"


@pytest.mark.parametrize(
    "body",
    [
        b"<html></html>",
        b'{"data": [{"sku": "A"}',
        b'{"data": [}',
        b'{"data": [], "total": NaN}',
        b'{"data": [{"sku": "\\q"}]}',
        b'{"data": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_a_body_that_is_not_json_may_be_asked_for_again(body: bytes) -> None:
    with pytest.raises(UnreadableBodyError):
        decoder_of(ORDERS)(body)


@pytest.mark.parametrize(
    "sent",
    [
        '"error": "Too busy"',
        '"error": {"message": "Too busy", "code": 7}',
        '"status": "error", "message": "Too busy"',
        '"status": " ERROR ", "message": "Too busy"',
        '"error": true, "message": "Too busy"',
    ],
)
@pytest.mark.parametrize(
    "rows",
    ['"data": [], "total": 0', '"data": {"1": {"novel": 1}}', '"data": null', '"total": 5'],
    ids=lambda rows: rows,
)
def test_rows_beside_an_error_are_no_rows(sent: str, rows: str) -> None:
    decode = decoder_of(INVENTORY)

    for body in (f"{{{sent}, {rows}}}", f"{{{rows}, {sent}}}"):
        with pytest.raises(ErrorAnswerError, match="an answer that carries an error: Too busy"):
            decode(body.encode())


@pytest.mark.parametrize(
    "sent", ['"error": null', '"error": false', '"error": ""', '"error": []', '"status": "success"']
)
def test_rows_beside_no_error_are_rows(sent: str) -> None:
    page = decoder_of(INVENTORY)(f'{{{sent}, "data": [{{"sku": "A"}}], "total": 1}}'.encode())

    assert [row[0] for row in page.rows] == ["A"]


def test_an_empty_object_is_an_empty_list_only_beside_a_total() -> None:
    decoder, query = PageDecoder(INVENTORY, ZONE, WINDOW.start), ListQuery(INVENTORY)

    for _ in range(2):
        assert decoder.decode(b'{"data": []}', query).rows == []
        assert decoder.decode(b'{"data": {}, "total": "0"}', query).rows == []
        assert decoder.decode(b'{"data": {}}', replace(query, page=2)).rows == []
        with pytest.raises(UnreadableBodyError, match="an empty object as data, and no total"):
            decoder.decode(b'{"data": {}}', query)


@pytest.mark.parametrize("body", [b"[]", b'[{"sku": "A"}]'])
def test_a_bare_array_is_no_list(body: bytes) -> None:
    with pytest.raises(ContractViolationError, match="the answer is an array, not an object with data"):
        decoder_of(INVENTORY)(body)


@pytest.mark.parametrize("body", [b'{"status": "ok"}', b'{"data": null}', b'{"data": "none"}', b'{"data": 5}'])
def test_an_answer_without_rows_is_no_empty_page(body: bytes) -> None:
    with pytest.raises(ContractViolationError, match="data"):
        decoder_of(ORDERS)(body)
