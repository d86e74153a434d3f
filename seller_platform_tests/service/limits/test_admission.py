"""Tests over HTTP that requests are admitted by user and cost, and counted by token and user."""

import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import httpx
import psycopg
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from seller_platform.contract import dataset_named
from seller_platform.service.http.connections import DEFAULT_LIMITS
from seller_platform.service.limits.policy import Limits, ReportLimits
from seller_platform.service.reports.worker import Pace
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.support.processes import COMMAND, announced_address, environment
from seller_platform_tests.support.served import (
    ANN,
    BOB,
    LAST_DAY,
    WIDE,
    Served,
    execute,
    insert_rows,
    issue_token,
    rows_of,
    running_app,
    served,
    stored,
)
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

DAILY = dataset_named("daily_product_sales")
STATISTICS = {"account_title": "Shop US", "view_by": "date", "group_by": "day"}
REPORT = {"account_title": "Shop US", "dps_date": "2026-03-01"}
NARROW = Limits(
    cheap_at_once=4,
    lists_at_once=2,
    per_token=30,
    per_user=40,
    reports=ReportLimits(open_reports=3, stored_bytes=20_000, kept_days=2),
)

ANONYMOUS = {
    "/docs": 200,
    "/openapi.json": 200,
    "/.well-known/oauth-authorization-server": 200,
    "/static/style.css": 200,
    "/login": 200,
    "/oauth/token": 400,
    "/oauth/revoke": 400,
    "/nothing": 404,
    "/misdirected": 421,
    "/user/me": 401,
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def narrow(database: Database, database_url: str, registry: CollectorRegistry) -> Iterator[Served]:
    with served(database, database_url, limits=NARROW, registry=registry) as running:
        yield running


@contextmanager
def _slow_statistics(database_url: str) -> Iterator[psycopg.Connection]:
    """Let statistics wait until the block ends: another transaction has locked a table that they read."""
    with psycopg.connect(conninfo(database_url)) as holder:
        holder.execute("LOCK TABLE seller.daily_product_sales IN ACCESS EXCLUSIVE MODE")
        yield holder
        holder.rollback()


def _waiting_for_locks(database: Database) -> int:
    of_this = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    [(count,)] = stored(database, f"SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND {of_this}")
    return int(count)


def test_slow_statistics_of_one_user_keep_nobody_out(
    narrow: Served, database_url: str, registry: CollectorRegistry
) -> None:
    path = "/sales/statistics-dashboard"
    with (
        narrow.client(ANN) as ann,
        narrow.client(BOB) as bob,
        ThreadPoolExecutor(2) as threads,
        _slow_statistics(database_url) as holder,
    ):
        first = threads.submit(ann.get, path, params=STATISTICS)
        wait_for(lambda: _waiting_for_locks(narrow.database) == 1)
        refused = ann.get(path, params=STATISTICS)
        of_bob = threads.submit(bob.get, path, params={**STATISTICS, "account_title": "Bob's"})
        wait_for(lambda: _waiting_for_locks(narrow.database) == 2)
        own, others = ann.get("/user/me"), bob.get("/user/accounts")
        list_beside = ann.get("/notifications/list", params={"account_title": "Shop US"})
        holder.rollback()

    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (429, 429, "1")
    assert (
        "as many requests of lists, costs and statistics of yours are under way as one user may have, which is 1"
        in refused.json()["message"]
    )
    assert [answer.status_code for answer in (first.result(), of_bob.result())] == [200, 200]
    assert [answer.status_code for answer in (own, others)] == [200, 200]
    assert list_beside.status_code == 429
    metrics = generate_latest(registry).decode()
    assert 'requests_shed_total{cause="share",cost="heavy"} 1.0' in metrics
    assert 'requests_shed_total{cause="share",cost="list"} 1.0' in metrics


def test_a_request_that_waited_for_a_stopped_process_is_refused(
    service: Served, database_url: str, tmp_path: Path
) -> None:
    variables = environment(
        tmp_path, SELLER_PLATFORM_SERVICE_DATABASE_URL=database_url, SELLER_PLATFORM_SERVICE_WAIT_MILLISECONDS="60"
    )
    command = [*COMMAND, "service", "run", "--no-worker", "--port", "0"]
    with (
        (log := tmp_path / "log").open("w") as file,
        subprocess.Popen(command, env=variables, stderr=file) as process,
        ThreadPoolExecutor(3) as threads,
    ):
        own = replace(service, base_url=announced_address(process, log))
        port = int(own.base_url.rpartition(":")[2])
        with own.client(ANN) as ann, own.client(BOB) as bob, _slow_statistics(database_url) as holder:
            assert [client.get("/user/me").status_code for client in (ann, bob)] == [200, 200]
            under_way = threads.submit(ann.get, "/sales/statistics-dashboard", params=STATISTICS)
            wait_for(lambda: _waiting_for_locks(service.database) == 1)
            process.send_signal(signal.SIGSTOP)
            late = threads.submit(bob.get, "/notifications/list", params={"account_title": "Bob's"})
            cheap = threads.submit(bob.get, "/user/me")
            wait_for(lambda: _unread_requests(port) == 2)
            time.sleep(0.3)  # they wait in the sockets for so long
            process.send_signal(signal.SIGCONT)
            statuses = [late.result().status_code, cheap.result().status_code]
            holder.rollback()
            statuses.append(under_way.result().status_code)
        process.terminate()

    assert statuses == [503, 200, 200]


def _unread_requests(port: int) -> int:
    """Return how many connections to a port have received what its process has not read."""
    is_unread = re.compile(rf".*:{port:04X} [0-9A-F:]+ 01 [0-9A-F]{{8}}:(?!0{{8}})")
    return sum(is_unread.match(line) is not None for line in Path("/proc/net/tcp").read_text().splitlines())


def test_the_rate_of_a_token_and_of_its_user_is_told_and_kept(narrow: Served) -> None:
    with narrow.client(ANN) as one, narrow.client(ANN) as two, narrow.client(BOB) as bob:
        first = one.get("/user/me").headers
        last = wait_for(lambda: one.get("/user/me"), lambda answer: answer.is_error, pause_seconds=0)
        of_user = wait_for(lambda: two.get("/user/me"), lambda answer: answer.is_error, pause_seconds=0)
        not_found = bob.get("/sales/orders", params={"account_title": "Nowhere", "per_page": "20"})

    assert first["ratelimit-policy"] == '"token";q=30;w=60, "user";q=40;w=60'
    assert first["ratelimit"] == '"token";r=29;t=2, "user";r=39;t=2'
    assert (last.status_code, last.json()["status"]) == (429, "error")
    assert last.json()["message"].startswith("this token has used its 30 requests in 60 seconds")
    assert 1 <= int(last.headers["retry-after"]) <= 2
    assert last.headers["ratelimit"].startswith('"token";r=0;t=')
    assert of_user.json()["message"].startswith("this user has used its 40 requests")
    assert not_found.status_code in (404, 422)
    assert not_found.headers["ratelimit"].startswith('"token";r=29')


def test_a_revoked_token_does_not_use_up_the_quota_of_its_user(narrow: Served) -> None:
    with narrow.client(ANN) as revoked, narrow.client(ANN) as valid:
        assert (revoked.get("/user/me").status_code, valid.get("/user/me").status_code) == (200, 200)
        execute(
            narrow.database,
            "UPDATE service.authorizations SET revoked_at = now() WHERE family = "
            "(SELECT family FROM service.access_tokens WHERE token_hash = sha256(%s))",
            revoked.headers["authorization"].removeprefix("Bearer ").encode(),
        )
        refused = [revoked.get("/user/me") for _ in range(20)]
        left = re.search('"user";r=([0-9]+);', valid.get("/user/me").headers["ratelimit"])

    assert {answer.status_code for answer in refused} == {401}
    assert left is not None
    assert int(left[1]) >= NARROW.per_user - 4


def test_requests_without_a_valid_token_are_limited_for_each_network(database: Database, database_url: str) -> None:
    registry = CollectorRegistry()
    trusting = replace(DEFAULT_LIMITS, trusted_proxies=("127.0.0.1",))
    limits = replace(NARROW, per_network=len(ANONYMOUS))
    with (
        served(database, database_url) as populated,
        running_app(database_url, limits=limits, registry=registry, connection_limits=trusting) as url,
        replace(populated, base_url=url).client(ANN) as ann,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS) as anonymous,
        ThreadPoolExecutor(len(ANONYMOUS)) as threads,
    ):
        first = {path: _anonymous_status(anonymous, path) for path in ANONYMOUS}
        began = perf_counter()
        refused = list(threads.map(lambda path: _anonymous_status(anonymous, path), ANONYMOUS))
        seconds = perf_counter() - began
        answer = wait_for(
            lambda: anonymous.get("/login", headers={"Accept": "text/html"}), lambda answer: answer.is_error
        )
        others = anonymous.get("/docs", headers={"X-Forwarded-For": "192.0.2.1"})
        status, own = anonymous.get("/service-status"), ann.get("/user/me")

    assert first == ANONYMOUS
    # Every six seconds one more is allowed, on a busy machine meanwhile.
    assert refused.count(429) > len(refused) / 2
    assert seconds > 0.9  # a client without pauses waits for its refusals
    assert "This network has used its 10 requests in 60 seconds" in answer.text
    assert int(answer.headers["retry-after"]) > 0
    assert [each.status_code for each in (others, status, own)] == [200, 200, 200]
    shed = {"cause": "quota", "cost": "anonymous"}
    assert registry.get_sample_value("seller_platform_service_requests_shed_total", shed) == refused.count(429) + 1


