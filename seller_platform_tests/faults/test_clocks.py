"""Loads with a wrong or jumping clock, of other processes and of this one.

Durations are measured by a monotonic clock. The wall clock is read for the day, and for the order and the age of
values that other processes stored.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import time_machine

from seller_platform.contract import dataset_named
from seller_platform_tests.support import raw_server
from seller_platform_tests.support.broken_connection import BERLIN, JANUARY, Broken
from seller_platform_tests.support.clocks import NO_COMPILER, MovedClock
from seller_platform_tests.support.one_load import Ended, load_apart
from seller_platform_tests.support.raw_server import Fault, Request
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

TRANSACTIONS = dataset_named("transactions")
PATH, TOKEN = "/api/sales/transactions", "/api/oauth/token"

Clock = Callable[[timedelta], dict[str, str]]


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Clock:
    """Return a function that returns the environment of a process whose clock is ahead."""
    if not shutil.which("cc"):
        if os.environ.get("CI"):
            pytest.fail(NO_COMPILER)
        pytest.skip(NO_COMPILER)
    moved = MovedClock(tmp_path_factory.mktemp("clock"))

    def environment(ahead: timedelta) -> dict[str, str]:
        moved.move(ahead)
        return {**moved.environment, "TZ": "UTC"}

    return environment


def load(broken: Broken, environment: dict[str, str]) -> Ended:
    return load_apart(broken.site, BERLIN, "transactions", JANUARY, environment=environment)


def test_a_moved_clock_changes_the_date_and_no_sleep(clock: Clock) -> None:
    shown = "import time; now = time.monotonic(); time.sleep(0.1); print(time.time(), time.monotonic() - now)"

    ended = subprocess.run(
        [sys.executable, "-c", shown],
        env={**os.environ, **clock(timedelta(days=400))},
        capture_output=True,
        text=True,
        check=True,
    )

    at, slept = map(float, ended.stdout.split())
    assert 399 < (at - time.time()) / 86_400 < 401
    assert 0.1 <= slept < PATIENCE_SECONDS


@pytest.mark.parametrize(
    "days",
    [1, *(pytest.param(days, marks=pytest.mark.nightly) for days in (-2_700, -1, 6_800))],
)
def test_a_load_with_a_wrong_clock_is_whole_and_spends_each_token_once(broken: Broken, clock: Clock, days: int) -> None:
    broken.forget_tokens()

    wrong = load(broken, clock(timedelta(days=days)))
    broken.forget_tokens()
    right = load(broken, {})

    assert (wrong.code, wrong.verdict, right.code, right.verdict) == (0, "match", 0, "match"), (
        wrong.message + right.message
    )
    assert wrong.digest == right.digest
    assert broken.upstream.replayed == 0
    assert broken.upstream.refreshes == broken.server.seen["POST", TOKEN]


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_retry_date_is_compared_with_the_upstreams_clock(broken: Broken, hours: int) -> None:
    asked: list[float] = []
    right = datetime.now(UTC)

    def plan(request: Request) -> Fault | None:
        if request.path != PATH:
            return None
        asked.append(time.monotonic())
        headers = {"date": format_datetime(right), "retry-after": format_datetime(right + timedelta(seconds=3))}
        return raw_server.status(503, headers=headers) if len(asked) == 1 else None

    broken.server.plan = plan
    with time_machine.travel(right + timedelta(hours=hours)):
        receipt = broken.load(TRANSACTIONS)

    assert receipt.verdict == "match"
    assert len(asked) >= 2  # a token may have expired meanwhile
    assert 2.9 <= asked[1] - asked[0] <= PATIENCE_SECONDS


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps_during_a_read_changes_no_pause(broken: Broken, days: int) -> None:
    asked: list[float] = []
    moments: list[datetime] = []
    jump = time_machine.travel(datetime.now(UTC) + timedelta(days=days))

    def plan(request: Request) -> Fault | None:
        if request.path != PATH:
            return None
        asked.append(time.monotonic())
        moments.append(datetime.now(UTC))
        if len(asked) > 1:
            return None
        jump.start()
        return raw_server.status(429, retry_after=2)

    broken.server.plan = plan
    try:
        receipt = broken.load(TRANSACTIONS)
    finally:
        jump.stop()

    assert receipt.verdict == "match"
    assert 2 <= asked[1] - asked[0] <= PATIENCE_SECONDS
    assert abs(moments[1] - moments[0]) > timedelta(hours=23), "the clock did not jump"
