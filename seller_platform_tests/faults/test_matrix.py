"""Each fault at each stage of a load, with its promised outcome."""

import itertools
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from seller_platform.client.http.api import SILENCE_SECONDS
from seller_platform.contract import dataset_named
from seller_platform.errors import ReauthorizationRequiredError, UpstreamUnavailableError
from seller_platform.orchestration.assets.checks import judgements
from seller_platform.orchestration.assets.events import ROW_COUNT_CHECK
from seller_platform_tests.support import raw_server
from seller_platform_tests.support.broken_connection import FEBRUARY, Broken
from seller_platform_tests.support.raw_server import Fault, Plan
from seller_platform_tests.support.receipts import latest_receipts

pytestmark = pytest.mark.slow

ORDERS, TRANSACTIONS = dataset_named("orders"), dataset_named("transactions")
TOKEN = "/api/oauth/token"

# Faults before the upstream received the request: any request may be sent again.
UNTOUCHED: dict[str, Callable[[], Fault]] = {
    "500": lambda: raw_server.status(500),
    "502 with a page": lambda: raw_server.html_page(502),
    "503": lambda: raw_server.status(503),
    "503 with Retry-After": lambda: raw_server.status(503, retry_after=1),
    "504": lambda: raw_server.status(504),
    "429 with seconds": lambda: raw_server.status(429, retry_after=1),
    "429 with a date": lambda: raw_server.status(429, retry_after=raw_server.retry_date(2)),
    "429 without a word": lambda: raw_server.status(429),
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
# `client/http/test_api` has these statuses, too.
_NIGHTLY = {"500", "502 with a page", "504", "503 with Retry-After", "429 with a date", "429 without a word"}


def _faults(faults: Mapping[str, Callable[[], Fault]]) -> list[Any]:
    return [
        pytest.param(fault, id=name, marks=[pytest.mark.nightly] if name in _NIGHTLY else [])
        for name, fault in faults.items()
    ]


@pytest.fixture(autouse=True)
def _pauses_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses before retries; how long they are is tested in `client/http`."""
    monkeypatch.setattr("tenacity.nap.time", SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, 0.02))))


def first(times: int, path: str, fault: Callable[[], Fault]) -> Plan:
    """Return a plan that breaks the first answers of a path."""
    return lambda request: fault() if request.path == path and request.number <= times else None


@pytest.mark.parametrize("fault", _faults(PASSING))
def test_a_list_is_read_whole_in_spite_of_a_passing(broken: Broken, fault: Callable[[], Fault]) -> None:
    undisturbed = broken.load(ORDERS, FEBRUARY)
    broken.server.seen.clear()
    broken.server.plan = first(2, "/api/sales/orders", fault)

    receipt = broken.load(ORDERS, FEBRUARY)

    assert broken.server.faults >= 2
    assert (receipt.digest, receipt.rows, receipt.verdict) == (undisturbed.digest, undisturbed.rows, "match")


@pytest.mark.parametrize("fault", _faults(UNTOUCHED))
def test_a_refresh_that_did_not_reach_the_upstream_is_made_again(broken: Broken, fault: Callable[[], Fault]) -> None:
    broken.forget_tokens()
    broken.server.plan = first(1, TOKEN, fault)

    try:
        receipt = broken.load(TRANSACTIONS)
    except UpstreamUnavailableError:
        # The first load may fail; the next one must still be able to use the grant.
        receipt = broken.load(TRANSACTIONS)

    assert receipt.verdict == "match"
    assert broken.upstream.replayed == 0


@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
def test_a_lost_refresh_answer_ends_with_the_command_to_authorise(broken: Broken, fault: Callable[[], Fault]) -> None:
    # A token that is due is refreshed before the request, too, and becomes due while a busy machine begins.
    broken.upstream.issue_lasting_tokens()
    broken.site.connect(broken.upstream.issue())
    broken.forget_tokens()
    broken.server.plan = first(1, TOKEN, fault)

    with pytest.raises(UpstreamUnavailableError):
        broken.load(TRANSACTIONS)
    with pytest.raises(ReauthorizationRequiredError, match=r"cut off before its answer.*seller-platform connect"):
        broken.load(TRANSACTIONS)

    assert broken.server.seen["POST", TOKEN] == 2


def test_a_grant_that_is_revoked_stops_the_load_and_is_not_asked_for_again(broken: Broken) -> None:
    broken.upstream.access.clear()
    broken.upstream.refresh.clear()

    for _ in range(3):
        with pytest.raises(ReauthorizationRequiredError, match="seller-platform connect"):
            broken.load(TRANSACTIONS)

    assert broken.server.seen["POST", TOKEN] == 1


@pytest.mark.parametrize("fault", [raw_server.status(503), raw_server.reset_at_once()], ids=["503", "resets"])
def test_an_unavailable_upstream_is_given_up_and_the_slice_stays(broken: Broken, fault: Fault) -> None:
    before = broken.load(TRANSACTIONS)
    broken.server.plan = lambda request: fault if request.path == "/api/sales/transactions" else None
    broken.server.seen.clear()

    with pytest.raises(UpstreamUnavailableError, match="6 attempts"):
        broken.load(TRANSACTIONS)

    stored = broken.database.execute(text("SELECT count(*), max(load_id) FROM seller.transactions")).one()
    assert tuple(stored) == (before.rows, before.id)
    assert broken.server.seen["GET", "/api/sales/transactions"] == 6


# Stalls before the upstream receives the request, after it has acted, and within its answer.
STALLS: dict[str, Callable[[], Fault]] = {
    "a stall": raw_server.stall,
    "a stall after the upstream has acted": lambda: raw_server.stall(asked=True),
    "a stall in the body": lambda: raw_server.stall(share=0.9),
}


@pytest.mark.parametrize("fault", STALLS.values(), ids=STALLS)
def test_a_list_is_read_whole_in_spite_of(broken: Broken, fault: Callable[[], Fault]) -> None:
    undisturbed = broken.load(ORDERS, FEBRUARY)
    broken.server.seen.clear()
    broken.silence_seconds = 1
    broken.server.plan = first(2, "/api/sales/orders", fault)

    receipt = broken.load(ORDERS, FEBRUARY)

    assert broken.server.faults == 2
    assert (receipt.digest, receipt.verdict) == (undisturbed.digest, "match")


def test_a_silent_upstream_is_given_up_and_the_stored_slice_stays(broken: Broken) -> None:
    before = broken.load(TRANSACTIONS)
    broken.silence_seconds = 0.3
    broken.server.plan = lambda request: raw_server.stall() if request.path == "/api/sales/transactions" else None

    with pytest.raises(UpstreamUnavailableError, match=r"no answer from [\w.:]+ \(ReadTimeout\) after 6 attempts"):
        broken.load(TRANSACTIONS)

    assert latest_receipts(broken.database) == (before,)


def test_a_refresh_that_stalls_before_the_upstream_is_asked_spends_nothing(broken: Broken) -> None:
    broken.forget_tokens()
    broken.silence_seconds = 0.5
    broken.server.plan = first(1, TOKEN, raw_server.stall)

    with pytest.raises(UpstreamUnavailableError, match="ReadTimeout"):
        broken.load(TRANSACTIONS)
    broken.silence_seconds = SILENCE_SECONDS
    receipt = broken.load(TRANSACTIONS)

    assert receipt.verdict == "match"
    assert broken.upstream.replayed == 0


@pytest.mark.parametrize(
    "fault",
    [
        lambda: raw_server.stall(asked=True),
        lambda: raw_server.stall(share=0.9),
        lambda: raw_server.drip(20, pieces=100),
    ],
    ids=["a stall", "a stall in the body", "a slow drip"],
)
def test_an_unanswered_refresh_ends_with_the_command_to_authorise(broken: Broken, fault: Callable[[], Fault]) -> None:
    broken.forget_tokens()
    broken.silence_seconds = 1
    broken.server.plan = first(1, TOKEN, fault)
    began = time.monotonic()

    with pytest.raises(UpstreamUnavailableError):
        broken.load(TRANSACTIONS)
    waited = time.monotonic() - began
    with pytest.raises(ReauthorizationRequiredError, match=r"cut off before its answer.*seller-platform connect"):
        broken.load(TRANSACTIONS)

    assert 1 <= waited < 120


def one_row_less(document: dict[str, Any]) -> dict[str, Any]:
    """Return the page after one row has left the list, with the new total."""
    return document | {"data": document["data"][1:], "total": int(str(document["total"]).replace(",", "")) - 1}


def test_a_list_that_moves_while_it_is_read_is_read_again(broken: Broken) -> None:
    undisturbed = broken.load(ORDERS, FEBRUARY)
    moves = iter([True])
    broken.server.plan = lambda request: (
        raw_server.rewritten(one_row_less) if request.path == "/api/sales/orders" and next(moves, False) else None
    )

    receipt = broken.load(ORDERS, FEBRUARY)

    assert next(moves, None) is None
    assert (receipt.digest, receipt.rows, receipt.verdict) == (undisturbed.digest, undisturbed.rows, "match")
    assert receipt.requests > undisturbed.requests


@pytest.mark.parametrize("wrong_answers", [1, None], ids=["once", "always"])
def test_a_wrong_total_is_requested_again_and_reported_if_it_stays(broken: Broken, wrong_answers: int | None) -> None:
    count = itertools.count()
    broken.server.plan = lambda request: (
        raw_server.rewritten(lambda document: document | {"total": 99})
        if request.path == "/api/sales/transactions" and (wrong_answers is None or next(count) < wrong_answers)
        else None
    )

    receipt = broken.load(TRANSACTIONS)

    failed = [each.check_name for each in judgements(broken.database, TRANSACTIONS) if not each.passed]
    expected = ("match", 3, []) if wrong_answers else ("mismatch", 99, [ROW_COUNT_CHECK])
    assert (receipt.verdict, receipt.announced, failed) == expected
    assert receipt.rows == 3
