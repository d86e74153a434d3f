"""Tests reports from the request to the rows, with an upstream on a socket."""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.errors import RequestError
from seller_platform.ingest.connections.request_budget import DailyRequests
from seller_platform.reports.jobs import JobState, ReportJob, job_of
from seller_platform.reports.loading import ReportOrder, load_report, poll_due, request_report, take_failures
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.simulation.reports import ACCOUNTS, NOON, ReportUpstream, report_upstream
from seller_platform_tests.support.stored_rows import connect_accounts

LOS_ANGELES, AUCKLAND = (KnownAccount(key, "default", account) for key, account in ACCOUNTS)
ORDER = ReportOrder("dps_date", "2026-03-09")


@dataclass
class Steps:
    """An upstream of reports, a warehouse, and a clock that a test moves."""

    upstream: ReportUpstream
    database: Database
    api: SellerApi
    now: datetime = NOON

    def request(self, order: ReportOrder = ORDER, account: KnownAccount = LOS_ANGELES) -> ReportJob | None:
        return request_report(self.api, self.database, account, order, now=self.now)

    def poll(self, **after: float) -> int:
        self.now += timedelta(**after)
        return poll_due(lambda _: self.api, self.database, clock=lambda: self.now, seconds=30, limit=100)

    def poll_until_it_ends(self, *, ticks: int = 20_000) -> ReportJob:
        """Poll the only job whenever it is due, until it ends.

        A tick is five seconds.
        """
        job, last = self.job(), self.now + timedelta(seconds=5 * ticks)
        while job.state in (JobState.REQUESTED, JobState.PENDING) and self.now < last:
            self.poll(seconds=5 * max(1, math.ceil((job.next_poll_at - self.now) / timedelta(seconds=5))))
            job = self.job()
        assert job.state not in (JobState.REQUESTED, JobState.PENDING), job
        return job

    def job(self, number: int = 1) -> ReportJob:
        return job_of(self.database, number)

    def load(self, job: ReportJob | None = None, account: KnownAccount = LOS_ANGELES) -> Receipt | None:
        return load_report(self.api, self.database, account, job or self.job(), clock=lambda: self.now, run_id="run")

    def rows(self) -> list[tuple[Any, ...]]:
        statement = text(
            "SELECT account, local_day, report_id, position, sku, product_name, units_ordered, product_sales, extra "
            "FROM seller.report_rows ORDER BY report_id, position"
        )
        return [tuple(row) for row in self.database.execute(statement)]


@pytest.fixture
def steps(database: Database) -> Iterator[Steps]:
    connect_accounts(database, ACCOUNTS)
    with report_upstream() as upstream, SellerApi(upstream.url, attempts=1) as api:
        opened = Steps(upstream, database, api)
        upstream.clock = lambda: opened.now
        yield opened


def test_a_report_is_requested_polled_and_stored(steps: Steps) -> None:
    steps.upstream.lasts = timedelta(seconds=20)

    requested = steps.request()
    ready = steps.poll_until_it_ends()
    receipt = steps.load()

    assert requested is not None
    assert (requested.state, requested.report_id) == (JobState.PENDING, "1")
    assert ready.state is JobState.READY
    assert steps.now - NOON <= timedelta(seconds=30)
    assert receipt is not None
    assert (receipt.rows, receipt.verdict, receipt.run_id) == (1, "unverifiable", "run")
    assert receipt.notes == {
        "report_id": "1",
        "selector": "dps_date",
        "value": "2026-03-09",
        "format": "json",
        "other_columns": ["note"],
    }
    assert (steps.job().state, steps.job().load_id) == (JobState.LOADED, receipt.id)
    assert [str(value) for value in steps.rows()[0]] == [
        "us-1", "2026-03-10", "1", "1", "A", "Cup", "2", "10.5", "{'note': '€'}",
    ]  # fmt: skip


