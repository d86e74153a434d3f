"""Tests the counts of tokens, users and networks in a minute."""

import pytest
from starlette.requests import Request

from seller_platform.errors import NotAdmittedError
from seller_platform.service.limits.policy import MOST_UNKNOWN_TOKENS, Limits
from seller_platform.service.limits.rates import Rates
from seller_platform.service.metrics import notes_of


def _request() -> Request:
    return Request({"type": "http"})


def test_a_token_and_its_user_are_counted_apart_from_others() -> None:
    rates = Rates(Limits(per_token=2, per_user=3))
    for token in (b"one", b"one", b"two"):
        rates.count(_request(), token, 1)

    with pytest.raises(NotAdmittedError, match="this token has used its 2 requests in 60 seconds; try again in"):
        rates.count(_request(), b"one", 1)
    with pytest.raises(NotAdmittedError, match="this user has used its 3 requests") as refused:
        rates.count(request := _request(), b"two", 1)
    rates.count(_request(), b"three", 2)

    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    assert notes_of(request.scope).headers["RateLimit"].startswith('"token";r=0;t=')
    assert '"user";r=0;t=' in notes_of(request.scope).headers["RateLimit"]


def test_a_network_that_sends_unknown_tokens_is_refused_alone() -> None:
    rates = Rates(Limits(per_user=1))
    for _ in range(MOST_UNKNOWN_TOKENS):
        rates.check_network("192.0.2.1")
        rates.count_unknown("192.0.2.1")

    with pytest.raises(NotAdmittedError, match="your network has sent 60 tokens that are not valid"):
        rates.check_network("192.0.2.1")
    rates.check_network("192.0.2.2")


def test_without_limits_nothing_is_counted() -> None:
    rates = Rates(Limits())
    for _ in range(2 * MOST_UNKNOWN_TOKENS):
        rates.count_unknown("192.0.2.1")
        rates.check_network("192.0.2.1")
        rates.count(request := _request(), b"one", 1)

    assert notes_of(request.scope).headers == {}
