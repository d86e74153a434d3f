"""Tests reports from the request to the rows, with an upstream on a socket."""

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SellerApi
from seller_platform.errors import InvalidReportError, UpstreamUnavailableError
from seller_platform.ingest.loads.reports import (
    GIVE_UP_AFTER,
    ReportOrder,
    load_report,
    pause_after,
    poll_due,
    poll_report,
    request_report,
    take_failures,
)
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.jobs.report_jobs import JobState, ReportJob, job_of, move_job, open_job
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.report_upstream import ACCOUNTS, NOON, ROWS, ReportUpstream, report_upstream

LOS_ANGELES, AUCKLAND = (KnownAccount(key, "default", account) for key, account in ACCOUNTS)
ORDER = ReportOrder("dps_date", "2026-03-09")


@dataclass
class Desk:
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
        with self.database.begin() as connection:
            return [tuple(row) for row in connection.execute(statement)]


@pytest.fixture
def desk(database: Database) -> Iterator[Desk]:
    save_connection(database, KnownConnection("default", "u", "u", "c"))
    save_accounts(database, "default", ACCOUNTS)
    with report_upstream() as upstream, SellerApi(upstream.url, attempts=1) as api:
        opened = Desk(upstream, database, api)
        upstream.clock = lambda: opened.now
        yield opened


def test_a_report_is_requested_followed_and_stored(desk: Desk) -> None:
    desk.upstream.lasts = timedelta(seconds=20)

    requested = desk.request()
    ready = desk.poll_until_it_ends()
    receipt = desk.load()

    assert requested is not None
    assert (requested.state, requested.report_id) == (JobState.PENDING, "1")
    assert ready.state is JobState.READY
    assert desk.now - NOON <= timedelta(seconds=30)
    assert receipt is not None
    assert (receipt.rows, receipt.verdict, receipt.run_id) == (1, "unverifiable", "run")
    assert receipt.notes == {
        "report_id": "1",
        "selector": "dps_date",
        "value": "2026-03-09",
        "format": "json",
        "other_columns": ["note"],
    }
    assert (desk.job().state, desk.job().load_id) == (JobState.LOADED, receipt.id)
    assert [str(value) for value in desk.rows()[0]] == [
        "S1.US", "2026-03-10", "1", "1", "A", "Cup", "2", "10.5", "{'note': '€'}",
    ]  # fmt: skip


def test_the_selector_and_the_account_are_in_the_query_and_in_the_body(desk: Desk) -> None:
    desk.request(ReportOrder("product_sku", "A & B/ü"))

    expected = {"seller_id": "S1", "marketplace_id": "US", "product_sku": "A & B/ü"}
    assert [(asked.query, asked.body) for asked in desk.upstream.asked] == [(expected, expected)]


def test_yesterday_is_that_of_each_account(desk: Desk) -> None:
    desk.request(ReportOrder(), LOS_ANGELES)
    desk.request(ReportOrder("last_updated_date"), AUCKLAND)

    assert [asked.query.get("dps_date") for asked in desk.upstream.asked] == ["2026-03-09", None]
    assert [asked.query.get("last_updated_date") for asked in desk.upstream.asked] == [None, "2026-03-10"]


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (ReportOrder("dps_day", "2026-03-09"), "one of dps_date, product_sku, last_updated_date, not 'dps_day'"),
        (ReportOrder("dps_date", "20260309"), "dps_date must be a day in the form YYYY-MM-DD, not '20260309'"),
        (ReportOrder("dps_date", "2026-02-30"), "dps_date must be a day"),
        (ReportOrder("product_sku"), "product_sku must not be empty"),
        (ReportOrder(form="xlsx"), "one of json, csv, not 'xlsx'"),
        (ReportOrder(give_up_after=timedelta(0)), "must be positive"),
    ],
)
def test_what_cannot_be_requested_is_refused_before_anything_is_stored(
    desk: Desk, order: ReportOrder, problem: str
) -> None:
    with pytest.raises(InvalidReportError, match=problem):
        desk.request(order)

    assert desk.upstream.seen == []
    assert desk.poll(hours=1) == 0


