"""Follows many report jobs to their end, with failed reports and crashed pollers.

`python -m seller_platform_tests.benchmarks.faults.report_jobs [--jobs 500]` prints one table.

Reports are requested at once from an upstream that takes up to three hours to write one. A tenth of them fails, and a
twentieth disappears. The clock is moved to the next due job. Two pollers share the polls, and some of their claims are
never finished. In the end every job must have the rows of one report, or an error that is reported once.
"""

import argparse
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.ingest.loads.reports import ReportOrder, load_report, poll_due, request_report, take_failures
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.jobs.report_jobs import claim_due, ready_jobs
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.support.installation import temporary_warehouse
from seller_platform_tests.support.report_upstream import ACCOUNTS, NOON

LONGEST_HOURS, FAILING, VANISHING, DYING_CLAIMS = 3.0, 0.10, 0.05, 0.02
POLLERS = 2
_TICK = timedelta(seconds=15)
_CLAIM = timedelta(seconds=120)
_ACCOUNTS = tuple(KnownAccount(key, "default", account) for key, account in ACCOUNTS)


@dataclass(frozen=True)
class Report:
    """A report that the upstream was asked for.

    Attributes:
        ends_at: When it is written, fails or disappears.
        fate: completed, failed or vanished.
    """

    account: str
    value: str
    ends_at: datetime
    fate: str


@dataclass
class Writer:
    """The upstream that writes the reports."""

    rng: random.Random
    now: datetime = NOON
    reports: dict[str, Report] = field(default_factory=dict)
    downloads: Counter[str] = field(default_factory=Counter)
    polls: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            asked = dict(request.url.params)
            if request.url.path == "/reports/request":
                number = str(len(self.reports) + 1)
                self.reports[number] = self._begun(asked)
                return httpx.Response(200, json={"status": "processing", "report_id": number})
            report = self.reports[asked["report_id"]]
            is_over = self.now >= report.ends_at
            if is_over and report.fate == "vanished":
                return httpx.Response(404, json={"message": "no such report"})
            if request.url.path == "/reports/status":
                self.polls += 1
                return httpx.Response(200, json={"status": report.fate if is_over else "processing"})
            self.downloads[asked["report_id"]] += 1
            return httpx.Response(200, content=json.dumps([{"sku": report.value, "units_ordered": 1}] * 3))

    def _begun(self, asked: dict[str, str]) -> Report:
        (fate,) = self.rng.choices(("completed", "failed", "vanished"), (1 - FAILING - VANISHING, FAILING, VANISHING))
        lasts = timedelta(hours=self.rng.uniform(0, LONGEST_HOURS))
        return Report(asked["seller_id"], asked["product_sku"], self.now + lasts, fate)


def follow_reports(database: Database, *, jobs: int, seed: int = 7) -> list[Figure]:
    """Request reports and follow each of them to its end."""
    began, rng = time.monotonic(), random.Random(seed)
    upstream = Writer(random.Random(seed + 1))
    save_connection(database, KnownConnection("default", "http://upstream", "http://upstream", "id"))
    save_accounts(database, "default", ACCOUNTS)
    with SellerApi("http://upstream", transport=httpx.MockTransport(upstream)) as api:
        for number in range(jobs):
            order = ReportOrder("product_sku", f"SKU {number}")
            assert request_report(api, database, _ACCOUNTS[number % 2], order, now=upstream.now) is not None
        died = _follow(api, database, upstream, rng)
    failures = [error for account in _ACCOUNTS for error in take_failures(database, account.key, now=upstream.now)]
    again = [error for account in _ACCOUNTS for error in take_failures(database, account.key, now=upstream.now)]
    return [
        *_ends(database, upstream, jobs),
        Figure("failures reported, and reported twice", f"{len(failures)}, {len(again)}",
               "each once", (len(failures), len(again)) == (_count(database, "state <> 'loaded'"), 0)),
        Figure("claims that died with their poller", died),
        Figure("polls of each report", f"{upstream.polls / len(upstream.reports):.1f}"),
        Figure("hours that passed", f"{(upstream.now - NOON) / timedelta(hours=1):.1f}"),
        Figure("seconds", f"{time.monotonic() - began:.0f}"),
    ]  # fmt: skip


