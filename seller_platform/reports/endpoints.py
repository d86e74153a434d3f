"""Reports over HTTP: requests a report, fetches its status, and downloads it row by row."""

import csv
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import IO

import msgspec

from seller_platform.client.decoding.envelopes import KEYED, CutBody
from seller_platform.client.decoding.pages import PageDecoder
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.characters import sent_bytes, storable_json
from seller_platform.client.http.responses import json_object, shortened
from seller_platform.client.lists.row_defects import RowDefects
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Account
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.contract.list_query import ListQuery
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.contract.wire import FORMULA_STARTS, REPORT_DOWNLOAD, REPORT_REQUEST, REPORT_STATUS, ROWS
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, UnreadableBodyError
from seller_platform.reports.downloads import StoredBody, download
from seller_platform.reports.selectors import CSV, JSON

_ACCEPTS = {CSV: "text/csv, application/json;q=0.5", JSON: "application/json"}
PAGE_ROWS = 500
_LARGEST_CELL = 1 << 20
_SEPARATORS = ",;\t|"
_ESCAPE = re.compile(f"^'(?= *({'|'.join(map(re.escape, FORMULA_STARTS))}))")

ROWS_OF_ONE_REPORT = replace(REPORT_ROWS, columns=REPORT_ROWS.columns[2:])
"""The rows as upstreams send them: without the number of the report, and without their position in it."""

_COLUMNS = {name: None for column in ROWS_OF_ONE_REPORT.columns for name in (column.name, *column.aliases)}
"""The names of the contract's columns, in their order."""


@dataclass(frozen=True)
class ReportStatus:
    """The status of a report: the upstream's own word on one line, empty where it sends none, and its message."""

    word: str
    message: str | None


def request_report(api: SellerApi, account: Account, selector: str, value: str, *, key: str) -> str:
    """Request a report and return its number.

    The parameters are sent in the query and in the body, because some upstreams read only one of them.

    Args:
        key: With the same one, an upstream that knows such keys makes no second report.

    Raises:
        ContractViolationError: The answer has no report number.
        RequestRefusedError: The upstream refused the request for good.
        UpstreamUnavailableError: There was no good answer; a report may have been requested all the same.
    """
    sent = {**account.selection, selector: value}
    _, body = api.request(
        "POST", REPORT_REQUEST, sent, sent, decode=json_object, twice_is_harmless=False, idempotency_key=key
    )
    report_id = body.get("report_id")
    if isinstance(report_id, int) and not isinstance(report_id, bool):
        return str(report_id)
    if isinstance(report_id, str) and report_id.isprintable() and 0 < len(report_id) <= 200:
        return report_id
    message = body.get("message")
    because = f"; it said: {shortened(message)}" if isinstance(message, str) and message else ""
    raise ContractViolationError(
        f"POST {REPORT_REQUEST}", f"the answer has no report_id that can be asked for{because}"
    )


def fetch_status(api: SellerApi, account: Account, report_id: str) -> ReportStatus:
    """Return the status of a report.

    Raises:
        RequestRefusedError: The upstream refused the request for good; 404 where it has no such report.
        UpstreamUnavailableError: There was no good answer.
    """
    body = json_object(api.get(REPORT_STATUS, _about(account, report_id)).body)
    word, message = (body[name] if isinstance(body.get(name), str) else "" for name in ("status", "message"))
    return ReportStatus(shortened(word), shortened(message) or None)


def download_report(  # noqa: PLR0917  # six facts, each of another type
    api: SellerApi, account: Account, report_id: str, form: str, local_day: str, sink: RowSink
) -> LoadFacts:
    """Read the rows of a completed report into the sink.

    They are decoded as pages of a list. The note `other_columns` lists the columns that the contract does not name.

    Args:
        form: json or csv; a body that is JSON is read as JSON in any case.
        local_day: The last value of each row.

    Raises:
        ContractViolationError: The report is unreadable, or its JSON is too large; or a row cannot be stored, which is
            named by its position.
        RequestRefusedError: The upstream refused the request for good; 409 where the report is not ready.
        UpstreamUnavailableError: There was no good answer, or none that was whole.
    """
    decoder = PageDecoder(ROWS_OF_ONE_REPORT, account.zone, local_day, currency=account.currency_code)
    query = ListQuery(ROWS_OF_ONE_REPORT, account)

    def read(body: StoredBody) -> tuple[int, int, RowDefects, set[str]]:
        sink.restart()
        defects, other_columns, number = RowDefects(ROWS_OF_ONE_REPORT), set[str](), 0
        for number, text in enumerate(_pages(body, form), start=1):
            page, before = decoder.decode(text, query), sink.count
            defects.add(page.rows, page.defects, page=1, before=before)
            rows = [(report_id, position, *row) for position, row in enumerate(page.rows, start=before + 1)]
            sink.write(rows, tags=(), extras=page.extras, page=number)
            other_columns |= page.unknown_fields
        return body.size, number, defects, other_columns

    params = {**_about(account, report_id), "format": form}
    with tempfile.SpooledTemporaryFile(1 << 20) as file:
        requests, result = download(api, REPORT_DOWNLOAD, params, file, read, accept=_ACCEPTS[form])
    size, pages, defects, other_columns = result
    defects.check(f"report {report_id}", sink.count)
    notes = defects.notes | ({"other_columns": sorted(other_columns)} if other_columns else {})
    return LoadFacts(requests, pages, size, None, CountVerdict.UNVERIFIABLE, notes)