def test_an_open_report_is_not_requested_again_and_a_completed_one_is(desk: Desk) -> None:
    first, same, other = desk.request(), desk.request(), desk.request(account=AUCKLAND)
    desk.poll(seconds=5)
    while_ready = desk.request()
    desk.load()
    afterwards = desk.request()

    assert first is not None
    assert same is None
    assert other is not None
    assert while_ready is None
    assert afterwards is not None
    assert len(desk.upstream.asked) == 3


def test_a_report_of_three_hours_takes_at_most_forty_polls(desk: Desk) -> None:
    desk.upstream.lasts = timedelta(hours=3)
    desk.request()

    job = desk.poll_until_it_ends()

    assert job.state is JobState.READY
    assert desk.upstream.asked[0].polls <= 40
    assert desk.now - NOON <= timedelta(hours=3, minutes=11)


def test_pauses_grow_from_seconds_to_ten_minutes_and_no_further() -> None:
    pauses = [pause_after(polls) for polls in range(2_000)]

    assert pauses == sorted(pauses)
    assert pauses[0] == timedelta(seconds=3)
    assert pauses[-1] == timedelta(minutes=10)


@pytest.mark.parametrize("word", ["completed", "COMPLETED", " Done "])
@pytest.mark.parametrize("pending", ["processing", "Queued", "WORKING", "cancelling"])
def test_every_spelling_of_a_status_is_understood(
    desk: Desk, caplog: pytest.LogCaptureFixture, word: str, pending: str
) -> None:
    desk.upstream.pending, desk.upstream.completed, desk.upstream.lasts = pending, word, timedelta(seconds=10)
    desk.upstream.number = int
    desk.request()

    desk.poll(seconds=5)
    in_between = desk.job()
    job = desk.poll_until_it_ends(ticks=4)

    assert (in_between.state, in_between.upstream_status) == (JobState.PENDING, " ".join(pending.split()))
    assert (job.state, job.report_id) == (JobState.READY, "1")
    assert [record for record in caplog.records if record.name == "seller_platform.ingest.loads.reports"] == []


def test_an_unknown_status_is_waited_for_and_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.upstream.pending, desk.upstream.lasts = "pondering", timedelta(seconds=20)
    desk.request()

    with caplog.at_level(logging.WARNING):
        job = desk.poll_until_it_ends(ticks=10)

    assert job.state is JobState.READY
    assert "the report dps_date 2026-03-09 of S1.US: the upstream sent the unknown status 'pondering'" in caplog.text


@pytest.mark.parametrize("word", ["failed", "Cancelled"])
def test_a_report_that_fails_is_asked_for_once_more(desk: Desk, word: str) -> None:
    desk.upstream.ends = (1, word, "")
    desk.request()

    job = desk.poll_until_it_ends(ticks=4)
    desk.load()

    assert (job.state, job.attempt, job.report_id) == (JobState.READY, 2, "2")
    assert [row[2] for row in desk.rows()] == ["2"]


def test_a_report_that_fails_twice_has_failed_and_is_reported_once(desk: Desk) -> None:
    desk.upstream.ends = (9, "failed", "the disk\n is full")
    desk.request()

    job = desk.poll_until_it_ends(ticks=4)
    failures, again = (take_failures(desk.database, "S1.US", now=desk.now) for _ in range(2))

    assert job.state is JobState.FAILED
    assert [str(error) for error in failures] == [
        "the report dps_date 2026-03-09 of S1.US: the upstream ended it as 'failed': the disk is full; it was "
        "requested 2 times. Nothing of it was stored; request it again with `request_reports`"
    ]
    assert again == ()
    assert len(desk.upstream.asked) == 2
    assert desk.poll(hours=9) == 0


@pytest.mark.parametrize(("vanishes", "state"), [(1, JobState.READY), (2, JobState.FAILED)])
def test_a_report_that_vanished_is_asked_for_once_more(desk: Desk, vanishes: int, state: JobState) -> None:
    desk.upstream.vanishes = vanishes
    desk.request()

    job = desk.poll_until_it_ends(ticks=4)

    assert job.state is state
    assert len(desk.upstream.asked) == 2
    assert (job.problem or "").startswith("the upstream no longer has report 2") == (state is JobState.FAILED)


