"""Tests downloads of reports: accepted forms of JSON and CSV, and refused bodies."""

import json
import tracemalloc
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import repeat
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seller_platform.client.http.api import SellerApi
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.errors import ContractViolationError, RequestRefusedError, UpstreamUnavailableError
from seller_platform.reports.endpoints import ReportStatus, download_report, fetch_status
from seller_platform.service.reports.csv import csv_lines
from seller_platform_tests.support.http_upstream import BERLIN, FakeTime, KeptRows, api_of

NAMES = [column.name for column in REPORT_ROWS.columns]


class Sink(KeptRows):
    """Keeps the rows of the last attempt, by column."""

    def write(self, rows: Sequence[tuple[Any, ...]], *, tags: Sequence[str | None], **options: Any) -> None:
        assert tags == ()
        extras = options["extras"]
        for number, row in enumerate(rows):
            extra = {"extra": json.loads(extras[number], parse_float=Decimal)} if number in extras else {}
            self.rows.append(dict(zip((*NAMES, "day"), row, strict=True)) | extra)


def download(*bodies: bytes | Iterable[bytes], form: str = "json", **options: Any) -> tuple[Sink, LoadFacts]:
    """Download a report with one body for each attempt."""
    answers = iter(bodies)

    def answer(request: httpx.Request) -> httpx.Response:
        assert dict(request.url.params) == {**BERLIN.selection, "report_id": "7", "format": form}
        return httpx.Response(200, content=next(answers))

    sink = Sink()
    with api_of(answer, **{"attempts": len(bodies), **options}) as api:
        return sink, download_report(api, BERLIN, "7", form, "2026-03-10", sink)


def values_of(sink: Sink) -> list[tuple[Any, ...]]:
    columns = ("sku", "product_name", "units_ordered", "product_sales")
    return [(*(row[name] for name in columns), row.get("extra")) for row in sink.rows]


ROWS = [
    {"sku": "A", "product_name": 'Cup "12"', "units_ordered": 2, "product_sales": 10.10, "day": "2026-03-09"},
    {"sku": "椿\n,", "product_name": None, "units_ordered": None, "product_sales": -0.5, "day": None},
]
STORED = [
    ("A", 'Cup "12"', 2, Decimal("10.1"), {"day": "2026-03-09"}),
    ("椿\n,", None, None, Decimal("-0.5"), {"day": None}),
]
JSON = json.dumps(ROWS, ensure_ascii=False).encode()
CSV = (
    'sku,product_name,units_ordered,product_sales,day\r\nA,"Cup ""12""",2,10.10,2026-03-09\r\n"椿\n,",,,-0.5,\r\n'
).encode()


@pytest.mark.parametrize(
    "body",
    [
        JSON,
        b"\xef\xbb\xbf \n" + JSON,
        json.dumps(ROWS, indent=3).encode(),
        b'{"data": ' + JSON + b"}",
        b'{"status": "ok", "n": 12.5, "nested": {"data": [1, "]"]}, "data": ' + JSON + b', "total": 2}\n',
    ],
)
def test_json_is_read_as_an_array_or_as_the_data_of_an_object(body: bytes) -> None:
    sink, facts = download(body)

    assert values_of(sink) == STORED
    assert [(row["report_id"], row["position"], row["day"]) for row in sink.rows] == [
        ("7", 1, "2026-03-10"),
        ("7", 2, "2026-03-10"),
    ]
    assert facts == LoadFacts(1, 1, len(body), None, CountVerdict.UNVERIFIABLE, {"other_columns": ["day"]})


