"""Tests the OAuth server: codes, rotation, revocation, and access."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import httpx
import pytest

from seller_platform.service.oauth.applications import add_application
from seller_platform_tests.support.served import ANN, CALLBACK, PASSWORD, PKCE, VERIFIER, Served, callback_of, submit


def _error(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) == {"error", "error_description"}
    assert answer.json()["error_description"].isascii()
    return answer.status_code, answer.json()["error"]


def test_a_code_becomes_a_token_pair_that_opens_the_api(reading: Served, browser: httpx.Client) -> None:
    answer = reading.exchange(browser, reading.code(browser))

    pair = answer.json()
    assert list(pair) == ["token_type", "expires_in", "access_token", "refresh_token", "scope"]
    assert (pair["token_type"], pair["expires_in"]) == ("Bearer", 1_296_000)
    assert answer.headers["cache-control"] == "no-store"
    assert reading.status_of(pair["access_token"]) == 200


def test_a_decision_comes_back_with_the_state_unchanged(reading: Served, browser: httpx.Client) -> None:
    asked = {"client_id": reading.client_id, "redirect_uri": CALLBACK, "response_type": "code"}
    page = browser.get("/oauth/authorize", params=asked, follow_redirects=True)
    assert submit(browser, page, email=ANN.upper(), password=PASSWORD).status_code == 303
    for state in (None, "plain", "a&b=c d+é%20", "", "\n\r\nX-Evil: 1", "x" * 3000):
        for decision in ("approve", "deny"):
            page = browser.get("/oauth/authorize", params=asked if state is None else {**asked, "state": state})
            answer = submit(browser, page, decision=decision)

            assert "x-evil" not in answer.headers
            sent_back = dict(httpx.URL(answer.headers["location"]).params)
            assert sent_back.pop("state", None) == state
            assert (sent_back.pop("tenant"), sent_back.pop("iss")) == ("1", reading.base_url)
            is_approved = decision == "approve"
            assert sent_back.keys() == {"code"} if is_approved else sent_back["error"] == "access_denied"


def test_a_request_that_cannot_be_trusted_ends_on_an_error_page(reading: Served, browser: httpx.Client) -> None:
    twice = f"client_id={reading.client_id}&client_id={reading.client_id}&redirect_uri=x&response_type=code"
    pages = [
        reading.request_code(browser, **{name: value})
        for name, values in {
            "client_id": ("unknown", ""),
            "redirect_uri": ("https://evil.example/", f"{CALLBACK}/more", ""),
            "response_type": ("token", ""),
            "state": ("\0",),
        }.items()
        for value in values
    ]
    pages.append(browser.get(f"/oauth/authorize?{twice}"))

    for page in pages:
        assert (page.status_code, page.history, "location" in page.headers) == (400, [], False), page.url
        assert page.headers["content-type"].startswith("text/html")


def test_a_refused_exchange_says_why_and_leaves_the_code_alone(reading: Served, browser: httpx.Client) -> None:
    refusals: list[tuple[dict[str, str], tuple[int, str]]] = [
        *(({name: ""}, (400, "invalid_request")) for name in ("redirect_uri", "client_id", "grant_type", "code")),
        *(({name: "wrong"}, (401, "invalid_client")) for name in ("client_id", "client_secret")),
        ({"client_secret": ""}, (401, "invalid_client")),
        ({"redirect_uri": "http://127.0.0.1:9/other"}, (400, "invalid_grant")),
        *(({"grant_type": name}, (400, "unsupported_grant_type")) for name in ("password", "Möller 🎉")),
        ({"code": "unknown"}, (400, "invalid_grant")),
        ({"code": "\0"}, (400, "invalid_request")),
        ({"code_verifier": VERIFIER}, (400, "invalid_grant")),
        ({"code_verifier": "short"}, (400, "invalid_request")),
    ]
    code = reading.code(browser)
    for changed, expected in refusals:
        refused = reading.exchange(browser, code, **changed)
        assert _error(refused) == expected, changed
        assert ("www-authenticate" in refused.headers) is (expected[0] == 401)
    assert reading.exchange(browser, code).status_code == 200


def test_a_token_request_that_is_no_form_is_refused(reading: Served) -> None:
    form, url = "application/x-www-form-urlencoded", f"{reading.base_url}/oauth/token"
    for content, content_type, status in (
        (b"grant_type=a&grant_type=b", form, 400),
        (b'{"grant_type": "refresh_token"}', "application/json", 400),
        (b"%ff=%ff&grant_type=%ED%A0%80", form, 400),
        (b"a=b&" * 1000, form, 400),
        (b"x" * 70_000, form, 413),
        (b"", "", 400),
    ):
        answer = httpx.post(url, content=content, headers={"Content-Type": content_type})
        assert _error(answer) == (status, "invalid_request"), content[:40]


def test_applications_may_authenticate_by_http_basic(reading: Served, browser: httpx.Client) -> None:
    form = {"grant_type": "authorization_code", "code": reading.code(browser), "redirect_uri": CALLBACK}
    wrong = browser.post("/oauth/token", data=form, auth=(reading.client_id, "wrong"))
    both = browser.post("/oauth/token", data={**form, **reading.credentials}, auth=(reading.client_id, "x"))
    broken = [
        browser.post("/oauth/token", data=form, headers={"Authorization": header})
        for header in ("Basic", "Basic !!!", "Bearer x", f"Basic {base64.b64encode(b'a').decode()}")
    ]
    good = browser.post("/oauth/token", data=form, auth=(reading.client_id, reading.client_secret))

    assert {_error(answer) for answer in (wrong, *broken)} == {(401, "invalid_client")}
    assert _error(both) == (400, "invalid_request")
    assert good.status_code == 200


def test_a_challenge_wants_its_verifier(reading: Served, browser: httpx.Client) -> None:
    code = reading.code(browser, **PKCE)

    without = reading.exchange(browser, code)
    wrong = reading.exchange(browser, code, code_verifier="w" * 43)
    good = reading.exchange(browser, code, code_verifier=VERIFIER)

    assert _error(without) == _error(wrong) == (400, "invalid_grant")
    assert good.status_code == 200


def test_a_challenge_that_cannot_be_used_goes_back_to_the_application(reading: Served) -> None:
    with reading.client() as anonymous, reading.logged_in() as browser:
        for parameters in (
            {"code_challenge": "x" * 43},
            {"code_challenge": "x" * 43, "code_challenge_method": "plain"},
            {"code_challenge": "short", "code_challenge_method": "S256"},
        ):
            asked = {"client_id": reading.client_id, "redirect_uri": CALLBACK, "response_type": "code", **parameters}
            assert reading.request_code(anonymous, **parameters).url.path == "/login"
            sent_back = callback_of(browser.get("/oauth/authorize", params=asked))
            assert (sent_back["error"], sent_back["iss"]) == ("invalid_request", reading.base_url)


@pytest.mark.parametrize("kind", ["code", "refresh token"])
def test_of_eight_simultaneous_uses_one_wins_and_is_revoked(reading: Served, kind: str) -> None:
    start, spent = threading.Barrier(8), list[str]()

    def spend(browser: httpx.Client) -> httpx.Response:
        start.wait()
        return (reading.exchange if kind == "code" else reading.refresh)(browser, spent[-1])

    with ExitStack() as opened, ThreadPoolExecutor(start.parties) as threads:
        browsers = [opened.enter_context(reading.client()) for _ in range(start.parties)]
        for _ in range(5):
            with reading.client() as browser:
                spent.append(reading.code(browser) if kind == "code" else reading.pair()["refresh_token"])
            answers = list(threads.map(spend, browsers))

            assert sorted(answer.status_code for answer in answers) == [200, *[400] * 7]
            (winner,) = (answer.json() for answer in answers if answer.status_code == 200)
            assert reading.status_of(winner["access_token"]) == 401
            assert reading.refresh(browsers[0], winner["refresh_token"]).status_code == 400


def test_a_refused_refresh_leaves_the_refresh_token_alone(reading: Served, browser: httpx.Client) -> None:
    client_id, client_secret = add_application(reading.database, "Other", CALLBACK)
    pair = reading.pair()
    refused = [
        reading.refresh(browser, pair["refresh_token"], **{name: value})
        for name in ("grant_type", "client_id", "client_secret", "refresh_token")
        for value in ("wrong", "")
    ]
    stolen = reading.refresh(browser, pair["refresh_token"], client_id=client_id, client_secret=client_secret)
    taken = reading.refresh(browser, pair["refresh_token"])

    assert {_error(answer)[0] for answer in refused} <= {400, 401}
    assert _error(stolen) == (400, "invalid_grant")  # it is of no use to another application
    assert (taken.status_code, taken.json()["refresh_token"] != pair["refresh_token"]) == (200, True)


def test_codes_expire_after_minutes_and_tokens_after_days(service: Served, browser: httpx.Client) -> None:
    def age(table: str, **passed: float) -> None:
        service.execute(f"UPDATE service.{table} SET expires_at = expires_at - %s", timedelta(**passed))

    codes = [service.code(browser)]
    browser.cookies.clear()
    age("authorization_codes", minutes=3)
    codes.append(service.code(browser))
    age("authorization_codes", minutes=7)
    pair = service.exchange(browser, codes[1]).json()
    late = service.exchange(browser, codes[0])
    age("access_tokens", days=15, minutes=-5)
    age("refresh_tokens", days=30, minutes=-5)
    assert service.status_of(pair["access_token"]) == 200
    age("access_tokens", minutes=5)
    assert service.status_of(pair["access_token"]) == 401
    next_pair = service.refresh(browser, pair["refresh_token"]).json()
    age("refresh_tokens", days=30)
    expired = service.refresh(browser, next_pair["refresh_token"])

    assert _error(late) == _error(expired) == (400, "invalid_grant")


def test_a_revocation_ends_an_access_token_or_all_tokens_of_a_consent(reading: Served, browser: httpx.Client) -> None:
    client_id, client_secret = add_application(reading.database, "Other", CALLBACK)

    def revoke(token: str, **changed: str) -> httpx.Response:
        return browser.post("/oauth/revoke", data={"token": token, **reading.credentials, **changed})

    first, kept = reading.pair(), reading.pair()
    second = reading.refresh(browser, first["refresh_token"]).json()
    works = [reading.status_of(pair["access_token"]) for pair in (first, second)]
    of_another = {"client_id": client_id, "client_secret": client_secret}
    others = [revoke(second[kind], **of_another) for kind in ("access_token", "refresh_token")]
    assert [*works, reading.status_of(second["access_token"])] == [200] * 3
    alone = revoke(second["access_token"])
    assert reading.status_of(second["access_token"]) == 401
    third = reading.refresh(browser, second["refresh_token"]).json()
    whole, unknown = revoke(third["refresh_token"], token_type_hint="access_token"), revoke("unknown")
    refreshed = reading.refresh(browser, third["refresh_token"])
    for changed, expected in (
        ({"token": ""}, (400, "invalid_request")),
        ({"token": "\0"}, (400, "invalid_request")),
        ({"client_secret": "wrong"}, (401, "invalid_client")),
        ({"client_id": ""}, (400, "invalid_request")),
    ):
        assert _error(revoke(**{"token": "x", **changed})) == expected

    for answer in (*others, alone, whole, unknown):
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert [reading.status_of(pair["access_token"]) for pair in (first, third)] == [401, 401]
    assert _error(refreshed) == (400, "invalid_grant")
    assert reading.status_of(kept["access_token"]) == 200


def test_secrets_are_stored_as_hashes_only(service: Served, browser: httpx.Client) -> None:
    code = service.code(browser)
    pair = service.exchange(browser, code).json()
    cookies = list(browser.cookies.values())
    texts = [code, pair["access_token"], pair["refresh_token"], service.client_secret, PASSWORD, *cookies]

    for table in ("authorization_codes", "access_tokens", "refresh_tokens", "applications", "users", "sessions"):
        rows = service.stored(f"SELECT t::text FROM service.{table} AS t")
        assert rows
        assert not any(text in row or text.encode().hex() in row for (row,) in rows for text in texts)


def test_the_metadata_name_the_endpoints(reading: Served) -> None:
    answer = httpx.get(f"{reading.base_url}/.well-known/oauth-authorization-server")
    metadata = answer.json()

    assert answer.headers["content-type"] == "application/json"
    assert metadata["scopes_supported"] == ["read", "costs:write", "reports"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    for endpoint in ("authorization_endpoint", "token_endpoint", "revocation_endpoint", "service_documentation"):
        assert metadata[endpoint].startswith(f"{metadata['issuer']}/")
        assert httpx.options(metadata[endpoint]).status_code == 204, endpoint