def test_a_report_that_vanishes_before_download_is_requested_once_more(desk: Desk) -> None:
    desk.request()
    desk.poll(seconds=5)
    desk.upstream.vanishes = 1

    receipt = desk.load()
    job = desk.poll_until_it_ends(ticks=4)
    desk.load()

    assert receipt is None
    assert (job.state, job.attempt) == (JobState.READY, 2)
    assert len(desk.rows()) == 1


def test_a_report_that_never_ends_is_given_up(desk: Desk) -> None:
    desk.upstream.lasts = timedelta(days=99)
    desk.request(replace(ORDER, give_up_after=timedelta(hours=1.5)))

    job = desk.poll_until_it_ends()
    failures = take_failures(desk.database, "S1.US", now=desk.now)

    assert job.state is JobState.GIVEN_UP
    assert timedelta(0) <= desk.now - NOON - timedelta(hours=1.5) < timedelta(seconds=10)
    assert "it was not ready after 1.5 hours and 2" in str(failures[0])
    assert "(the last answer: processing)" in str(failures[0])
    assert desk.request() is not None


def test_a_ready_report_is_not_given_up_for_lack_of_polls(desk: Desk) -> None:
    desk.request()

    desk.poll(days=3)

    assert desk.job().state is JobState.READY


def test_an_upstream_that_refuses_a_report_is_asked_only_once(desk: Desk) -> None:
    desk.upstream.refuses = {"/reports/request": [(422, {})]}

    job = desk.request()

    assert job is not None
    assert job.state is JobState.FAILED
    assert "the upstream answered 422: not now" in (job.problem or "")
    assert desk.poll(hours=9) == 0


def test_an_answer_without_a_number_fails_the_report(desk: Desk) -> None:
    desk.upstream.number = lambda _: True

    job = desk.request()

    assert job is not None
    assert job.state is JobState.FAILED
    assert "the answer has no report_id that can be asked for; it said: ok" in (job.problem or "")


def test_an_upstream_that_is_away_is_asked_again_until_it_is_back(desk: Desk) -> None:
    desk.upstream.refuses = {"/reports/request": [(500, {})] * 2, "/reports/status": [(503, {})] * 2}

    first = desk.request()
    job = desk.poll_until_it_ends(ticks=20)

    assert first is not None
    assert first.state is JobState.REQUESTED
    assert job.state is JobState.READY
    assert len(desk.upstream.asked) == 1


@pytest.mark.slow
def test_an_upstream_that_stays_away_is_given_up(desk: Desk) -> None:
    desk.upstream.refuses = {"/reports/request": [(500, {})] * 999}
    desk.request()

    job = desk.poll_until_it_ends()

    assert job.state is JobState.GIVEN_UP
    assert "after 6 hours" in (job.problem or "")
    assert "status 500" in (job.problem or "")


@pytest.mark.parametrize("path", ["/reports/status", "/reports/download"])
def test_the_pause_that_the_upstream_asks_for_is_kept(desk: Desk, path: str) -> None:
    desk.upstream.refuses = {path: [(409, {"Retry-After": "300"})]}
    desk.request()
    desk.poll(seconds=5)
    if path == "/reports/download":
        assert desk.load() is None

    too_early, in_time = desk.poll(seconds=290), desk.poll(seconds=15)

    assert (too_early, in_time) == (0, 1)
    assert desk.job().state is JobState.READY


def test_a_process_that_ends_before_it_asks_leaves_a_job_that_is_taken_up(desk: Desk) -> None:
    open_job(
        desk.database, "S1.US", "dps_date", "2026-03-09", "json",
        give_up_after=timedelta(hours=6), now=NOON, next_poll_at=NOON + timedelta(minutes=2),
    )  # fmt: skip

    too_early = desk.poll(seconds=30)
    job = desk.poll_until_it_ends(ticks=30)

    assert too_early == 0
    assert job.state is JobState.READY
    assert len(desk.upstream.asked) == 1


