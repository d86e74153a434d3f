"""An upstream of reports on a socket, whose words, formats and faults the test sets."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from seller_platform.contract import Account
from seller_platform_tests.support.http_server import Handler, serving

ACCOUNTS = [
    (account.key, account)
    for account in (
        Account(1, "Los Angeles", "US", "USD", "America/Los_Angeles", "US", "S1"),
        Account(2, "Auckland", "NZ", "NZD", "Pacific/Auckland", "NZ", "S2"),
    )
]
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
ROWS = [{"sku": "A", "product_name": "Cup", "units_ordered": 2, "product_sales": 10.5, "note": "€"}]


@dataclass
class AskedReport:
    """A report that the upstream was asked for."""

    query: dict[str, str]
    body: dict[str, str]
    asked_at: datetime
    polls: int = 0


@dataclass
class ReportUpstream:
    """The settings of the upstream, and the requests that it received.

    Attributes:
        lasts: How long it takes to write a report.
        pending, completed: Its names of these two states.
        ends: How many of the first reports end without rows, and their state and message.
        vanishes: How many of the first reports it deletes.
        number: Returns a report's id from its position.
        refuses: The status and headers of the answer to the next requests, by path.
        download: Returns the body of a download, by format.
    """

    url: str = ""
    clock: Callable[[], datetime] = lambda: NOON
    lasts: timedelta = timedelta(0)
    pending: str = "processing"
    completed: str = "completed"
    ends: tuple[int, str, str] = (0, "failed", "the disk is full")
    vanishes: int = 0
    number: Callable[[int], Any] = str
    refuses: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    download: Callable[[str], bytes] = lambda form: json.dumps(ROWS).encode()
    asked: list[AskedReport] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def answer(self, path: str, query: dict[str, str], body: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        self.seen.append(path)
        if self.refuses.get(path):
            status, headers = self.refuses[path].pop(0)
            return _json(status, {"message": "not now"}, headers)
        if path == "/reports/request":
            self.asked.append(AskedReport(query, body, self.clock()))
            return _json(200, {"status": "processing", "report_id": self.number(len(self.asked)), "message": "ok"})
        position = next((n for n in range(1, len(self.asked) + 1) if str(self.number(n)) == query["report_id"]), 0)
        if not position or position <= self.vanishes:
            return _json(404, {"message": "no such report"})
        report = self.asked[position - 1]
        is_done = self.clock() >= report.asked_at + self.lasts
        if path == "/reports/status":
            report.polls += 1
            return _json(200, self._status(position, is_done=is_done))
        if not is_done:
            return _json(409, {"message": "not ready"}, {"Retry-After": "60"})
        return 200, {}, self.download(query["format"])

    def _status(self, position: int, *, is_done: bool) -> dict[str, Any]:
        count, word, message = self.ends
        if is_done and position <= count:
            return {"status": word, "progress": 50, "message": message}
        return {"status": self.completed if is_done else self.pending, "progress": 100 * is_done}


def _json(status: int, document: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, str], bytes]:
    return status, headers or {}, json.dumps(document).encode()


@contextmanager
def report_upstream() -> Iterator[ReportUpstream]:
    """Serve the upstream on a free port of the loopback interface."""
    upstream = ReportUpstream()

    class Answering(Handler):
        protocol_version = "HTTP/1.1"

        def _answer(self, sent: bytes) -> None:
            url = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            status, headers, body = upstream.answer(url.path, query, json.loads(sent or b"{}"))
            self.answer(status, body, headers)

        def do_POST(self) -> None:
            upstream.keys.append(self.headers["Idempotency-Key"])
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def do_GET(self) -> None:
            self._answer(b"")

    with serving(Answering) as upstream.url:
        yield upstream