@pytest.mark.parametrize(
    "body", [CSV, b"\xef\xbb\xbf" + CSV, CSV.replace(b"\r\n", b"\n"), CSV + b"\r\n", b"\r\n" + CSV]
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_csv_is_read_with_every_line_end_and_with_a_byte_order_mark(body: bytes, size: int) -> None:
    sink, facts = download((body[start : start + size] for start in range(0, len(body), size)), form="csv")

    assert values_of(sink) == STORED
    assert facts.body_bytes == len(body)


def test_numbers_are_kept_as_they_are_spelled_however_long() -> None:
    body = b'[{"sku": 1e2, "x": [-0, 1E400, %s]}]' % (b"9" * 5000)
    texts: list[str] = []
    sink = Sink()
    sink.write = lambda rows, **more: texts.extend((rows[0][2], more["extras"][0]))  # type: ignore[method-assign]

    with api_of(lambda _: httpx.Response(200, content=body)) as api:
        download_report(api, BERLIN, "7", "json", "2026-03-10", sink)

    assert texts == ["1e2", '{"x":[-0, 1E400, %s]}' % ("9" * 5000)]


def test_fields_named_like_columns_of_ours_are_kept_apart() -> None:
    sink, _ = download(b'[{"report_id": 99, "position": 5, "sku": "A"}]')

    assert (sink.rows[0]["report_id"], sink.rows[0]["position"]) == ("7", 1)
    assert sink.rows[0]["extra"] == {"report_id": 99, "position": 5}


def test_rows_may_have_different_columns() -> None:
    sink, facts = download(b'[{"a": 1}, {}, {"sku": "S", "b": [1]}]')

    assert values_of(sink) == [
        (None, None, None, None, {"a": 1}),
        (None, None, None, None, None),
        ("S", None, None, None, {"b": [1]}),
    ]
    assert facts.notes == {"other_columns": ["a", "b"]}


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("json", b"[]"),
        ("json", b'{"data": []}'),
        ("json", b" [ ] \n"),
        ("csv", b"sku,units_ordered\r\n"),
        ("csv", b"sku\n"),
    ],
)
def test_an_empty_array_or_a_header_alone_is_an_empty_report(form: str, body: bytes) -> None:
    assert download(body, form=form)[0].rows == []


def test_json_that_comes_in_place_of_csv_is_read_as_what_it_is() -> None:
    assert values_of(download(JSON, form="csv")[0]) == STORED


_TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(_TEXTS.filter(lambda text: not text.startswith("'")), _TEXTS.filter(bool)), max_size=9))
def test_the_csv_of_our_service_is_read_back_as_it_was(texts: list[tuple[str, str]]) -> None:
    texts = [(name, other) for name, other in texts if not other.startswith("'")]
    rows = [{"product_name": name, "other": other} for name, other in texts]
    lines = csv_lines(["product_name", "other"], ",".join(map(json.dumps, rows)).encode())

    sink, _ = download(b"product_name,other\r\n" + lines, form="csv")

    assert [(row["product_name"] or "", row["extra"]["other"]) for row in sink.rows] == texts


@pytest.mark.parametrize(
    ("form", "body", "problem"),
    [
        ("json", JSON[:-1], "cut"),
        ("json", b'{"data": [{}]', "cut"),
        ("json", b"[{},]", "not JSON"),
        ("json", b"[{}] [{}]", "not JSON"),
        ("json", b"sku\r\nA\r\n", "not JSON"),
        ("json", b'{"data": [{"sku": "A"}], "data": []}', "the name 'data' twice"),
        ("json", b'[{"sku": "A", "units_ordered": 1, "sku": "B"}]', "an object that has the name 'sku' twice"),
        ("json", b'[{"sku": "A"}, {"note": "a", "n\\u006fte": "b"}]', "an object that has the name 'note' twice"),
        ("json", b"<html></html>", "an HTML page instead of a report"),
        ("json", b'{"data": [{"sku": "A"}], "error": "busy"}', "carries an error: busy"),
        ("json", b'{"status": "error", "data": []}', "carries an error"),
        ("csv", b" <!doctype html>", "an HTML page instead of a report"),
        ("csv", b"", "an empty body"),
        ("csv", b"sku,note\r\nA\r\n", "CSV whose row 1 has 1 cell, not 2"),
        ("csv", b'sku,note\r\nA,"no end\r\n', "not CSV"),
    ],
)
def test_a_body_that_cannot_be_read_is_asked_for_again(form: str, body: bytes, problem: str) -> None:
    time = FakeTime()

    sink, facts = download(body, JSON if form == "json" else CSV, form=form, time=time)

    assert values_of(sink) == STORED
    assert (facts.requests, facts.pages, len(time.pauses)) == (2, 1, 1)
    with pytest.raises(UpstreamUnavailableError, match=problem):
        download(body, form=form)