def test_a_process_that_ends_after_its_request_leaves_no_second_job(desk: Desk) -> None:
    before = open_job(
        desk.database, "S1.US", "dps_date", "2026-03-09", "json",
        give_up_after=timedelta(hours=6), now=NOON, next_poll_at=NOON,
    )  # fmt: skip
    assert before is not None
    asked = poll_report(desk.api, desk.database, LOS_ANGELES, before, now=NOON)
    assert move_job(desk.database, asked, replace(before, polls=asked.polls))  # as before the download

    job = desk.poll_until_it_ends(ticks=5)
    desk.load()

    assert (job.report_id, len(desk.upstream.asked)) == ("2", 2)
    assert [row[2] for row in desk.rows()] == ["2"]


def test_a_process_that_ends_while_it_polls_leaves_a_job_that_is_taken_up(desk: Desk) -> None:
    from seller_platform.warehouse.jobs.report_jobs import claim_due

    desk.request()
    desk.now += timedelta(seconds=5)
    claimed = claim_due(
        desk.database,
        now=desk.now,
        until=desk.now + timedelta(minutes=2),
        latest=desk.now + timedelta(hours=1),
        limit=10,
    )

    meanwhile, afterwards = desk.poll(seconds=60), desk.poll(seconds=61)

    assert len(claimed) == 1
    assert (meanwhile, afterwards) == (0, 1)
    assert desk.job().state is JobState.READY


def test_what_was_overtaken_changes_nothing(desk: Desk) -> None:
    late = desk.request()
    desk.poll(seconds=5)
    assert late is not None
    desk.upstream.ends = (9, "failed", "")

    polled = poll_report(desk.api, desk.database, LOS_ANGELES, late, now=desk.now)

    assert polled.state is JobState.READY
    assert len(desk.upstream.asked) == 1


def test_reports_of_one_day_are_all_kept_and_each_is_replaced_alone(desk: Desk) -> None:
    desk.upstream.download = lambda _: json.dumps([{"sku": str(number)} for number in range(3)]).encode()
    for selector in ("dps_date", "last_updated_date"):
        desk.request(ReportOrder(selector))
    desk.poll(seconds=5)
    first, second = desk.load(desk.job(1)), desk.load(desk.job(2))
    loaded = desk.job(1)
    assert move_job(desk.database, loaded, replace(loaded, state=JobState.READY))  # as after a killed process

    same = desk.load(desk.job(1))
    assert move_job(desk.database, loaded, replace(loaded, state=JobState.READY))
    desk.upstream.download = lambda _: json.dumps([{"sku": "Z"}]).encode()
    changed = desk.load(desk.job(1))

    receipts = [receipt for receipt in (first, second, same, changed) if receipt]
    assert [(receipt.rows, receipt.changed, receipt.restatement) for receipt in receipts] == [
        (3, True, None),
        (3, True, None),
        (3, False, {}),
        (1, True, {"rows": {"before": "3", "after": "1"}}),
    ]
    assert [(row[2], row[3], row[4]) for row in desk.rows()] == [
        ("1", 1, "Z"), ("2", 1, "0"), ("2", 2, "1"), ("2", 3, "2"),
    ]  # fmt: skip


def test_a_report_loaded_on_another_day_replaces_its_earlier_rows(desk: Desk) -> None:
    desk.request()
    desk.poll(seconds=5)
    desk.load()
    loaded = desk.job()
    assert move_job(desk.database, loaded, replace(loaded, state=JobState.READY))
    desk.now += timedelta(days=2)

    desk.load()

    assert [(row[1], row[2]) for row in desk.rows()] == [(date(2026, 3, 10), "1")]


@pytest.mark.parametrize(("form", "body"), [("json", b"[]"), ("json", b'{"data": []}'), ("csv", b"sku,note\r\n")])
def test_an_empty_report_has_a_receipt(desk: Desk, form: str, body: bytes) -> None:
    desk.upstream.download = lambda _: body
    desk.request(replace(ORDER, form=form))
    desk.poll(seconds=5)

    receipt = desk.load()

    assert receipt is not None
    assert receipt.rows == 0
    assert desk.job().state is JobState.LOADED