def _anonymous_status(client: httpx.Client, path: str) -> int:
    if path in ("/oauth/token", "/oauth/revoke"):
        return client.post(path, data={"grant_type": "refresh_token"}).status_code
    host = {"Host": "other.example"} if path == "/misdirected" else {}
    return client.get(path, headers={"Authorization": "Bearer wrong", **host}).status_code


def test_a_new_token_may_be_used_by_many_requests_at_once(service: Served) -> None:
    with service.client(ANN) as ann, ThreadPoolExecutor(12) as threads:
        statuses = {answer.status_code for answer in threads.map(lambda _: ann.get("/user/me"), range(12))}

    assert statuses == {200}


def test_a_user_has_a_bounded_number_of_open_reports(narrow: Served, registry: CollectorRegistry) -> None:
    with narrow.client(ANN) as ann, narrow.client(BOB) as bob:
        answers = [ann.post("/reports/request", params=REPORT) for _ in range(5)]
        of_bob = bob.post("/reports/request", params={**REPORT, "account_title": "Bob's"})

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert of_bob.status_code == 200
    assert answers[3].json()["message"].startswith("you have 3 open reports")
    assert int(answers[3].headers["retry-after"]) > 0
    assert 'requests_shed_total{cause="reports",cost="list"} 2.0' in generate_latest(registry).decode()