@pytest.mark.parametrize("start", [pytest.param(b"sku\r\n", marks=pytest.mark.nightly), b'sku\r\n"'])
def test_a_line_that_does_not_end_is_not_read_as_a_whole(start: bytes) -> None:
    pieces = (piece for whole in ([start], repeat(b"x" * 1_000_000, 40), [b"\n"]) for piece in whole)

    with pytest.raises(UpstreamUnavailableError, match="a body that is not CSV"):
        download(pieces, form="csv")


@pytest.mark.parametrize(
    ("form", "body", "problem"),
    [
        ("json", b'{"message": "no"}', "there is no data in the answer"),
        ("json", b'{"data": {"1": {}}}', "its data is no array"),
        ("json", b"[{}, 5]", "row 2 of the page: it is a number, not an object"),
        ("json", b"[" + b'{"units_ordered": 1.5},' * 3 + b'{"units_ordered": 1.5}]', "4 of 4 values of units_ordered"),
        ("csv", b"sku,x,x\r\nA,1,2\r\n", "two of its columns have the same name"),
    ],
)
def test_a_row_that_cannot_be_stored_is_refused_for_good(form: str, body: bytes, problem: str) -> None:
    with pytest.raises(ContractViolationError, match=problem):
        download(body, form=form, attempts=3)


@pytest.mark.parametrize(
    ("form", "body", "noted"),
    [
        ("json", b'[{"sku": "A"}, {"sku": "B", "units_ordered": 1.5}]', "units_ordered 1.5"),
        ("csv", b"sku,product_sales\r\nA,\r\nB,--\r\n", 'product_sales "--"'),
    ],
)
def test_a_value_that_cannot_be_read_is_null_and_named(form: str, body: bytes, noted: str) -> None:
    sink, facts = download(body, form=form)

    assert values_of(sink) == [("A", None, None, None, None), ("B", None, None, None, None)]
    assert facts.notes["unreadable_values"] == {"rows": 1, "first": [{"page": 1, "row": 2, "columns": [noted]}]}


_ODD = st.lists(
    st.text(st.characters(), max_size=4)
    | st.sampled_from(["\0", "\ud83d", "\ude00", "\U0001f600", "\\u0000", "\\", "\ufffd", '"', "\n", ","]),
    max_size=6,
).map("".join)


@settings(max_examples=60, deadline=None)
@given(odd=_ODD, is_escaped=st.booleans(), form=st.sampled_from(["json", "csv"]))
@example(odd="\ud83d\ude00", is_escaped=False, form="json")
def test_text_that_cannot_be_stored_is_replaced_and_its_row_is_noted(odd: str, is_escaped: bool, form: str) -> None:
    if form == "json":
        text = json.dumps([{"sku": "A"}, {"sku": f"-{odd}", "x": f"-{odd}"}], ensure_ascii=is_escaped)
    else:
        text = "sku,x\r\nA,\r\n" + ",".join(['"-' + odd.replace('"', '""') + '"'] * 2) + "\r\n"
    body = text.encode("utf-8", "surrogatepass")
    # Pairs of surrogates are stored as the character they stand for.
    expected = odd.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", "\ufffd")

    sink, facts = download(body, form=form)

    assert (sink.rows[1]["sku"], sink.rows[1]["extra"]) == (f"-{expected}", {"x": f"-{expected}"})
    is_replaced = "\0" in odd or expected.count("\ufffd") > odd.count("\ufffd")
    noted = {"rows": 1, "first": [{"page": 1, "row": 2, "columns": ["sku", "extra"]}]}
    assert facts.notes.get("replaced_text") == (noted if is_replaced else None)


