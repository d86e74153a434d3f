"""Tests the limits of retries and of requests at a time, and that errors of httpx become our errors."""

import logging
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event
from typing import Any

import httpx
import pytest

from seller_platform.client.http.api import Answer, SellerApi
from seller_platform.client.http.concurrency import SUCCESSES_TO_GROW, RequestBudget, in_threads
from seller_platform.client.http.responses import pause_seconds
from seller_platform.errors import (
    InvalidSettingError,
    RequestRefusedError,
    SellerPlatformError,
    UpstreamUnavailableError,
)
from seller_platform_tests.support.http_upstream import FakeTime, api_of, recording
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

GOOD = httpx.Response(200, json={"data": []})

Answers = Callable[[httpx.Request], httpx.Response]


def in_turn(*answers: httpx.Response | Exception) -> Answers:
    """Return an upstream that sends these answers one after the other."""
    remaining: Iterator[httpx.Response | Exception] = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        given = next(remaining)
        if isinstance(given, Exception):
            raise given
        return given

    return answer


def posted(api: SellerApi, *content: Any, **options: Any) -> Answer:
    return api.request("POST", "/reports/request", *content, decode=bytes, twice_is_harmless=False, **options)[0]


def test_a_keyed_request_waits_for_the_one_under_way_and_keeps_its_key() -> None:
    seen: list[httpx.Request] = []
    answers = in_turn(httpx.Response(503), httpx.Response(409, headers={"Retry-After": "7"}), GOOD, httpx.Response(409))

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answers(request)

    time = FakeTime()
    with api_of(answer, time=time) as api:
        assert posted(api, idempotency_key="k-1").requests == 3
        with pytest.raises(RequestRefusedError, match="409"):
            posted(api, idempotency_key="k-2")

    assert [request.headers["Idempotency-Key"] for request in seen] == ['"k-1"'] * 3 + ['"k-2"']
    assert time.pauses[-1] == 7


def test_paths_are_joined_to_a_base_url_with_a_path_of_its_own() -> None:
    seen: list[httpx.Request] = []

    with api_of(recording(seen, {})) as api:
        answer = api.get("/sales/orders", {"page": "1"})

    assert str(seen[0].url) == "http://upstream/api/sales/orders?page=1"
    assert seen[0].headers["User-Agent"].startswith("seller-platform/")
    assert (answer.body, answer.requests) == (b"{}", 1)


@pytest.mark.parametrize(
    "fault",
    [
        *(httpx.Response(status) for status in (408, 425, 500, 502, 504)),
        httpx.Response(200, text=""),
        httpx.ConnectError("refused"),
        httpx.RemoteProtocolError("cut"),
    ],
    ids=repr,
)
def test_a_passing_fault_is_tried_again(fault: httpx.Response | Exception) -> None:
    with api_of(in_turn(fault, fault, GOOD)) as api:
        answer = api.get("/user/me")

    assert answer.requests == 3


@pytest.mark.parametrize(("attempts", "least_seconds", "most_seconds"), [(3, 0, 5), (100, 60, 120)])
def test_a_fault_that_stays_ends_with_attempts_or_time(attempts: int, least_seconds: int, most_seconds: int) -> None:
    time = FakeTime()

    api = api_of(lambda request: httpx.Response(503), time=time, attempts=attempts)
    with api, pytest.raises(UpstreamUnavailableError) as caught:
        api.get("/user/me", {"token_like": "hidden"})

    assert caught.value.attempts <= attempts and "hidden" not in str(caught.value)
    assert least_seconds < time.seconds <= most_seconds


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "17"}, 17),
        ({"Retry-After": " 16.2 "}, 17),
        ({"Retry-After": "Tue, 10 Mar 2026 12:00:17 GMT"}, 17),
        ({"Retry-After": "2026-03-10T12:00:16.5Z"}, 17),
        ({"Retry-After": "Tue, 10 Mar 2026 13:00:17 GMT", "Date": "Tue, 10 Mar 2026 13:00:00 GMT"}, 17),
        ({"Retry-After": "1773144017"}, 17),
        ({"X-RateLimit-Reset": "1773144017"}, 17),
        ({"X-RateLimit-Reset": "1773144017000"}, 17),
        ({"Retry-After": "17", "X-RateLimit-Reset": "99"}, 17),
        ({"Retry-After": "soon", "X-RateLimit-Reset": "17"}, 17),
        ({"Retry-After": "0"}, 0),
        ({"Retry-After": "-5"}, 0),
        ({"Retry-After": "Sun Nov  6 08:49:37 1994"}, 0),
        ({"X-RateLimit-Reset": "1700000000"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": "Wed, 99 Nov 2026 99:00:00 GMT"}, None),
        *(
            ({"Retry-After": text}, 366 * 86_400)
            for text in ("9" * 300, "99999999999", "Fri, 31 Dec 9999 23:59:59 GMT")
        ),
    ],
)
def test_the_pause_of_an_answer_is_read(headers: dict[str, str], pause: int | None) -> None:
    sent = httpx.Headers([(name.encode(), value.encode("latin-1")) for name, value in headers.items()])

    assert pause_seconds(sent, 429, FakeTime().now()) == pause
    if "Retry-After" not in headers:
        assert pause_seconds(sent, 503, FakeTime().now()) is None