def download_body(api: SellerApi, account: Account, report_id: str, form: str, file: IO[bytes]) -> int:
    """Write the body of a completed report into a file, as the upstream sends it, and return how many bytes it has.

    Raises:
        ContractViolationError: The body is JSON where CSV was requested, or the other way round.
        RequestRefusedError: The upstream refused the request for good; 409 where the report is not ready.
        UpstreamUnavailableError: There was no good answer, or none that was whole.
    """

    def read(body: StoredBody) -> int:
        if body.size and body.is_json is (form == CSV):
            sent = "JSON" if form == CSV else "no JSON"
            raise ContractViolationError(f"GET {REPORT_DOWNLOAD}", f"{form.upper()} was requested, but {sent} was sent")
        if body.is_json:
            _json_rows(storable_json(body.utf_8()))
        return body.size

    params = {**_about(account, report_id), "format": form}
    return download(api, REPORT_DOWNLOAD, params, file, read, accept=_ACCEPTS[form])[1]


def _about(account: Account, report_id: str) -> dict[str, str]:
    return {**account.selection, "report_id": report_id}


def _pages(body: StoredBody, form: str) -> Iterator[bytes]:
    """Yield the pages of a body; one that is JSON is read as JSON, even where CSV was requested."""
    if body.is_json:
        text = body.utf_8()
        if storable_json(text) is not text:  # both of its variants are decoded at once
            yield text
            return
        rows = _json_rows(text)
        for first in range(0, len(rows), PAGE_ROWS):
            yield b'{"%b": [%b]}' % (ROWS.encode(), b",".join(rows[first : first + PAGE_ROWS]))
    elif form == CSV and body.size:
        yield from csv_pages(body.lines())
    elif body.size:
        raise UnreadableBodyError("a body that is not JSON")


def _json_rows(text: bytes) -> list[msgspec.Raw]:
    """Return the JSON of each row."""
    cut = CutBody.of(text, ROWS_OF_ONE_REPORT, ROWS)
    if cut.container == KEYED:
        raise ContractViolationError("the report", f"its {ROWS} is no array, but its rows should be there")
    return msgspec.json.decode(cut.rows, type=list[msgspec.Raw])


def csv_pages(sent: Iterator[str]) -> Iterator[bytes]:
    """Yield the rows of lines of CSV as bodies of pages in JSON.

    Raises:
        ContractViolationError: Two columns have the same name.
        UnreadableBodyError: The text is no CSV, has no column of the contract, or was cut.
    """
    csv.field_size_limit(_LARGEST_CELL)
    header = next((line for line in sent if line.strip()), "")
    try:
        by_separator = {each: next(csv.reader([header], delimiter=each), []) for each in _SEPARATORS}
        delimiter = max(_SEPARATORS, key=lambda each: len(_COLUMNS.keys() & by_separator[each]))
        lines = filter(None, csv.reader(chain([header], sent), delimiter=delimiter, strict=True))
        names = list(map(str.strip, next(lines, [])))
        if _COLUMNS.keys().isdisjoint(names):
            columns, shown = ", ".join(_COLUMNS), shortened(header)
            raise UnreadableBodyError(f"CSV whose header {shown!r} has none of the columns {columns}")
        if len(set(names)) < len(names):
            raise ContractViolationError("the report", "two of its columns have the same name")
        rows = (_row(names, cells, number) for number, cells in enumerate(lines, start=1))
        while page := list(islice(rows, PAGE_ROWS)):
            yield sent_bytes(json.dumps({ROWS: page}, ensure_ascii=False))
    except csv.Error as error:
        raise UnreadableBodyError(f"a body that is not CSV ({error})") from None


def _row(names: list[str], cells: list[str], number: int) -> dict[str, str | None]:
    """Return the cells by the names of their columns, without the apostrophes before formulas."""
    if len(cells) != len(names):
        raise UnreadableBodyError(f"CSV whose row {number} has {count_of(len(cells), 'cell')}, not {len(names)}")
    return {name: _ESCAPE.sub("", cell) or None for name, cell in zip(names, cells, strict=True)}