@pytest.mark.parametrize(
    ("form", "body", "row"),
    [
        ("json", b'[{"sku": "a\xffb"}]', ["sku"]),
        ("csv", b"sku\r\na\xffb\r\n", ["sku"]),
        ("csv", b"sku,x\xff\r\n,1\r\n", ["extra"]),
    ],
)
def test_bytes_that_are_no_utf_8_are_replaced(form: str, body: bytes, row: list[str]) -> None:
    sink, facts = download(body, form=form)

    assert (sink.rows[0]["sku"] or next(iter(sink.rows[0]["extra"]))) in {"a\ufffdb", "x\ufffd"}
    assert facts.notes["replaced_text"] == {"rows": 1, "first": [{"page": 1, "row": 1, "columns": row}]}


@pytest.mark.parametrize(
    ("form", "skus"),
    [
        ("csv", [b"CAF\xc9", b"CAF\xc8"]),
        ("csv", [b"CAF\xc9", "CAF\ufffd".encode()]),
        ("csv", ["CAF\ufffd".encode(), b"A", b"CAF\xc9"]),
        ("json", [b"CAF\xc9", b"CAF\xc8"]),
        ("json", [b"CAF\\ufffd", b"CAF\\ud800"]),
    ],
)
def test_two_skus_that_replacement_makes_equal_are_refused(form: str, skus: list[bytes]) -> None:
    def body_of(skus: list[bytes]) -> bytes:
        return b"".join(
            [b"sku,x\n", *(b"%s,\n" % sku for sku in skus)]
            if form == "csv"
            else [b"[", b",".join(b'{"sku": "%s"}' % sku for sku in skus), b"]"]
        )

    assert len(download(body_of([skus[0]] * 2), form=form)[0].rows) == 2
    with pytest.raises(
        ContractViolationError, match=f"row {len(skus)} of page 1: its sku differs from that of another row only"
    ):
        download(body_of(skus), form=form)


def test_a_refusal_of_a_download_carries_the_pause_it_asks_for() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(409, json={"message": "not yet"}, headers={"Retry-After": "7"})

    with api_of(answer) as api, pytest.raises(RequestRefusedError, match="not yet") as refused:
        download_report(api, BERLIN, "7", "json", "2026-03-10", Sink())

    assert (refused.value.status, refused.value.retry_after_seconds) == (409, 7)


@pytest.mark.slow
def test_csv_is_never_held_as_a_whole() -> None:
    piece = (b"A,1," + b"n" * 500 + b"\r\n") * 80
    sink = Sink()
    sink.write = lambda rows, **_: None  # type: ignore[method-assign]  # only the memory of the reader counts here
    body = (part for whole in ([b"sku,units_ordered,note\r\n"], repeat(piece, 100)) for part in whole)

    with api_of(lambda _: httpx.Response(200, content=body)) as api:
        tracemalloc.start()
        facts = download_report(api, BERLIN, "7", "csv", "2026-03-10", sink)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert facts.body_bytes > 4_000_000
    assert peak < 3_500_000


@pytest.mark.parametrize(
    ("document", "status"),
    [
        ({"status": "Completed", "progress": 100}, ReportStatus("Completed", None)),
        ({"status": "done", "message": "a\n b"}, ReportStatus("done", "a b")),
        ({"status": "queued"}, ReportStatus("queued", None)),
        ({"status": "FAILED", "message": ""}, ReportStatus("FAILED", None)),
        ({"status": 5, "message": 6}, ReportStatus("", None)),
        ([], ReportStatus("", None)),
    ],
)
def test_a_status_is_read_whatever_its_words(document: object, status: ReportStatus) -> None:
    with api_of(lambda _: httpx.Response(200, json=document)) as api:
        assert fetch_status(api, BERLIN, "7") == status


def test_the_impatient_send_once_and_share_the_connections() -> None:
    seen: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"]["read"])
        return httpx.Response(500)

    with api_of(answer) as api:
        hasty: SellerApi = api.impatient(6)
        with pytest.raises(UpstreamUnavailableError, match="after 1 attempt"):
            fetch_status(hasty, BERLIN, "7")
        with pytest.raises(UpstreamUnavailableError, match="after 6 attempts"):
            fetch_status(api, BERLIN, "7")

    assert seen == [3, *[60] * 6]