def test_a_retry_after_beyond_our_patience_ends_at_once() -> None:
    time = FakeTime()
    busy = httpx.Response(429, headers={"Retry-After": "3600"})

    with api_of(lambda request: busy, time=time) as api, pytest.raises(UpstreamUnavailableError) as caught:
        api.get("/user/me")

    assert (caught.value.retry_after_seconds, time.pauses) == (3600, [])
    assert str(caught.value) == (
        "GET /user/me: status 429 after 1 attempt. The upstream asks for a pause of 3,600 s, and a request is repeated "
        "for 120 s at most: try again after 2026-03-10 13:00 UTC"
    )


def test_a_refusal_is_final_and_names_the_parameter_to_fix() -> None:
    body = {"status": "error", "code": 422, "message": "Not valid.", "errors": {"per_page": ["must be 250"]}}

    with (
        api_of(lambda request: httpx.Response(422, json=body)) as api,
        pytest.raises(RequestRefusedError, match=r"Not valid\. per_page: must be 250") as caught,
    ):
        api.get("/sales/orders")

    assert (caught.value.status, caught.value.parameters) == (422, {"per_page": ["must be 250"]})


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"errors": 3, "message": 5}', b'{"errors": {"a": 1}}'])
def test_a_refusal_may_have_any_body(body: bytes) -> None:
    with api_of(lambda request: httpx.Response(404, content=body)) as api, pytest.raises(RequestRefusedError):
        api.get("/sales/orders")


def test_redirects_are_not_followed() -> None:
    answer = httpx.Response(302, headers={"Location": "https://elsewhere/login?secret=1"})

    with api_of(lambda request: answer) as api, pytest.raises(RequestRefusedError) as caught:
        api.get("/user/me")

    assert "https://elsewhere/login" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_post_is_sent_again_only_where_it_was_not_acted_upon() -> None:
    with api_of(in_turn(httpx.Response(503), httpx.ConnectError("refused"), GOOD)) as api:
        assert posted(api, {"a": "b"}, {"c": 1}).requests == 3

    with (
        api_of(in_turn(httpx.ReadError("reset"))) as api,
        pytest.raises(UpstreamUnavailableError, match=r"1 attempt\."),
    ):
        posted(api)


@pytest.mark.parametrize("url", ["ftp://upstream", "upstream", "http://up stream:x"])
def test_a_base_url_that_cannot_be_called_is_a_setting_to_fix(url: str) -> None:
    with pytest.raises(InvalidSettingError), SellerApi(url) as api:
        api.get("/user/me")


def test_no_error_of_httpx_leaves_the_floor() -> None:
    kinds: list[type[Any]] = [
        kind for kind in vars(httpx).values() if isinstance(kind, type) and issubclass(kind, httpx.RequestError)
    ]

    for kind in kinds:
        with api_of(in_turn(kind("broken")), attempts=1) as api, pytest.raises(SellerPlatformError):
            api.get("/user/me")


def test_retries_are_logged_without_parameters(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    with api_of(in_turn(httpx.Response(503), GOOD)) as api:
        api.get("/user/me", {"account_title": "private"})

    messages = [record.getMessage() for record in caplog.records if record.name.startswith("seller_platform")]
    assert len(messages) == 1 and "GET /user/me: status 503" in messages[0] and "private" not in messages[0]


def test_the_budget_halves_on_429_and_recovers_one_by_one() -> None:
    budget = RequestBudget(8)
    refusals = [httpx.Response(429)] * 4

    with api_of(in_turn(*refusals, *[GOOD] * (3 * SUCCESSES_TO_GROW)), budget=budget) as api:
        api.get("/user/me")
        assert budget.allowed == 1
        for _ in range(3 * SUCCESSES_TO_GROW - 1):
            api.get("/user/me")

    assert budget.allowed == 4


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_budget_bounds_the_requests_under_way(*, is_shared: bool) -> None:
    """Also those of several budgets, as loading processes have them, together."""
    shared = multiprocessing.BoundedSemaphore(2) if is_shared else None
    budgets = [RequestBudget(shared=shared), RequestBudget(shared=shared)] if is_shared else [RequestBudget(2)]
    gate, under_way, most, lock = threading.Barrier(2), [0], [0], threading.Lock()

    def answer(request: httpx.Request) -> httpx.Response:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        gate.wait(PATIENCE_SECONDS)
        with lock:
            under_way[0] -= 1
        return httpx.Response(200, json={})

    with ExitStack() as opened:
        apis = [opened.enter_context(api_of(answer, budget=budget)) for budget in budgets]
        threads = [threading.Thread(target=apis[number % len(apis)].get, args=("/user/me",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert (most[0], under_way[0]) == (2, 0)


def test_results_may_be_closed_in_one_of_their_own_threads() -> None:
    is_suspended, is_closed = Event(), Event()

    def work(number: int) -> int:
        if number == 2:
            is_suspended.wait(10)
            results.close()  # as the garbage collector does, which runs in any thread
            is_closed.set()
        return number

    results = in_threads(work, (1, 2), 1)
    first = next(results)
    is_suspended.set()

    assert (first, is_closed.wait(10)) == (1, True)
