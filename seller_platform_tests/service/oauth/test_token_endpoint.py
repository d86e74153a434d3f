"""Tests the OAuth server: codes, rotation, revocation, and access."""

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest

from seller_platform.contract.tokens import code_challenge
from seller_platform.service.oauth.applications import add_application
from seller_platform_tests.support.served import ANN, CALLBACK, PASSWORD, Served, callback_of, execute, stored, submit

VERIFIER = "v" * 43


def _works(service: Served, access_token: str) -> bool:
    headers = {"Authorization": f"Bearer {access_token}"}
    return httpx.get(f"{service.base_url}/user/me", headers=headers).status_code == 200


def _error(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.json()) == {"error", "error_description"}
    return answer.status_code, answer.json()["error"]


def test_a_code_becomes_a_token_pair_that_opens_the_api(reading: Served) -> None:
    with reading.client() as browser:
        answer = reading.exchange(browser, reading.code(browser))

    pair = answer.json()
    assert list(pair) == ["token_type", "expires_in", "access_token", "refresh_token", "scope"]
    assert (pair["token_type"], pair["expires_in"]) == ("Bearer", 1_296_000)
    assert answer.headers["cache-control"] == "no-store"
    assert _works(reading, pair["access_token"])


def test_the_description_of_an_error_is_ascii(reading: Served) -> None:
    with reading.client() as browser:
        answer = reading.exchange(browser, reading.code(browser), grant_type="Möller 🎉")

    assert answer.json()["error_description"].startswith("grant_type is 'M\\xf6ller \\U0001f389'; it must be")


@pytest.mark.parametrize("decision", ["approve", "deny"])
@pytest.mark.parametrize("state", [None, "plain", "a&b=c d+é%20", "", "\n\r\nX-Evil: 1", "x" * 3000])
def test_a_decision_comes_back_with_the_state_unchanged(reading: Served, state: str | None, decision: str) -> None:
    asked = {"client_id": reading.client_id, "redirect_uri": CALLBACK, "response_type": "code"}
    with reading.client() as browser:
        page = browser.get(
            "/oauth/authorize", params=asked if state is None else {**asked, "state": state}, follow_redirects=True
        )
        page = submit(browser, page, email=ANN.upper(), password=PASSWORD)
        answer = submit(browser, browser.get(page.headers["location"]), decision=decision)

    assert "x-evil" not in answer.headers
    sent_back = dict(httpx.URL(answer.headers["location"]).params)
    assert sent_back.pop("state", None) == state
    assert sent_back.pop("tenant") == "1"
    assert sent_back.keys() == {"iss", "code"} if decision == "approve" else sent_back["error"] == "access_denied"


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "unknown"},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": f"{CALLBACK}/more"},
        {"response_type": "token"},
        {"response_type": ""},
        {"client_id": ""},
        {"redirect_uri": ""},
        {"state": "\0"},
    ],
    ids=str,
)
def test_a_request_that_cannot_be_trusted_ends_on_an_error_page(reading: Served, changed: dict[str, str]) -> None:
    with reading.client() as browser:
        page = reading.request_code(browser, **changed)

    assert (page.status_code, page.history) == (400, [])
    assert page.headers["content-type"].startswith("text/html")
    assert "location" not in page.headers


def test_a_repeated_parameter_ends_on_an_error_page(reading: Served) -> None:
    query = f"client_id={reading.client_id}&client_id={reading.client_id}&redirect_uri=x&response_type=code"

    page = httpx.get(f"{reading.base_url}/oauth/authorize?{query}")

    assert page.status_code == 400