def test_an_upstream_that_is_away_leaves_the_report_ready(desk: Desk) -> None:
    desk.request()
    desk.poll(seconds=5)
    desk.upstream.download = lambda _: json.dumps(ROWS).encode()[:-1]

    with pytest.raises(UpstreamUnavailableError, match="a body that was cut"):
        desk.load()

    assert desk.job().state is JobState.READY
    assert desk.rows() == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b'[{"units_ordered": 1}, {"units_ordered": "many"}]', "row 2: units_ordered is a string of 4 characters"),
        (b'[{"product_sales": 1e200000}]', "row 1, column product_sales: not a value PostgreSQL takes"),
    ],
)
def test_rows_that_cannot_be_stored_fail_the_report(desk: Desk, body: bytes, problem: str) -> None:
    desk.upstream.download = lambda _: body
    desk.request()
    desk.poll(seconds=5)

    receipt = desk.load()

    assert receipt is None
    assert desk.job().state is JobState.FAILED
    assert problem in (desk.job().problem or "")
    assert desk.rows() == []


@pytest.mark.slow
def test_hundreds_of_reports_are_polled_in_turns_the_longest_due_first(desk: Desk) -> None:
    for number in range(300):
        job = open_job(
            desk.database, "S1.US", "product_sku", f"SKU {number}", "json",
            give_up_after=timedelta(hours=6), now=NOON, next_poll_at=NOON + timedelta(seconds=300 - number),
        )  # fmt: skip
        assert job is not None
    desk.now += timedelta(seconds=301)

    def tick(limit: int) -> int:
        return poll_due(lambda _: desk.api, desk.database, clock=lambda: desk.now, seconds=30, limit=limit)

    first = tick(120)
    asked = {int(report.query["product_sku"].removeprefix("SKU ")) for report in desk.upstream.asked}
    polls = first + tick(1_000)
    desk.now += timedelta(seconds=5)

    assert first == 120
    assert asked == set(range(180, 300))
    assert polls == 300
    assert tick(1_000) == 300
    assert {desk.job(number).state for number in range(1, 301)} == {JobState.READY}


@pytest.mark.parametrize("jump", [timedelta(days=1), timedelta(days=400)], ids=str)
def test_a_report_put_off_by_a_clock_ahead_is_followed_at_the_right_time(desk: Desk, jump: timedelta) -> None:
    desk.upstream.clock, desk.upstream.lasts = lambda: NOON, timedelta(minutes=10)
    desk.now += jump
    desk.request()
    desk.poll(seconds=5)
    put_off_to = desk.job().next_poll_at
    desk.now = NOON

    polls = desk.poll(seconds=5)
    again = desk.job()
    desk.upstream.lasts = timedelta(0)
    ready = desk.poll_until_it_ends()

    assert put_off_to > NOON + jump
    assert polls == 1
    assert (again.state, again.attempted_at) == (JobState.PENDING, NOON + timedelta(seconds=5))
    assert again.next_poll_at < NOON + timedelta(minutes=1)
    assert ready.state is JobState.READY


@pytest.mark.slow
def test_a_hanging_report_requested_by_a_clock_ahead_is_given_up_in_time(desk: Desk) -> None:
    desk.upstream.lasts = timedelta(days=999)
    desk.now += timedelta(days=30)
    desk.request()
    desk.now = NOON

    desk.poll(seconds=5)
    job = desk.poll_until_it_ends()

    assert job.state is JobState.GIVEN_UP
    assert desk.now - NOON <= GIVE_UP_AFTER + timedelta(minutes=1)


def test_a_clock_that_is_put_back_hurries_no_report(desk: Desk) -> None:
    desk.upstream.lasts = timedelta(minutes=10)
    desk.request()
    desk.now -= timedelta(minutes=30)

    polls = [desk.poll(seconds=5) for _ in range(3)]

    assert polls == [0, 0, 0]
    assert desk.poll_until_it_ends().state is JobState.READY