def test_a_user_has_bounded_bytes_of_reports_until_they_expire(narrow: Served) -> None:
    with narrow.client(ANN) as ann:
        assert ann.post("/reports/request", params=REPORT).status_code == 200
        execute(narrow.database, "UPDATE service.report_jobs SET state = 'completed', bytes = 20000")
        refused = ann.post("/reports/request", params=REPORT)

    assert (refused.status_code, "20000" in refused.json()["message"]) == (429, True)
    assert 2 * 86_400 < int(refused.headers["retry-after"]) < 3 * 86_400


def test_simultaneous_requests_do_not_exceed_the_open_reports(database: Database, database_url: str) -> None:
    start = threading.Barrier(4)

    def request(token: str) -> list[int]:
        with running.client() as client:
            start.wait()
            sent = [
                client.post("/reports/request", params=REPORT, headers={"Authorization": f"Bearer {token}"})
                for _ in range(4)
            ]
            return [answer.status_code for answer in sent]

    limits = replace(WIDE, reports=NARROW.reports)
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
    limits = Limits(reports=ReportLimits(stored_bytes=1 << 20))
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
        insert_rows(database, DAILY, "S1.US", rows_of(DAILY, "S1.US"))
        report_id = ann.post("/reports/request", params={**REPORT, "dps_date": str(LAST_DAY)}).json()["report_id"]
        query = {"account_title": "Shop US", "report_id": report_id}
        status = wait_for(
            lambda: ann.get("/reports/status", params=query).json(), lambda body: body["status"] != "processing"
        )

    assert status["status"] == "failed"
    assert "your other reports leave" in status["message"]


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/login", "application/x-www-form-urlencoded"),
        ("/oauth/token", "application/x-www-form-urlencoded"),
        ("/reports/request", "application/json"),
    ],
)
def test_bodies_that_stall_keep_nobody_out(narrow: Served, path: str, content_type: str) -> None:
    with narrow.client(ANN) as ann, ExitStack() as stalled:
        authorization = ann.headers["authorization"]
        for _ in range(2 * (NARROW.anonymous_at_once + NARROW.cheap_at_once)):
            sender = stalled.enter_context(socket.create_connection((ann.base_url.host, ann.base_url.port or 80)))
            head = f"POST {path} HTTP/1.1\r\nHost: {ann.base_url.netloc.decode()}\r\nAuthorization: {authorization}\r\n"
            sender.sendall(f"{head}Content-Type: {content_type}\r\nContent-Length: 100\r\n\r\n{{".encode())
        statuses = [ann.get("/login").status_code, ann.post("/reports/request", params=REPORT).status_code]

    assert statuses[0] == 200
    assert statuses[1] not in {429, 503}
