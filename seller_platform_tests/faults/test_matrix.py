"""Each fault at each stage of a load, with its promised outcome."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from seller_platform.client.http.api import SILENCE_SECONDS
from seller_platform.contract import dataset_named
from seller_platform.errors import ReauthorizationRequiredError, UpstreamUnavailableError
from seller_platform_tests.support import raw_server
from seller_platform_tests.support.broken_connection import FEBRUARY, Broken
from seller_platform_tests.support.raw_server import Fault, Plan

pytestmark = pytest.mark.slow

ORDERS, TRANSACTIONS = dataset_named("orders"), dataset_named("transactions")
TOKEN = "/api/oauth/token"

# Faults before the upstream received the request: any request may be sent again.
UNTOUCHED: dict[str, Callable[[], Fault]] = {
    "503": lambda: raw_server.status(503),
    "429 with seconds": lambda: raw_server.status(429, retry_after=1),
    "a page with 200": lambda: raw_server.html_page(200),
}
# Faults that lose an answer after the upstream has acted.
LOST: dict[str, Callable[[], Fault]] = {
    "an answer that is lost": raw_server.lost_answer,
    "a reset in the body": raw_server.reset_in_the_body,
    "JSON that is cut": raw_server.truncated,
    "a body that was not begun": lambda: raw_server.reset_in_the_body(0),
}
HARMLESS: dict[str, Callable[[], Fault]] = {"a slow drip": lambda: raw_server.drip(2)}
PASSING = {**UNTOUCHED, **LOST, **HARMLESS, "a reset at once": raw_server.reset_at_once}
# Stalls before the upstream receives the request, after it has acted, and within its answer.
STALLS: dict[str, Callable[[], Fault]] = {
    "a stall": raw_server.stall,
    "a stall after the upstream has acted": lambda: raw_server.stall(asked=True),
    "a stall in the body": lambda: raw_server.stall(share=0.9),
}


@pytest.fixture(autouse=True)
def _pauses_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses before retries; how long they are is tested in `client/http`."""
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.02))))


def first(times: int, path: str, fault: Callable[[], Fault]) -> Plan:
    """Return a plan that breaks the first answers of a path."""
    return lambda request: fault() if request.path == path and request.number <= times else None


@pytest.mark.parametrize("fault", [*PASSING.values(), *STALLS.values()], ids=[*PASSING, *STALLS])
def test_a_list_is_read_whole_in_spite_of_a_passing(broken: Broken, fault: Callable[[], Fault]) -> None:
    undisturbed = broken.load(ORDERS, FEBRUARY)
    broken.server.seen.clear()
    broken.silence_seconds = 1
    broken.server.plan = first(2, "/api/sales/orders", fault)

    receipt = broken.load(ORDERS, FEBRUARY)

    assert broken.server.faults >= 2
    assert (receipt.digest, receipt.rows, receipt.verdict) == (undisturbed.digest, undisturbed.rows, "match")


@pytest.mark.parametrize("fault", [*UNTOUCHED.values(), raw_server.stall], ids=[*UNTOUCHED, "a stall"])
def test_a_refresh_that_did_not_reach_the_upstream_is_made_again(broken: Broken, fault: Callable[[], Fault]) -> None:
    broken.forget_tokens()
    broken.silence_seconds = 0.5
    broken.server.plan = first(1, TOKEN, fault)

    try:
        receipt = broken.load(TRANSACTIONS)
    except UpstreamUnavailableError:
        # The first load may fail; the next one must still be able to use the grant.
        broken.silence_seconds = SILENCE_SECONDS
        receipt = broken.load(TRANSACTIONS)

    assert receipt.verdict == "match"
    assert broken.upstream.replayed == 0


LOST_REFRESH = {
    **LOST,
    **{name: fault for name, fault in STALLS.items() if name != "a stall"},
    "a slow drip": lambda: raw_server.drip(20, pieces=100),
}


@pytest.mark.parametrize("fault", LOST_REFRESH.values(), ids=LOST_REFRESH)
def test_a_lost_refresh_answer_ends_with_the_command_to_authorise(broken: Broken, fault: Callable[[], Fault]) -> None:
    # A token that is due is refreshed before the request, too, and becomes due while a busy machine begins.
    broken.upstream.issue_lasting_tokens()
    broken.site.connect(broken.upstream.issue())
    broken.forget_tokens()
    broken.silence_seconds = 1
    broken.server.plan = first(1, TOKEN, fault)

    with pytest.raises(UpstreamUnavailableError):
        broken.load(TRANSACTIONS)
    with pytest.raises(ReauthorizationRequiredError, match=r"cut off before its answer.*seller-platform connect"):
        broken.load(TRANSACTIONS)

    assert broken.server.seen["POST", TOKEN] == 2


def test_a_wrong_total_is_requested_again(broken: Broken) -> None:
    answers = iter([raw_server.rewritten(lambda document: document | {"total": 99})])
    broken.server.plan = lambda request: next(answers, None) if request.path == "/api/sales/transactions" else None

    receipt = broken.load(TRANSACTIONS)

    assert (receipt.verdict, receipt.announced, receipt.rows) == ("match", 3, 3)