def _follow(api: SellerApi, database: Database, upstream: Writer, rng: random.Random) -> int:
    """Move the clock from one due job to the next until all have ended.

    Returns:
        How many claims were never finished.
    """
    died = 0
    with ThreadPoolExecutor(POLLERS) as threads:
        while (due := _next_poll(database)) is not None:
            upstream.now = max(upstream.now + _TICK, due)
            if rng.random() < DYING_CLAIMS:
                died += len(
                    claim_due(
                        database,
                        now=upstream.now,
                        until=upstream.now + _CLAIM,
                        latest=upstream.now + 30 * _CLAIM,
                        limit=8,
                    )
                )
            pollers = [
                threads.submit(poll_due, lambda _: api, database, clock=lambda: upstream.now, seconds=60, limit=10_000)
                for _ in range(POLLERS)
            ]
            for poller in pollers:
                poller.result()
            for account in _ACCOUNTS:
                for job in ready_jobs(database, account.key):
                    load_report(api, database, account, job, clock=lambda: upstream.now, run_id=None)
    return died


def _next_poll(database: Database) -> datetime | None:
    statement = "SELECT min(next_poll_at) FROM platform.report_jobs WHERE state IN ('requested', 'pending')"
    with database.begin() as connection:
        next_poll: datetime | None = connection.execute(text(statement)).scalar()
        return next_poll


def _count(database: Database, condition: str) -> int:
    with database.begin() as connection:
        statement = f"SELECT count(*) FROM platform.report_jobs WHERE {condition}"
        return int(connection.execute(text(statement)).scalar_one())


def _ends(database: Database, upstream: Writer, jobs: int) -> list[Figure]:
    with database.begin() as connection:
        statement = "SELECT state, attempt, report_id, value FROM platform.report_jobs"
        ended = connection.execute(text(statement)).tuples().all()
        statement = "SELECT report_id, sku, count(*) FROM seller.report_rows GROUP BY 1, 2"
        stored = connection.execute(text(statement)).tuples().all()
    states = Counter(state for state, *_ in ended)
    loaded = {report_id: value for state, _, report_id, value in ended if state == "loaded"}
    fates = Counter(report.fate for report in upstream.reports.values())
    asked = Counter(report.value for report in upstream.reports.values())
    attempts = {value: attempt for _, attempt, _, value in ended}
    unloaded = _unloaded(upstream, loaded)
    return [
        Figure("jobs", len(ended), str(jobs), len(ended) == jobs),
        Figure("reports asked for", len(upstream.reports)),
        Figure("  of which failed, vanished", f"{fates['failed']}, {fates['vanished']}"),
        Figure("jobs loaded, failed", f"{states['loaded']}, {states['failed']}", "all",
               states["loaded"] + states["failed"] == jobs),
        Figure("orphans: reports written and never loaded", len(unloaded), "0", not unloaded),
        Figure("reports asked for without a reason", (asked - Counter(attempts)).total(), "0", asked == attempts),
        Figure("reports downloaded twice", sum(upstream.downloads.values()) - len(upstream.downloads), "0",
               set(upstream.downloads.values()) <= {1}),
        Figure("reports whose rows are doubled, missing or another's", _wrong(stored, loaded), "0",
               not _wrong(stored, loaded)),
    ]  # fmt: skip


def _unloaded(upstream: Writer, loaded: dict[str, str]) -> list[str]:
    """Return the reports that were written but never loaded."""
    return [
        number for number, report in upstream.reports.items() if report.fate == "completed" and number not in loaded
    ]


def _wrong(stored: Sequence[Any], loaded: dict[str, str]) -> int:
    right = {(report_id, value, 3) for report_id, value in loaded.items()}
    return len(right ^ {tuple(row) for row in stored})


def main() -> int:
    """Follow the reports and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args()
    with temporary_warehouse() as (url, _), Database(url) as database:
        figures = follow_reports(database, jobs=chosen.jobs, seed=chosen.seed)
    return print_figures("Report jobs", figures)


if __name__ == "__main__":
    sys.exit(main())
