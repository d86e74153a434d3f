"""`seller-platform dev` used through its UI, behind a network that breaks every fourth answer, while its parts die."""

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from subprocess import CompletedProcess

import httpx
import pytest

from seller_platform.contract import LISTS
from seller_platform.contract.wire import TOKEN
from seller_platform.sandbox.commands.demo import approve
from seller_platform_tests.support import raw_server
from seller_platform_tests.support.deployment import (
    CODE_LOCATION,
    DAEMON,
    LOADED,
    POSTGRESQL,
    RUN_WORKER,
    SCHEDULES,
    WEB_SERVER,
    Deployment,
    deployment,
)
from seller_platform_tests.support.processes import environment, left_behind, try_to_connect
from seller_platform_tests.support.raw_server import Fault, RawServer, Request, forwarding, serving
from seller_platform_tests.support.stored_rows import execute, stored
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

# Each fault has a test in `faults/test_matrix.py`, and `test_ui` kills a program.
pytestmark = [pytest.mark.journey, pytest.mark.nightly, pytest.mark.timeout(2400)]

FAULTS: dict[str, Callable[[], Fault]] = {
    "429 with seconds": lambda: raw_server.status(429, retry_after=1),
    "a reset in the body": raw_server.reset_in_the_body,
    "503": lambda: raw_server.status(503),
    "JSON that is cut": raw_server.truncated,
    "429 with a date": lambda: raw_server.status(429, retry_after=raw_server.retry_date(2)),
    "a page with 200": raw_server.html_page,
    "an answer that is lost": raw_server.lost_answer,
}
# The first code is spent for an answer that nobody sees; then a code and a refresh are refused once, untouched.
TOKEN_FAULTS = {1: "an answer that is lost", 2: "503", 4: "429 with a date"}
# One of the sandbox's sellers does not know what some products cost: a warning where that is much of a month.
GREEN: tuple[dict[str, list[str]], ...] = ({}, {"marts/cost_coverage": ["sales_are_covered"]})
MOST_IN_A_ROW = 3  # of the six attempts that a request has: whether it comes through in the end is not left to chance


class EveryFourth:
    """A plan that breaks every fourth answer, each time in another way.

    Attributes:
        is_over: Whether the network breaks nothing from now on.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.dealt: Counter[str] = Counter()
        self._answers, self._names = 0, cycle(FAULTS)
        self._in_a_row: Counter[tuple[str, str]] = Counter()

    def __call__(self, request: Request) -> Fault | None:
        name = TOKEN_FAULTS.get(request.number) if request.path == TOKEN else self._next(request)
        if name is None or self.is_over:
            return None
        self.dealt[name] += 1
        return FAULTS[name]()

    def _next(self, request: Request) -> str | None:
        self._answers += 1
        asked = (request.method, request.target)
        is_due = self._answers % 4 == 0 and self._in_a_row[asked] < MOST_IN_A_ROW
        self._in_a_row[asked] = self._in_a_row[asked] + 1 if is_due else 0
        return next(self._names) if is_due else None


def test_everything_is_whole_despite_broken_answers_and_killed_programs(tmp_path: Path) -> None:
    plan = EveryFourth()
    with (
        deployment(tmp_path / "a home", "--accounts", "2", "--months", "3", "--no-load") as place,
        serving(forwarding(place.told["Service"]), plan) as between,
    ):
        status = httpx.get(f"{place.told['Service']}/service-status", timeout=PATIENCE_SECONDS).json()
        lost, connected = (_connect_through(between, place) for _ in range(2))
        with place.databases() as (served, _):
            execute(served, "DELETE FROM service.access_tokens")
        place.launch("request_reports")
        wait_for(place.under_way, lambda state: ("SUCCESS", False) in state.runs, explain=lambda _: place.failures())
        number = place.backfill(*LOADED)
        # Nothing can be seen while the web server is away: it goes together with the run worker, which takes longer.
        for parts in ((RUN_WORKER, WEB_SERVER), (POSTGRESQL,), (DAEMON,), (CODE_LOCATION,)):
            place.await_progress(LOADED)
            for part in parts:
                place.kill(part)
        assets, under_way = place.settled(), place.under_way()
        broken = between.faults / between.seen.total()
        plan.is_over = True
        # A fault or a kill may have left the accounts' list unread, and the sensor waits for minutes.
        place.launch("__ASSET_JOB", "seller/accounts")
        wait_for(lambda: _checks_when_quiet(place), lambda red: red in GREEN, pause_seconds=5)
        with place.databases() as (_, warehouse):
            jobs = stored(warehouse, "SELECT state FROM platform.report_jobs")
        different = place.different(LISTS)
        code = place.end()

    assert status["status"] == "active"
    assert (place.told["Sandbox login"], place.told["Sandbox group"]) == ("demo@sandbox.example", "All shops")
    assert (lost.returncode, connected.returncode) == (4, 0), lost.stderr + connected.stderr
    assert plan.dealt.keys() == FAULTS.keys()
    assert 0.2 < broken < 0.3
    assert under_way.backfills[number] == "COMPLETED_SUCCESS"
    assert assets["seller/orders"].partitions == 6
    assert assets["seller/report_rows"].materialized == 2
    assert assets.keys() >= {"marts/account_profit_daily", "marts/restock_plan"}
    assert any(is_taken_up_again for _, is_taken_up_again in under_way.runs)
    assert between.seen["POST", TOKEN] == 5
    # The schedule may have requested others meanwhile.
    assert (len(jobs) >= 2, set(jobs)) == (True, {("loaded",)})
    assert different == []
    assert (code, left_behind(place.home)) == (0, [])


def test_a_live_sandbox_is_loaded_day_by_day(tmp_path: Path) -> None:
    options = ("--accounts", "1", "--months", "2", "--no-load", "--live")
    with deployment(tmp_path / "home", *options) as place, place.databases() as (_, warehouse):

        def days_with_orders() -> int:
            [(days,)] = stored(warehouse, "SELECT count(DISTINCT local_day) FROM seller.orders")
            return int(days)

        first = wait_for(days_with_orders, pause_seconds=2)
        later = wait_for(days_with_orders, lambda days: days > first, pause_seconds=2)
        schedules = place.ask(SCHEDULES)["repositoryOrError"]["schedules"]

    assert later > first
    assert "orders_today" in [each["name"] for each in schedules if each["scheduleState"]["status"] == "RUNNING"]


def _checks_when_quiet(place: Deployment) -> dict[str, list[str]]:
    place.await_quiet()
    return place.failed_checks()


def _connect_through(between: RawServer, place: Deployment) -> CompletedProcess[str]:
    """Point the connection at the server between, and approve it as the sandbox's user."""
    known = json.loads((place.sandbox / "playground.json").read_text())
    variables = environment(
        place.sandbox,
        SELLER_API_BASE_URL=between.url,
        SELLER_API_AUTH_URL=place.told["Service"],
        SELLER_API_CLIENT_ID=known["client_id"],
        SELLER_API_CLIENT_SECRET=known["client_secret"],
        SELLER_API_REDIRECT_URI=known["redirect_uri"],
    )
    person = partial(approve, email=place.told["Sandbox login"], password=place.told["Sandbox password"])
    return try_to_connect(variables, person, "--replace")
