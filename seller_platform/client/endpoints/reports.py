"""Reports over HTTP: requested, followed, and downloaded row by row; a download is never held as a whole."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice

import msgspec

from seller_platform.client.decoding.local_days import zone_named
from seller_platform.client.endpoints.report_rows import ReportReader, ReportRow
from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.responses import json_object, shortened
from seller_platform.client.lists.row_sink import RowSink
from seller_platform.contract import Account
from seller_platform.contract.loads import CountVerdict, LoadFacts
from seller_platform.contract.reports import COMPLETED_WORDS, CSV, FAILED_WORDS, PENDING_WORDS
from seller_platform.contract.wire import REPORT_DOWNLOAD, REPORT_REQUEST, REPORT_STATUS
from seller_platform.errors import ContractViolationError, UnreadableBodyError

_BATCH_ROWS = 2_000
_LONGEST_REPORT_ID = 200
_ACCEPTS = {CSV: "text/csv, application/json;q=0.5"}
_ACCEPTS_JSON = "application/json"


class Standing(Enum):
    """What the status of a report means for those who wait for it."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"


_STANDINGS = {
    Standing.COMPLETED: COMPLETED_WORDS,
    Standing.FAILED: FAILED_WORDS,
    Standing.PENDING: PENDING_WORDS,
}


@dataclass(frozen=True)
class ReportStatus:
    """How a report is.

    Attributes:
        word: What the upstream calls it, on one line; empty where it does not say.
        message: What it adds, on one line.
    """

    standing: Standing
    word: str
    message: str | None


def request_report(api: SellerApi, account: Account, selector: str, value: str) -> str:
    """Ask for a report and return its number.

    The parameters are sent in the query and in the body, for upstreams that look at one of them only.

    Raises:
        ContractViolationError: The answer has no number of a report.
        RequestRefusedError: The upstream refused the request for good.
        UpstreamUnavailableError: There was no good answer; a report may have been requested all the same.
    """
    asked = {**account.selection, selector: value}
    told = json_object(api.post(REPORT_REQUEST, asked, asked).body)
    report_id = told.get("report_id")
    if isinstance(report_id, int) and not isinstance(report_id, bool):
        return str(report_id)
    if isinstance(report_id, str) and report_id.isprintable() and 0 < len(report_id) <= _LONGEST_REPORT_ID:
        return report_id
    said = told.get("message")
    because = f"; it said: {shortened(said)}" if isinstance(said, str) and said else ""
    raise ContractViolationError(
        f"POST {REPORT_REQUEST}", f"the answer has no report_id that can be asked for{because}"
    )


def fetch_status(api: SellerApi, account: Account, report_id: str) -> ReportStatus:
    """Return how a report is; a word that no upstream is known to use leaves that open.

    Raises:
        RequestRefusedError: The upstream refused the request for good; 404 where it has no such report.
        UpstreamUnavailableError: There was no good answer.
    """
    told = json_object(api.get(REPORT_STATUS, _about(account, report_id)).body)
    word, message = (told[name] if isinstance(told.get(name), str) else "" for name in ("status", "message"))
    standings = (standing for standing, words in _STANDINGS.items() if word.strip().casefold() in words)
    return ReportStatus(next(standings, Standing.UNKNOWN), shortened(word), shortened(message) or None)


def download_report(  # noqa: PLR0917  # six facts, each of another type
    api: SellerApi, account: Account, report_id: str, form: str, local_day: str, sink: RowSink
) -> LoadFacts:
    """Read the rows of a completed report into the sink.

    The pages are batches of rows; a note names the columns that the contract does not.

    Args:
        form: json or csv; what comes as JSON is read as such in any case.
        local_day: The day that places the rows.

    Raises:
        ContractViolationError: A row cannot be stored; it is named by its position, from 1.
        RequestRefusedError: The upstream refused the request for good; 409 where the report is not ready.
        UpstreamUnavailableError: There was no good answer, or none that ended as it should.
    """
    zone = zone_named(account.timezone, account.key)

    def read(pieces: Iterator[bytes]) -> tuple[int, int, ReportReader]:
        sink.restart()
        body, reader = _Counted(pieces), ReportReader(zone)
        try:
            rows = reader.rows(codecs.iterdecode(body, "utf-8-sig"), form)
            pages = _write(rows, report_id, local_day, sink)
        except (UnicodeDecodeError, RecursionError, msgspec.DecodeError):
            raise UnreadableBodyError(f"a body that is not {form.upper()}") from None
        return body.bytes, pages, reader

    params = {**_about(account, report_id), "format": form}
    accept = _ACCEPTS.get(form, _ACCEPTS_JSON)
    requests, (size, pages, reader) = api.stream(REPORT_DOWNLOAD, params, read, accept=accept)
    notes = {"other_columns": sorted(reader.other_columns)} if reader.other_columns else {}
    return LoadFacts(requests, pages, size, None, CountVerdict.UNVERIFIABLE, notes)


def _about(account: Account, report_id: str) -> dict[str, str]:
    return {**account.selection, "report_id": report_id}


class _Counted:
    """The pieces of a body, counted as they pass."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self.bytes = pieces, 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.bytes += len(piece)
            yield piece


def _write(rows: Iterator[ReportRow], report_id: str, local_day: str, sink: RowSink) -> int:
    """Write the rows in batches, numbered from 1, and return how many batches there were."""
    pages = position = 0
    while batch := list(islice(rows, _BATCH_ROWS)):
        pages += 1
        sink.write(
            [(report_id, number, *values, local_day) for number, (values, _) in enumerate(batch, start=position + 1)],
            tags=(),
            extras={place: extra for place, (_, extra) in enumerate(batch) if extra is not None},
            page=pages,
        )
        position += len(batch)
    return pages
