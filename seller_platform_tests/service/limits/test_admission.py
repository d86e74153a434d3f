"""Tests over HTTP that requests are admitted by user and cost, and counted by token and user."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from seller_platform.contract import dataset_named
from seller_platform.service.limits import Limits
from seller_platform.service.reports.worker import Pace
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import ANN, BOB, WIDE, Served, issue_token, running_app, served
from seller_platform_tests.support.stored_rows import (
    LAST_DAY,
    execute,
    insert_rows,
    locked_daily_sales,
    rows_of,
    stored,
)
from seller_platform_tests.support.waiting import wait_for

DAILY = dataset_named("daily_product_sales")
STATISTICS = {"account_title": "Shop US", "view_by": "date", "group_by": "day"}
REPORT = {"account_title": "Shop US", "dps_date": "2026-03-01"}
NARROW = Limits(
    quick_at_once=4,
    pages_at_once=4,
    work_at_once=2,
    per_token=30,
    per_user=40,
    open_reports=3,
    report_bytes=20_000,
    report_days=2,
)


@pytest.fixture
def narrow(database: Database, database_url: str) -> Iterator[Served]:
    with served(database, database_url, limits=NARROW) as running:
        yield running


def _waiting_for_locks(database: Database) -> int:
    of_this = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    [(count,)] = stored(database, f"SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND {of_this}")
    return int(count)


def test_slow_statistics_of_one_user_keep_nobody_out(narrow: Served, ann: httpx.Client) -> None:
    path, of_bob = "/sales/statistics-dashboard", {**STATISTICS, "account_title": "Bob's"}
    database_url = narrow.database.url
    with narrow.client(BOB) as bob, ThreadPoolExecutor(8) as threads, locked_daily_sales(database_url) as holder:
        flood = [threads.submit(ann.get, path, params=STATISTICS) for _ in range(6)]
        wait_for(lambda: _waiting_for_locks(narrow.database) == 1)
        other = threads.submit(bob.get, path, params=of_bob)
        wait_for(lambda: _waiting_for_locks(narrow.database) == 2)
        beside = [own.get("/user/me").status_code for own in (ann, bob)]
        holder.rollback()

    assert beside == [200, 200]
    assert [answer.result().status_code for answer in (other, *flood)] == [200] * 7


@pytest.mark.parametrize("held", ["pages_at_once", "passwords_at_once", "work_at_once"])
def test_tokens_wait_for_nothing_else(database: Database, database_url: str, held: str) -> None:
    """A kind of request without turns stands for one whose turns are all taken."""
    without_turns: dict[str, Any] = {held: 0}
    limits = replace(NARROW, **without_turns)
    with (
        served(database, database_url, limits=limits) as running,
        running.client(ANN) as ann,
        running.client() as anonymous,
    ):
        refreshed = running.refresh(anonymous, "unknown")
        status = ann.get("/user/me").status_code

    assert (refreshed.status_code, refreshed.json()["error"], status) == (400, "invalid_grant", 200)


def test_the_rate_of_a_token_and_of_its_user_is_kept(narrow: Served) -> None:
    with narrow.client(ANN) as one, narrow.client(ANN) as two, narrow.client(BOB) as bob:
        last = wait_for(lambda: one.get("/user/me"), lambda answer: answer.is_error, pause_seconds=0)
        beside = [bob.get("/user/me").status_code, bob.get("/login").status_code]
        of_user = wait_for(lambda: two.get("/user/me"), lambda answer: answer.is_error, pause_seconds=0)

    assert (last.status_code, last.json()["status"]) == (429, "error")
    assert last.json()["message"].startswith("this token has used its 30 requests in 60 seconds")
    assert 1 <= int(last.headers["retry-after"]) <= 60
    assert of_user.json()["message"].startswith("this user has used its 40 requests")
    assert last.elapsed.total_seconds() > 0.9  # a client without pauses waits for its refusals
    assert beside == [200, 200]


def test_a_revoked_token_does_not_use_up_the_quota_of_its_user(narrow: Served) -> None:
    with narrow.client(ANN) as revoked, narrow.client(ANN) as valid:
        assert (revoked.get("/user/me").status_code, valid.get("/user/me").status_code) == (200, 200)
        narrow.execute(
            "UPDATE service.authorizations SET revoked_at = now() WHERE family = "
            "(SELECT family FROM service.access_tokens WHERE token_hash = sha256(%s))",
            revoked.headers["authorization"].removeprefix("Bearer ").encode(),
        )
        refused = [revoked.get("/user/me") for _ in range(20)]
        allowed = [valid.get("/user/me").status_code for _ in range(NARROW.per_token - 5)]

    assert {answer.status_code for answer in refused} == {401}
    assert {*allowed} == {200}


def test_a_new_token_may_be_used_by_many_requests_at_once(service: Served) -> None:
    with service.client(ANN) as ann, ThreadPoolExecutor(12) as threads:
        statuses = {answer.status_code for answer in threads.map(lambda _: ann.get("/user/me"), range(12))}

    assert statuses == {200}


def test_a_user_has_bounded_reports_and_bytes_until_they_expire(narrow: Served) -> None:
    with narrow.client(ANN) as ann, narrow.client(BOB) as bob:
        answers = [ann.post("/reports/request", params=REPORT) for _ in range(5)]
        of_bob = bob.post("/reports/request", params={**REPORT, "account_title": "Bob's"})
        narrow.execute("UPDATE service.report_jobs SET state = 'completed', bytes = 20000")
        full = ann.post("/reports/request", params=REPORT)

    assert [answer.status_code for answer in (*answers, of_bob, full)] == [200, 200, 200, 429, 429, 200, 429]
    assert answers[3].json()["message"].startswith("you have 3 open reports")
    assert int(answers[3].headers["retry-after"]) > 0
    assert "20000" in full.json()["message"]
    assert 2 * 86_400 < int(full.headers["retry-after"]) < 3 * 86_400


def test_simultaneous_requests_do_not_exceed_the_open_reports(database: Database, database_url: str) -> None:
    start = threading.Barrier(4)

    def request(token: str) -> list[int]:
        with running.client() as client:
            client.headers["Authorization"] = f"Bearer {token}"
            start.wait()
            sent = [client.post("/reports/request", params=REPORT) for _ in range(4)]
            return [answer.status_code for answer in sent]

    limits = replace(WIDE, open_reports=NARROW.open_reports, report_bytes=NARROW.report_bytes)
    with served(database, database_url, limits=limits) as running, ThreadPoolExecutor(start.parties) as threads:
        tokens = [issue_token(database, ANN) for _ in range(start.parties)]
        statuses = [status for each in threads.map(request, tokens) for status in each]

    assert statuses.count(200) == 3
    assert set(statuses) == {200, 429}


def _finished(database: Database) -> list[int]:
    """Return the numbers of the reports that are finished, in order."""
    finished = "SELECT id FROM service.report_jobs WHERE state <> 'processing' ORDER BY finished_at"
    return [number for (number,) in stored(database, finished)]


def test_users_take_turns_with_their_reports(database: Database, database_url: str) -> None:
    with served(database, database_url) as running, running.client(ANN) as ann, running.client(BOB) as bob:
        of_ann = [int(ann.post("/reports/request", params=REPORT).json()["report_id"]) for _ in range(6)]
        of_bob = [
            int(bob.post("/reports/request", params={**REPORT, "account_title": "Bob's"}).json()["report_id"])
            for _ in range(2)
        ]
    with running_app(database_url, worker_pace=Pace(reports=1, poll_seconds=0.2)):
        wait_for(lambda: len(_finished(database)) == 8)

    order = _finished(database)
    assert max(order.index(number) for number in of_bob) <= 4
    assert [number for number in order if number in of_ann] == of_ann


def test_a_report_larger_than_what_is_left_fails_and_says_so(database: Database, database_url: str) -> None:
    limits = Limits(report_bytes=1 << 20)
    with (
        served(database, database_url, limits=limits, worker_pace=Pace(poll_seconds=0.2)) as running,
        running.client(ANN) as ann,
    ):
        execute(
            database,
            "INSERT INTO service.report_jobs (user_id, selection, accounts, selector, value, state, bytes) "
            "SELECT id, '{}', '{}', 'dps_date', '2026-03-01', 'completed', %s FROM service.users WHERE email = %s",
            (1 << 20) - 2 * 4_096 - 10,
            ANN,
        )
        insert_rows(database, DAILY, "us-1", rows_of(DAILY, "us-1"))
        report_id = ann.post("/reports/request", params={**REPORT, "dps_date": str(LAST_DAY)}).json()["report_id"]
        query = {"account_title": "Shop US", "report_id": report_id}
        status = wait_for(
            lambda: ann.get("/reports/status", params=query).json(), lambda body: body["status"] != "processing"
        )

    assert status["status"] == "failed"
    assert "your other reports leave" in status["message"]
