"""Tests that the issuer is taken from the upstream's own metadata only."""

from collections.abc import Callable

import httpx
import pytest

from seller_platform.client.oauth.issuer import issuer_of

_SUPPORTED = {"authorization_response_iss_parameter_supported": True}


def _refuse(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _: httpx.Response(200, json={"issuer": "https://api.example", **_SUPPORTED}), "https://api.example"),
        (lambda _: httpx.Response(200, json={"issuer": "https://evil.example", **_SUPPORTED}), None),
        (lambda _: httpx.Response(200, json={"issuer": "https://api.example"}), None),
        (lambda _: httpx.Response(404, json={"issuer": "https://api.example", **_SUPPORTED}), None),
        (lambda _: httpx.Response(200, content=b"<html>"), None),
        (lambda _: httpx.Response(200, content=b" " * (2 << 20)), None),
        (_refuse, None),
    ],
    ids=["promised", "another issuer", "not promised", "no metadata", "no JSON", "too large", "no connection"],
)
def test_the_issuer_is_known_where_the_upstream_promises_to_name_it(
    answer: Callable[[httpx.Request], httpx.Response], expected: str | None
) -> None:
    assert issuer_of("https://api.example/", httpx.MockTransport(answer)) == expected