def test_a_code_works_once_and_its_replay_revokes_what_it_issued(reading: Served) -> None:
    with reading.client() as browser:
        code = reading.code(browser)
        pair = reading.exchange(browser, code).json()

        replay = reading.exchange(browser, code)
        refreshed = reading.refresh(browser, pair["refresh_token"])

    assert _error(replay) == (400, "invalid_grant")
    assert _error(refreshed) == (400, "invalid_grant")
    assert not _works(reading, pair["access_token"])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"redirect_uri": "http://127.0.0.1:9/other"}, (400, "invalid_grant")),
        ({"redirect_uri": ""}, (400, "invalid_request")),
        ({"code": "unknown"}, (400, "invalid_grant")),
        ({"client_secret": "wrong"}, (401, "invalid_client")),
        ({"client_id": "unknown"}, (401, "invalid_client")),
        ({"client_secret": ""}, (401, "invalid_client")),
        ({"client_id": ""}, (400, "invalid_request")),
        ({"grant_type": "password"}, (400, "unsupported_grant_type")),
        ({"grant_type": ""}, (400, "invalid_request")),
        ({"code": ""}, (400, "invalid_request")),
        ({"code": "\0"}, (400, "invalid_request")),
        ({"code_verifier": VERIFIER}, (400, "invalid_grant")),
        ({"code_verifier": "short"}, (400, "invalid_request")),
    ],
    ids=str,
)
def test_a_refused_exchange_says_why_and_leaves_the_code_alone(
    reading: Served, changed: dict[str, str], expected: tuple[int, str]
) -> None:
    with reading.client() as browser:
        code = reading.code(browser)
        refused = reading.exchange(browser, code, **changed)
        good = reading.exchange(browser, code)

    assert _error(refused) == expected
    assert ("www-authenticate" in refused.headers) is (expected[0] == 401)
    assert good.status_code == 200


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"grant_type=a&grant_type=b", "application/x-www-form-urlencoded", 400),
        (b'{"grant_type": "refresh_token"}', "application/json", 400),
        (b"%ff=%ff&grant_type=%ED%A0%80", "application/x-www-form-urlencoded", 400),
        (b"a=b&" * 1000, "application/x-www-form-urlencoded", 400),
        (b"x" * 70_000, "application/x-www-form-urlencoded", 413),
        (b"", "", 400),
    ],
)
def test_a_token_request_that_is_no_form_is_refused(
    reading: Served, content: bytes, content_type: str, status: int
) -> None:
    answer = httpx.post(f"{reading.base_url}/oauth/token", content=content, headers={"Content-Type": content_type})

    assert _error(answer) == (status, "invalid_request")


def test_applications_may_authenticate_by_http_basic(reading: Served) -> None:
    with reading.client() as browser:
        form = {"grant_type": "authorization_code", "code": reading.code(browser), "redirect_uri": CALLBACK}
        wrong = browser.post("/oauth/token", data=form, auth=(reading.client_id, "wrong"))
        both = browser.post("/oauth/token", data={**form, **reading.credentials}, auth=(reading.client_id, "x"))
        good = browser.post("/oauth/token", data=form, auth=(reading.client_id, reading.client_secret))

    assert _error(wrong) == (401, "invalid_client")
    assert _error(both) == (400, "invalid_request")
    assert good.status_code == 200


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Bearer x", f"Basic {base64.b64encode(b'a').decode()}"])
def test_a_broken_basic_header_is_an_invalid_client(reading: Served, header: str) -> None:
    answer = httpx.post(
        f"{reading.base_url}/oauth/token", data={"grant_type": "refresh_token"}, headers={"Authorization": header}
    )

    assert _error(answer) == (401, "invalid_client")


def test_a_challenge_wants_its_verifier(reading: Served) -> None:
    with reading.client() as browser:
        code = reading.code(browser, code_challenge=code_challenge(VERIFIER), code_challenge_method="S256")

        without = reading.exchange(browser, code)
        wrong = reading.exchange(browser, code, code_verifier="w" * 43)
        good = reading.exchange(browser, code, code_verifier=VERIFIER)

    assert _error(without) == _error(wrong) == (400, "invalid_grant")
    assert good.status_code == 200


@pytest.mark.parametrize(
    "parameters",
    [
        {"code_challenge": "x" * 43},
        {"code_challenge": "x" * 43, "code_challenge_method": "plain"},
        {"code_challenge": "short", "code_challenge_method": "S256"},
    ],
)
def test_a_challenge_that_cannot_be_used_goes_back_to_the_application(
    reading: Served, parameters: dict[str, str]
) -> None:
    with reading.client() as browser:
        page = reading.request_code(browser, **parameters)
        answer = submit(browser, page, email=ANN, password=PASSWORD)
        answer = browser.get(answer.headers["location"])

    assert page.url.path == "/login"
    assert callback_of(answer)["error"] == "invalid_request"


