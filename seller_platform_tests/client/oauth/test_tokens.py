"""Tests that tokens are obtained once, refreshed in time, and never shown."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from seller_platform.client.oauth.tokens import GrantAuth, TokenEndpoint, authorization_url, issuer_of
from seller_platform.contract.tokens import TokenPair, code_challenge
from seller_platform.errors import (
    ReauthorizationRequiredError,
    RequestRefusedError,
    TokenRefusedError,
    UpstreamUnavailableError,
)
from seller_platform_tests.client.http.test_api import in_turn
from seller_platform_tests.support.http_upstream import FakeTime, api_of, recording

_SUPPORTED = {"authorization_response_iss_parameter_supported": True}
ANSWER = {"token_type": "Bearer", "expires_in": 60, "access_token": "access-2", "refresh_token": "refresh-2"}


def endpoint_of(answer: Any) -> TokenEndpoint:
    return TokenEndpoint(
        "http://upstream/api", "app", "hush", "http://127.0.0.1/cb", httpx.MockTransport(answer), clock=FakeTime().clock
    )


def a_pair(number: int = 1) -> TokenPair:
    return TokenPair(f"access-{number}", f"refresh-{number}", datetime(2026, 3, 1, tzinfo=UTC), 60)


class KeptPair:
    """A token source that counts rotations.

    Attributes:
        elsewhere: The rotations of another process after the first of its own.
    """

    connection = "default"

    def __init__(self, *, elsewhere: int = 0) -> None:
        self.number, self.rotations, self.elsewhere = 1, 0, elsewhere

    def token(self) -> TokenPair:
        return a_pair(self.number)

    def rotate(self, rejected_access_token: str) -> TokenPair:
        if rejected_access_token == f"access-{self.number}":
            self.number, self.rotations = self.number + 1, self.rotations + 1
        self.number, self.elsewhere = self.number + self.elsewhere, 0
        return a_pair(self.number)


def accepting(*tokens: str) -> Any:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200 if request.headers["Authorization"] in {f"Bearer {it}" for it in tokens} else 401, json={}
        )

    return answer


def test_a_refresh_sends_a_form_with_the_application_in_it() -> None:
    seen: list[httpx.Request] = []

    pair = endpoint_of(recording(seen, ANSWER)).refresh("refresh-1")

    assert str(seen[0].url) == "http://upstream/api/oauth/token"
    assert parse_qs(seen[0].content.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["refresh-1"],
        "client_id": ["app"],
        "client_secret": ["hush"],
    }
    assert (pair.access_token, pair.refresh_token, pair.expires_in_seconds) == ("access-2", "refresh-2", 60)


def test_an_exchange_sends_code_verifier_and_redirect_uri() -> None:
    seen: list[httpx.Request] = []

    endpoint_of(recording(seen, ANSWER)).exchange("the-code", "the-verifier")

    form = parse_qs(seen[0].content.decode())
    assert form["grant_type"] == ["authorization_code"]
    assert (form["code"], form["code_verifier"]) == (["the-code"], ["the-verifier"])
    assert form["redirect_uri"] == ["http://127.0.0.1/cb"]


def test_a_refresh_without_a_new_refresh_token_keeps_the_old_one() -> None:
    answer = {"access_token": "access-2", "expires_in": "3600"}

    pair = endpoint_of(lambda request: httpx.Response(200, json=answer)).refresh("refresh-1")

    assert (pair.refresh_token, pair.expires_in_seconds) == ("refresh-1", 3600)


@pytest.mark.parametrize("lifetime", ["null", '"soon"', "-1", "0", "[]", '"NaN"', "Infinity", "9" * 5_000])
def test_a_lifetime_that_says_nothing_is_the_one_of_the_api(lifetime: str) -> None:
    body = json.dumps(ANSWER).replace("60", lifetime)

    pair = endpoint_of(lambda request: httpx.Response(200, text=body)).refresh("refresh-1")

    assert pair.expires_in_seconds == 1_296_000


def test_a_refused_refresh_says_why_without_repeating_secrets() -> None:
    body = {"error": "invalid_grant", "error_description": "refresh-1 of hush is gone"}

    with pytest.raises(TokenRefusedError) as caught:
        endpoint_of(lambda request: httpx.Response(400, json=body)).refresh("refresh-1")

    assert caught.value.error == "invalid_grant"
    assert "refresh-1" not in str(caught.value) and "hush" not in str(caught.value)


def test_a_refusal_without_a_reason_is_not_taken_for_an_invalid_grant() -> None:
    with pytest.raises(TokenRefusedError) as caught:
        endpoint_of(lambda request: httpx.Response(403, text="<html>")).refresh("refresh-1")

    assert caught.value.error == "http_403"


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.Response(429), httpx.Response(503)], ids=repr)
def test_a_refresh_that_did_not_reach_the_upstream_is_tried_again(fault: Any) -> None:
    pair = endpoint_of(in_turn(fault, httpx.Response(200, json=ANSWER))).refresh("refresh-1")

    assert pair.access_token == "access-2"


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("cut"),
        httpx.Response(502),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={**ANSWER, "padding": "x" * (1 << 20)}),
        httpx.Response(200, json={"access_token": "two words", "refresh_token": "x"}),
    ],
    ids=repr,
)
def test_a_refresh_whose_answer_was_lost_is_not_sent_twice(fault: Any) -> None:
    with pytest.raises(UpstreamUnavailableError, match=r"1 attempt\."):
        endpoint_of(in_turn(fault)).refresh("refresh-1")


@pytest.mark.parametrize(("accepted", "elsewhere", "rotations"), [(2, 0, 1), (3, 1, 1), (4, 0, 3)])
def test_a_401_rotates_up_to_three_times_and_is_sent_again(accepted: int, elsewhere: int, rotations: int) -> None:
    """Also where another process has put a pair in place of ours."""
    source = KeptPair(elsewhere=elsewhere)

    with api_of(accepting(f"access-{accepted}"), auth=GrantAuth(source)) as api:
        answer = api.get("/user/me")

    assert (source.rotations, answer.requests) == (rotations, rotations + 1)


def test_an_upstream_that_rejects_every_token_it_issues_is_unavailable() -> None:
    source = KeptPair()

    with (
        api_of(accepting(), auth=GrantAuth(source)) as api,
        pytest.raises(
            UpstreamUnavailableError, match="rejects each access token that it issues to connection 'default'"
        ),
    ):
        api.get("/user/me")

    assert source.rotations == 3


@pytest.mark.parametrize("status", [302, 303, 307])
@pytest.mark.parametrize(
    "location",
    [
        "/",
        "https://upstream/sessions/new?secret=1",
        "//accounts.provider.example?secret=1",
        "/account/Login.aspx?ReturnUrl=secret",
        "//ann:secret@upstream/cas/",
        "/portal/loginpage?next=/api/user/me&secret",
    ],
)
def test_a_redirect_to_a_page_is_a_401_once(status: int, location: str) -> None:
    source, login = KeptPair(), httpx.Response(status, headers={"Location": location})

    with api_of(in_turn(login, httpx.Response(200, json=[]), login, login), auth=GrantAuth(source)) as api:
        assert (api.get("/user/me").requests, source.rotations) == (2, 1)
        with pytest.raises(ReauthorizationRequiredError, match=r"as to a login page, .*SELLER_API") as raised:
            api.get("/user/me")

    assert source.rotations == 2
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "location"),
    [
        *((302, location) for location in ("https://eu.upstream/v2/user/me", "/api/user/me/", "http://[", "")),
        (307, "https://files.example/7.CSV.gz?signature=1"),
        (301, "https://upstream/api/v2"),
        (308, "/login"),
    ],
)
def test_another_redirect_is_refused_at_once(status: int, location: str) -> None:
    source, moved = KeptPair(), httpx.Response(status, headers={"Location": location})

    with api_of(in_turn(moved), auth=GrantAuth(source)) as api, pytest.raises(RequestRefusedError, match="redirects"):
        api.get("/user/me")

    assert source.rotations == 0


def test_the_authorization_url_carries_state_and_challenge() -> None:
    url = authorization_url("http://auth/", "app", "http://127.0.0.1:1/cb", "st", code_challenge("verifier"))

    assert url.startswith("http://auth/oauth/authorize?")
    query = parse_qs(urlsplit(url).query)
    assert query["state"] == ["st"] and query["code_challenge_method"] == ["S256"]
    assert query["response_type"] == ["code"] and query["redirect_uri"] == ["http://127.0.0.1:1/cb"]


def test_the_challenge_is_that_of_the_rfc() -> None:
    # RFC 7636, appendix B.
    challenge = code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")

    assert challenge == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _: httpx.Response(200, json={"issuer": "https://api.example", **_SUPPORTED}), "https://api.example"),
        (lambda _: httpx.Response(200, json={"issuer": "https://evil.example", **_SUPPORTED}), None),
        (lambda _: httpx.Response(200, json={"issuer": "https://api.example"}), None),
        (lambda _: httpx.Response(404, json={"issuer": "https://api.example", **_SUPPORTED}), None),
        (lambda _: httpx.Response(200, content=b"<html>"), None),
        (lambda _: httpx.Response(200, content=b" " * (2 << 20)), None),
        (in_turn(httpx.ConnectError("refused")), None),
    ],
    ids=["promised", "another issuer", "not promised", "no metadata", "no JSON", "too large", "no connection"],
)
def test_the_issuer_is_known_where_the_upstream_promises_to_name_it(
    answer: Callable[[httpx.Request], httpx.Response], expected: str | None
) -> None:
    assert issuer_of("https://api.example/", httpx.MockTransport(answer)) == expected
