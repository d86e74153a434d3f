"""The reports of the upstream, whose words, formats and faults a test sets, and a socket that serves them."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

from seller_platform.contract import Account
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.installation import CONNECTION, Site
from seller_platform_tests.support.raw_server import Answer as Sent
from seller_platform_tests.support.raw_server import Request, serving

ACCOUNTS = [
    (account.key, account)
    for account in (
        Account(1, "Los Angeles", "US", "USD", "America/Los_Angeles", "US", "S1"),
        Account(2, "Auckland", "NZ", "NZD", "Pacific/Auckland", "NZ", "S2"),
    )
]
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
Answer = tuple[int, dict[str, str], bytes]
ROWS = [{"sku": "A", "product_name": "Cup", "units_ordered": 2, "product_sales": 10.5, "note": "€"}]


@dataclass
class Report:
    """A report that was requested.

    Attributes:
        key: The idempotency key of its request.
    """

    number: Any
    key: str | None
    query: dict[str, str]
    body: dict[str, str]
    asked_at: datetime
    rows: Sequence[Mapping[str, object]]
    is_gone: bool = False
    polls: int = 0
    downloads: int = 0


@dataclass
class ReportUpstream:
    """The settings of the upstream, and the requests that it received.

    Attributes:
        keeps_keys: Whether a request with a key that it knows has the answer of the former one.
        lasts: How long it takes to write a report.
        pending, completed: Its names of these two states.
        ends: How many of the first reports end without rows, and their state and message.
        vanishes: How many of the first reports it deletes.
        number: Returns a report's id from its position.
        write: Returns a report's rows from its position.
        refuses: The status and headers of the answer to the next requests, by path.
        download: Returns the body of a download, by format; None for the report's rows.
    """

    url: str = ""
    clock: Callable[[], datetime] = lambda: NOON
    keeps_keys: bool = False
    lasts: timedelta = timedelta(0)
    pending: str = "processing"
    completed: str = "completed"
    ends: tuple[int, str, str] = (0, "failed", "the disk is full")
    vanishes: int = 0
    number: Callable[[int], Any] = str
    write: Callable[[int], Sequence[Mapping[str, object]]] = lambda position: ROWS
    refuses: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    download: Callable[[str], bytes] | None = None
    asked: list[Report] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def answer(self, path: str, query: dict[str, str], body: dict[str, str], key: str | None = None) -> Answer:
        """Return the status, the headers and the body of an answer."""
        self.seen.append(path)
        if path == "/reports/request":
            self.keys.append(key)
        if self.refuses.get(path):
            status, headers = self.refuses[path].pop(0)
            return _json(status, {"message": "not now"}, headers)
        if path == "/reports/request":
            report = next((each for each in self.asked if self.keeps_keys and each.key == key), None)
            if report is None:
                position = len(self.asked) + 1
                report = Report(self.number(position), key, query, body, self.clock(), self.write(position))
                self.asked.append(report)
            return _json(200, {"status": "processing", "report_id": report.number, "message": "ok"})
        position, report = next(
            ((n, each) for n, each in enumerate(self.asked, 1) if str(each.number) == query["report_id"]), (0, None)
        )
        if report is None or report.is_gone or position <= self.vanishes:
            return _json(404, {"message": "no such report"})
        is_done = self.clock() >= report.asked_at + self.lasts
        if path == "/reports/status":
            report.polls += 1
            return _json(200, self._status(position, is_done=is_done))
        if not is_done:
            return _json(409, {"message": "not ready"}, {"Retry-After": "60"})
        report.downloads += 1
        write = self.download or (lambda form: _body(report.rows, form))
        return 200, {}, write(query["format"])

    def connect(self, database: Database, home: Path) -> Upstream:
        """Store a connection to it with its accounts, and return the application that calls it."""
        application = Upstream(self.url, self.url, "id", "secret", "http://127.0.0.1:1/cb")
        tokens = {"access_token": "access", "refresh_token": "refresh", "expires_in": 1_296_000}
        Site(database.url, home, application).connect(tokens)
        save_accounts(database, CONNECTION, ACCOUNTS)
        return application

    def forget(self, number: str) -> None:
        """Delete a report."""
        for report in self.asked:
            report.is_gone |= report.number == number

    def _status(self, position: int, *, is_done: bool) -> dict[str, Any]:
        count, word, message = self.ends
        if is_done and position <= count:
            return {"status": word, "progress": 50, "message": message}
        return {"status": self.completed if is_done else self.pending, "progress": 100 * is_done}


def _body(rows: Sequence[Mapping[str, object]], form: str) -> bytes:
    if form != "csv":
        return json.dumps(list(rows)).encode()
    text = StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _json(status: int, document: Any, headers: dict[str, str] | None = None) -> Answer:
    return status, headers or {}, json.dumps(document).encode()


@contextmanager
def report_upstream() -> Iterator[ReportUpstream]:
    """Serve the upstream on a free port of the loopback interface."""
    upstream = ReportUpstream()

    def answer(request: Request) -> Sent:
        body, key = json.loads(request.body or b"{}"), request.headers.get("idempotency-key")
        status, headers, sent = upstream.answer(request.path, request.query, body, key)
        return Sent(status, sent, headers)

    with serving(answer) as server:
        upstream.url = server.url
        yield upstream