def test_a_public_client_needs_a_challenge_and_no_secret(service: Served) -> None:
    client_id, _ = add_application(service.database, "Native", CALLBACK, is_public=True)
    public = replace(service, client_id=client_id, client_secret="")
    pkce = {"code_challenge": code_challenge(VERIFIER), "code_challenge_method": "S256"}
    with public.client() as browser:
        submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        asked = {"client_id": public.client_id, "redirect_uri": CALLBACK, "response_type": "code"}
        refused = browser.get("/oauth/authorize", params=asked)
        browser.cookies.clear()
        form = {
            "grant_type": "authorization_code",
            "code": public.code(browser, **pkce),
            "redirect_uri": CALLBACK,
            "client_id": public.client_id,
            "code_verifier": VERIFIER,
        }
        with_a_secret = browser.post("/oauth/token", data={**form, "client_secret": "x"})
        answer = browser.post("/oauth/token", data=form)

    assert callback_of(refused)["error"] == "invalid_request"
    assert _error(with_a_secret) == (401, "invalid_client")
    assert answer.status_code == 200


def test_a_refresh_gives_a_new_pair_and_kills_the_old_refresh_token(reading: Served) -> None:
    with reading.client() as browser:
        first = reading.pair()
        second = reading.refresh(browser, first["refresh_token"]).json()
        assert _works(reading, first["access_token"])
        assert _works(reading, second["access_token"])

        reused = reading.refresh(browser, first["refresh_token"])
        after = reading.refresh(browser, second["refresh_token"])

    assert _error(reused) == _error(after) == (400, "invalid_grant")
    assert not _works(reading, first["access_token"])
    assert not _works(reading, second["access_token"])


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
            assert not _works(reading, winner["access_token"])
            assert reading.refresh(browsers[0], winner["refresh_token"]).status_code == 400


def test_a_refresh_token_is_of_no_use_to_another_application(reading: Served) -> None:
    client_id, client_secret = add_application(reading.database, "Other", CALLBACK)
    with reading.client() as browser:
        pair = reading.pair()
        stolen = reading.refresh(browser, pair["refresh_token"], client_id=client_id, client_secret=client_secret)
        own = reading.refresh(browser, pair["refresh_token"])

    assert _error(stolen) == (400, "invalid_grant")
    assert own.status_code == 200


@pytest.mark.parametrize("changed", ["grant_type", "client_id", "client_secret", "refresh_token"])
def test_a_refused_refresh_leaves_the_refresh_token_alone(reading: Served, changed: str) -> None:
    with reading.client() as browser:
        pair = reading.pair()
        refused = [reading.refresh(browser, pair["refresh_token"], **{changed: value}) for value in ("wrong", "")]
        taken = reading.refresh(browser, pair["refresh_token"])

    assert {_error(answer)[0] for answer in refused} <= {400, 401}
    assert (taken.status_code, taken.json()["refresh_token"] != pair["refresh_token"]) == (200, True)


@pytest.mark.parametrize(("minutes", "status"), [(7, 200), (10, 400)])
def test_a_code_expires_after_ten_minutes(service: Served, minutes: int, status: int) -> None:
    with service.client() as browser:
        code = service.code(browser)
        passed = "UPDATE service.authorization_codes SET expires_at = expires_at - %s * interval '1 minute'"
        execute(service.database, passed, minutes)

        assert service.exchange(browser, code).status_code == status


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize(("kind", "days"), [("access_token", 15), ("refresh_token", 30)])
def test_tokens_expire_after_days(service: Served, kind: str, days: int, is_over: bool) -> None:
    pair = service.pair()
    passed = f"UPDATE service.{kind}s SET expires_at = expires_at - %s"
    execute(service.database, passed, timedelta(days=days) - timedelta(minutes=0 if is_over else 5))

    with service.client() as browser:
        works = (
            _works(service, pair[kind])
            if kind == "access_token"
            else service.refresh(browser, pair[kind]).status_code == 200
        )

    assert works is not is_over


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_revoked_token_is_dead(reading: Served, kind: str) -> None:
    with reading.client() as browser:
        pair = reading.pair()
        answer = browser.post("/oauth/revoke", data={"token": pair[kind], **reading.credentials})
        unknown = browser.post("/oauth/revoke", data={"token": "unknown", **reading.credentials})
        refreshed = reading.refresh(browser, pair["refresh_token"])

    assert (answer.status_code, unknown.status_code) == (200, 200)
    assert not _works(reading, pair["access_token"])
    assert (refreshed.status_code == 200) is (kind == "access_token")