def test_a_request_without_an_answer_is_sent_again_with_the_same_key(steps: Steps) -> None:
    steps.upstream.refuses["/reports/request"] = [(503, {}), (409, {"Retry-After": "1"})]

    steps.request()
    steps.poll_until_it_ends()
    steps.load()
    steps.request()

    first, other_job = steps.upstream.keys[0], steps.upstream.keys[3]
    assert steps.upstream.keys == [first, first, first, other_job]
    assert first != other_job


def test_yesterday_is_that_of_each_account(steps: Steps) -> None:
    steps.request(ReportOrder(), LOS_ANGELES)
    steps.request(ReportOrder("last_updated_date"), AUCKLAND)

    assert [asked.query.get("dps_date") for asked in steps.upstream.asked] == ["2026-03-09", None]
    assert [asked.query.get("last_updated_date") for asked in steps.upstream.asked] == [None, "2026-03-10"]


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (ReportOrder("dps_day", "2026-03-09"), "one of dps_date, product_sku, last_updated_date, not 'dps_day'"),
        (ReportOrder("dps_date", "20260309"), "dps_date must be a day in the form YYYY-MM-DD, not '20260309'"),
        (ReportOrder("dps_date", "2026-02-30"), "dps_date must be a day"),
        (ReportOrder("dps_date", "2026-03-11"), r"must not be after today, 2026-03-10 .* not 2026-03-11"),
        (ReportOrder("product_sku"), "product_sku must not be empty"),
        (ReportOrder(form="xlsx"), "one of json, csv, not 'xlsx'"),
        (ReportOrder(give_up_after=timedelta(0)), "must be positive"),
    ],
)
def test_what_cannot_be_requested_is_refused_and_not_stored(steps: Steps, order: ReportOrder, problem: str) -> None:
    with pytest.raises(RequestError, match=problem):
        steps.request(order)

    assert steps.upstream.seen == []
    assert steps.poll(hours=1) == 0


def test_a_report_of_three_hours_takes_at_most_forty_polls(steps: Steps) -> None:
    steps.upstream.lasts = timedelta(hours=3)
    steps.request()

    job = steps.poll_until_it_ends()

    assert job.state is JobState.READY
    assert steps.upstream.asked[0].polls <= 40
    assert steps.now - NOON <= timedelta(hours=3, minutes=11)


def test_an_unknown_status_is_waited_for_and_logged(steps: Steps, caplog: pytest.LogCaptureFixture) -> None:
    steps.upstream.pending, steps.upstream.lasts = "pondering", timedelta(seconds=20)
    steps.request()

    with caplog.at_level(logging.WARNING):
        job = steps.poll_until_it_ends(ticks=10)

    assert job.state is JobState.READY
    assert "the report dps_date 2026-03-09 of us-1: the upstream sent the unknown status 'pondering'" in caplog.text


def test_a_report_that_fails_is_reported_once(steps: Steps) -> None:
    steps.upstream.ends = (9, "failed", "the disk\n is full")
    steps.request()

    job = steps.poll_until_it_ends(ticks=4)
    failures, again = (take_failures(steps.database, "us-1", now=steps.now) for _ in range(2))

    assert job.state is JobState.FAILED
    assert [str(error) for error in failures] == [
        "the report dps_date 2026-03-09 of us-1: the upstream ended it as 'failed': the disk is full. Nothing of it "
        "was stored; request it again with `seller-platform report request`"
    ]
    assert again == ()
    assert len(steps.upstream.asked) == 1
    assert steps.poll(hours=9) == 0


def test_a_report_that_vanishes_before_download_has_failed(steps: Steps) -> None:
    steps.request()
    steps.poll(seconds=5)
    steps.upstream.vanishes = 1

    receipt = steps.load()

    assert receipt is None
    assert (steps.job().state, steps.job().problem) == (JobState.FAILED, "the upstream no longer has report 1")


