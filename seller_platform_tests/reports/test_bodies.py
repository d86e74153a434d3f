"""Tests how bodies are read over real sockets: what `faults/world` does not send of encodings, charsets, and ends."""

import gzip
import io
import json
from typing import Any

import pytest

from seller_platform.client.http.api import SellerApi
from seller_platform.errors import ContractViolationError, UpstreamError
from seller_platform.reports.endpoints import download_body, download_report
from seller_platform_tests.support.http_upstream import BERLIN, FakeTime, KeptRows
from seller_platform_tests.support.raw_server import framed, sending

DOCUMENT = {"data": [{"sku": "CAFÉ-1"}, {"sku": "CAFÈ-1"}], "note": "x" * 1_200_000}
JSON = json.dumps(DOCUMENT, ensure_ascii=False).encode()
CSV = "sku,product_sales\nCAFÉ-1,1.50\nCAFÈ-1,999.99\n".encode()
ROWS = [("CAFÉ-1", "1.50"), ("CAFÈ-1", "999.99")]


def api_at(url: str, **options: Any) -> SellerApi:
    return SellerApi(url, clock=FakeTime().clock, **options)


def rows_of(*answers: bytes) -> list[tuple[str, str]]:
    """Return SKU and sales of the rows of a CSV report."""
    sink = KeptRows()
    with sending(*answers) as url, api_at(url) as api:
        download_report(api, BERLIN, "7", "csv", "2026-03-10", sink)
    return [(row[2], str(row[5])) for row in sink.rows]


@pytest.mark.parametrize(
    ("coding", "body", "problem"),
    [
        ("gzip", gzip.compress(JSON)[:-1], "a gzip body that was cut"),
        ("gzip", gzip.compress(JSON) + b"\n", "something after its end"),
        ("gzip", gzip.compress(JSON) + b"\x1fmore", "no gzip"),
        ("gzip", gzip.compress(JSON)[:-8] + b"\0" * 8, "no gzip"),
        ("gzip, gzip", gzip.compress(JSON), "no gzip"),
    ],
)
def test_an_encoded_body_that_does_not_end_well_is_requested_again(coding: str, body: bytes, problem: str) -> None:
    answer = framed(body, f"Content-Encoding: {coding}", framing="close")
    how = r"cut after 6 attempts" if "cut" in problem else f"unreadable: .*{problem}.*; it came twice"

    with sending(answer, framed(JSON)) as url, api_at(url) as api:
        assert api.get("/user/me").requests == 2
    with sending(answer) as url, api_at(url) as api, pytest.raises(UpstreamError, match=how):
        api.get("/user/me")


@pytest.mark.parametrize("code", [204, 205])
def test_a_report_without_a_body_has_no_rows(code: int) -> None:
    answer, file = f"HTTP/1.1 {code} x\r\n\r\n".encode(), io.BytesIO(b"former")

    assert rows_of(answer) == []
    with sending(answer) as url, api_at(url) as api:
        assert download_body(api, BERLIN, "7", "json", file) == 0
    assert file.getvalue() == b""


def test_a_refusal_counts_whatever_its_body() -> None:
    busy = framed(b"?", "Content-Encoding: br", status="503 Busy")

    with sending(busy, framed(JSON)) as url, api_at(url) as api:
        assert api.get("/user/me").requests == 2


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        ('"UTF-16LE"', "utf-16-le"),
        ("utf-16", "utf-16-be"),
        (None, "utf-16"),
        (None, "utf-32"),
        ("utf-8", "utf-16-le"),
        ("x-unknown", "utf-8"),
        ("rot13", "utf-8"),
        ("us-ascii", "utf-8"),
        ("ISO-8859-1", "utf-8-sig"),
    ],
)
def test_the_declared_charset_is_used_where_it_decodes(charset: str | None, encoding: str) -> None:
    parameter = "" if charset is None else f"; Charset={charset}"
    json_body, csv_body = (body.decode().encode(encoding) for body in (JSON, CSV))

    with sending(framed(json_body, f"Content-Type: application/json{parameter}")) as url, api_at(url) as api:
        assert json.loads(api.get("/user/me").body) == DOCUMENT
    assert rows_of(framed(csv_body, f"Content-Type: text/csv{parameter}")) == ROWS


@pytest.mark.parametrize(
    ("charset", "encoding", "sku"),
    [
        ("Shift_JIS", "shift_jis", "椿〜A"),
        ("Shift_JIS", "cp932", "①髙"),
        ("SJIS", "cp932", "①髙"),
        ("windows-31j", "cp932", "①髙"),
        ("euc_kr", "cp949", "똠방각하"),
        ("ISO-8859-1", "cp1252", "5 € – 7"),
        ("Shift_JIS", "utf-8", "Maß"),
        ("EUC-JP", "euc_jp", "椿"),
        ("GB2312", "gb18030", "镕"),
        ("iso-2022-jp", "iso2022_jp", "椿"),
    ],
)
def test_a_charset_of_several_bytes_is_used_or_its_wider_one_or_utf_8(charset: str, encoding: str, sku: str) -> None:
    body = f"sku,product_sales\n{sku},1\n".encode(encoding)

    assert rows_of(framed(body, f"Content-Type: text/csv; charset={charset}")) == [(sku, "1")]


@pytest.mark.parametrize("content_type", ["text/csv", "application/json"])
def test_an_unknown_charset_of_other_text_than_utf_8_is_named(content_type: str) -> None:
    answer = framed(b'{"a": "\xff"}\n', f"Content-Type: {content_type}; charset=x-own")

    with sending(answer) as url, api_at(url) as api, pytest.raises(ContractViolationError, match="charset 'x-own'"):
        if content_type == "text/csv":
            download_report(api, BERLIN, "7", "csv", "2026-03-10", KeptRows())
        else:
            api.get("/user/me")


LENGTH, CHUNKED, CLOSED = (framed(CSV, framing=framing) for framing in ("length", "chunked", "close"))
BUSY = framed(b"", status="503 Busy")
CUT_CELL, CUT_ROW = CLOSED[:-4], CLOSED[: -len("CAFÈ-1,999.99\n".encode())]


@pytest.mark.parametrize(
    "answers",
    [
        [CUT_ROW, BUSY, CUT_CELL, LENGTH],
        [CLOSED, BUSY, CLOSED, BUSY],
        [framed(CSV[:-3]), framed(CSV[:-1], framing="close"), framed(CSV[:-1])],
        [LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0")],
        [CUT_CELL.replace(b"HTTP/1.1", b"HTTP/1.0"), CLOSED.replace(b"HTTP/1.1", b"HTTP/1.0")],
    ],
)
def test_a_report_without_a_certain_end_is_believed_when_it_comes_twice(answers: list[bytes]) -> None:
    file = io.BytesIO()

    assert rows_of(*answers) == ROWS
    with sending(*answers) as url, api_at(url) as api:
        download_body(api, BERLIN, "7", "csv", file)
    assert file.getvalue() in (CSV, CSV[:-1])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"sku,note\nA\n",
        b"article,price\nA,1\n",
        b"Service is down\n",
        b'sku,note\nA,"no end\n',
        b"[{},]",
        gzip.compress(CSV, mtime=0),
    ],
)
def test_a_report_that_comes_twice_and_cannot_be_read_is_no_outage(body: bytes) -> None:
    with pytest.raises(ContractViolationError, match=r"GET /reports/download: unreadable: .*; it came twice"):
        rows_of(framed(body), BUSY, framed(body), BUSY)
    assert rows_of(framed(body), LENGTH) == ROWS