def test_revoking_a_refresh_token_ends_all_tokens_of_its_consent_only(reading: Served) -> None:
    with reading.client() as browser:
        first, kept = reading.pair(), reading.pair()
        second = reading.refresh(browser, first["refresh_token"]).json()
        form = {"token": second["refresh_token"], "token_type_hint": "access_token", **reading.credentials}
        answer = browser.post("/oauth/revoke", data=form)
        refreshed = reading.refresh(browser, second["refresh_token"])

    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert not _works(reading, first["access_token"])
    assert not _works(reading, second["access_token"])
    assert _error(refreshed) == (400, "invalid_grant")
    assert _works(reading, kept["access_token"])


def test_an_application_cannot_revoke_the_tokens_of_another(reading: Served) -> None:
    client_id, client_secret = add_application(reading.database, "Other", CALLBACK)
    with reading.client() as browser:
        pair = reading.pair()
        for kind in ("access_token", "refresh_token"):
            form = {"token": pair[kind], "client_id": client_id, "client_secret": client_secret}
            assert browser.post("/oauth/revoke", data=form).status_code == 200

        assert _works(reading, pair["access_token"])
        assert reading.refresh(browser, pair["refresh_token"]).status_code == 200


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"token": ""}, (400, "invalid_request")),
        ({"token": "\0"}, (400, "invalid_request")),
        ({"client_secret": "wrong"}, (401, "invalid_client")),
        ({"client_id": ""}, (400, "invalid_request")),
    ],
    ids=str,
)
def test_a_revocation_that_is_refused_says_why(
    reading: Served, changed: dict[str, str], expected: tuple[int, str]
) -> None:
    answer = httpx.post(f"{reading.base_url}/oauth/revoke", data={"token": "x", **reading.credentials, **changed})

    assert _error(answer) == expected


def test_secrets_are_stored_as_hashes_only(service: Served) -> None:
    with service.client() as browser:
        code = service.code(browser)
        pair = service.exchange(browser, code).json()
        cookies = list(browser.cookies.values())
    texts = [code, pair["access_token"], pair["refresh_token"], service.client_secret, PASSWORD, *cookies]

    for table in ("authorization_codes", "access_tokens", "refresh_tokens", "applications", "users", "sessions"):
        rows = stored(service.database, f"SELECT t::text FROM service.{table} AS t")
        assert rows
        assert not any(text in row or text.encode().hex() in row for (row,) in rows for text in texts)


def test_the_metadata_name_the_endpoints(reading: Served) -> None:
    answer = httpx.get(f"{reading.base_url}/.well-known/oauth-authorization-server")
    metadata = answer.json()

    assert answer.headers["content-type"] == "application/json"
    assert metadata["issuer"] == reading.base_url
    assert metadata["authorization_endpoint"] == f"{reading.base_url}/oauth/authorize"
    assert metadata["token_endpoint"] == f"{reading.base_url}/oauth/token"
    assert metadata["revocation_endpoint"] == f"{reading.base_url}/oauth/revoke"
    assert metadata["service_documentation"] == f"{reading.base_url}/docs"
    assert metadata["response_types_supported"] == ["code"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    for endpoint in ("authorization_endpoint", "token_endpoint", "revocation_endpoint", "service_documentation"):
        assert httpx.options(metadata[endpoint]).status_code == 204, endpoint