def test_a_report_that_never_ends_is_given_up(steps: Steps) -> None:
    steps.upstream.lasts = timedelta(days=99)
    steps.request(replace(ORDER, give_up_after=timedelta(hours=1.5)))

    job = steps.poll_until_it_ends()
    failures = take_failures(steps.database, "us-1", now=steps.now)

    assert job.state is JobState.GIVEN_UP
    assert timedelta(0) <= steps.now - NOON - timedelta(hours=1.5) < timedelta(seconds=10)
    assert "it was not ready after 1.5 hours and 2" in str(failures[0])
    assert "(the last answer: processing)" in str(failures[0])
    assert steps.request() is not None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("refuses", {"/reports/request": [(422, {})]}, "the upstream answered 422: not now"),
        ("number", lambda _: True, "the answer has no report_id that can be asked for; it said: ok"),
    ],
)
def test_an_upstream_that_refuses_a_report_is_asked_once(steps: Steps, name: str, value: object, problem: str) -> None:
    setattr(steps.upstream, name, value)

    job = steps.request()

    assert job is not None
    assert job.state is JobState.FAILED
    assert problem in (job.problem or "")
    assert steps.poll(hours=9) == 0


@pytest.mark.parametrize("path", ["/reports/status", "/reports/download"])
def test_the_pause_that_the_upstream_asks_for_is_kept(steps: Steps, path: str) -> None:
    steps.upstream.refuses = {path: [(409, {"Retry-After": "300"})]}
    steps.request()
    steps.poll(seconds=5)
    if path == "/reports/download":
        assert steps.load() is None

    too_early, in_time = steps.poll(seconds=290), steps.poll(seconds=15)

    assert (too_early, in_time) == (0, 1)
    assert steps.job().state is JobState.READY


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[" + b'{"units_ordered": "many"},' * 4 + b"{}]", "4 of 5 values of units_ordered cannot be read"),
        (b'[{"novel": 1e200000}]', "row 1, column extra: not a value PostgreSQL takes"),
    ],
)
def test_rows_that_cannot_be_stored_fail_the_report(steps: Steps, body: bytes, problem: str) -> None:
    steps.upstream.download = lambda _: body
    steps.request()
    steps.poll(seconds=5)

    receipt = steps.load()

    assert receipt is None
    assert steps.job().state is JobState.FAILED
    assert problem in (steps.job().problem or "")
    assert steps.rows() == []


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=400)], ids=str)
def test_a_report_put_off_by_a_clock_ahead_is_followed_at_the_right_time(steps: Steps, jump: timedelta) -> None:
    steps.upstream.clock, steps.upstream.lasts = lambda: NOON, timedelta(minutes=10)
    steps.now += jump
    steps.request()
    steps.poll(seconds=5)
    put_off_to = steps.job().next_poll_at
    steps.now = NOON

    polls = steps.poll(seconds=5)
    again = steps.job()
    steps.upstream.lasts = timedelta(0)
    ready = steps.poll_until_it_ends()

    assert put_off_to > NOON + jump
    assert polls == 1
    assert (again.state, again.attempted_at) == (JobState.PENDING, NOON + timedelta(seconds=5))
    assert again.next_poll_at < NOON + timedelta(minutes=1)
    assert ready.state is JobState.READY


def test_a_report_waits_for_the_next_day_where_no_requests_are_left(steps: Steps) -> None:
    steps.upstream.lasts = timedelta(hours=20)
    meter = DailyRequests(steps.database, "default", 2, lambda: steps.now)
    with SellerApi(steps.upstream.url, attempts=1, meter=meter) as steps.api:
        steps.request()
        while steps.now.date() == NOON.date():
            steps.poll(hours=1)
        waiting = steps.job()
        steps.poll(hours=1)
        polled = steps.job()

    assert (waiting.state, waiting.polls) == (JobState.PENDING, 1)
    assert polled.polls == 2
    assert polled.attempted_at > NOON + timedelta(hours=8)
