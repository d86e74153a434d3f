"""Tests the pages under Admin, Developers: new clients, their changes and secrets."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from seller_platform.service.errors import InvalidValueError
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.oauth.developers_page import MOST_APPLICATIONS
from seller_platform.service.oauth.registration_rules import check_redirect_uri, is_registered, target_of
from seller_platform_tests.support.served import ANN, CALLBACK, CLIENT_ID, PKCE, VERIFIER, Served, submit, value_in

HOME, NEW = "/admin/developers", "/admin/developers/new"
OTHER = "https://app.example/callback"


def _create(service: Served, browser: httpx.Client, name: str = "My app", redirect_uri: str = CALLBACK) -> Served:
    """Return the service with a new client of the user."""
    answer = submit(browser, browser.get(NEW), name=name, redirect_uri=redirect_uri)
    return _with_client(service, answer)


def _with_client(service: Served, page: httpx.Response) -> Served:
    assert page.status_code == 200, page.text
    secret = value_in(page, CLIENT_ID.replace("_id", "_secret"))
    return replace(service, client_id=value_in(page, CLIENT_ID), client_secret=secret)


def _status(own: Served) -> int:
    """Return the status with which the token endpoint answers the client's secret: 400, or 401 if it is refused."""
    with own.client() as browser:
        return own.refresh(browser, "unknown").status_code


def test_a_request_names_one_of_several_redirect_uris(service: Served, user: httpx.Client) -> None:
    own = _create(service, user, redirect_uri=f"  {CALLBACK}\r\n\r\n{OTHER}\r\n{CALLBACK}")
    listed = user.get(HOME)
    pages = [own.request_code(user, redirect_uri=uri) for uri in (CALLBACK, OTHER, f"{OTHER}/more", "")]
    answer = submit(user, pages[1], decision="approve")
    code = httpx.URL(answer.headers["location"]).params["code"]
    other_uri = own.exchange(user, code)
    same_uri = own.exchange(user, code, redirect_uri=OTHER)

    assert [page.status_code for page in pages] == [200, 200, 400, 400]
    assert answer.headers["location"].startswith(f"{OTHER}?")
    assert (other_uri.status_code, same_uri.status_code) == (400, 200)
    assert listed.text.count(f'<dd class="mono">{CALLBACK}</dd>') == 1
    assert f'<dd class="mono">{OTHER}</dd>' in listed.text


def test_a_new_secret_ends_the_one_so_far_and_is_made_once(service: Served) -> None:
    with service.logged_in() as browser, ThreadPoolExecutor(4) as threads:
        old = _create(service, browser)
        page = browser.get(f"{HOME}/{old.client_id}/secret")
        answers = list(threads.map(lambda _: submit(browser, page), range(4)))
        [made] = [answer for answer in answers if answer.status_code == 200]
        new = _with_client(service, made)
        after = [_status(old), _status(new)]
        reloaded = submit(browser, page)
        still = [_status(old), _status(new)]
    statement = "SELECT kind FROM service.security_events WHERE client_id = %s AND kind LIKE 'secret%%' ORDER BY id"

    assert service.stored(statement, old.client_id) == [("secret_created",), ("secret_refused",)]
    assert new.client_id == old.client_id
    assert (after, still) == ([401, 400], [401, 400])
    assert reloaded.headers["location"] == f"{HOME}?notice=repeated"


def test_a_native_client_needs_a_challenge_and_may_use_any_loopback_port(service: Served, user: httpx.Client) -> None:
    registered = "http://127.0.0.1/callback"
    client_id, secret = add_application(service.database, "Native", registered, is_public=True)
    public = replace(service, client_id=client_id, client_secret=secret)
    here = "http://127.0.0.1:51004/callback"
    asked = {"client_id": client_id, "redirect_uri": here, "response_type": "code"}
    unchallenged = user.get("/oauth/authorize", params=asked)
    page = public.request_code(user, redirect_uri=here, **PKCE)
    answer = submit(user, page, decision="approve")
    code = httpx.URL(answer.headers["location"]).params["code"]
    with_a_secret = public.exchange(user, code, redirect_uri=here, code_verifier=VERIFIER, client_secret="x")
    other_port, same_port = (
        public.exchange(user, code, redirect_uri=uri, code_verifier=VERIFIER) for uri in (registered, here)
    )

    assert unchallenged.headers["location"].startswith(f"{here}?error=invalid_request&")
    assert (with_a_secret.status_code, with_a_secret.json()["error"]) == (401, "invalid_client")
    assert answer.headers["location"].startswith(f"{here}?code=")
    assert "http://127.0.0.1:51004" in page.headers["content-security-policy"]
    assert (other_port.status_code, same_port.status_code) == (400, 200)


def test_only_the_port_of_a_loopback_address_of_a_public_client_may_vary() -> None:
    here = "http://127.0.0.1/cb"
    for registered, sent in (
        (here, "http://127.0.0.1:5/cb"),
        ("http://127.0.0.1:9/cb?a=1", "http://127.0.0.1:5/cb?a=1"),
        ("http://[::1]:1/cb", "http://[::1]:65535/cb"),
    ):
        uris = ["https://app.example/", registered]
        assert is_registered(sent, uris, is_public=True)
        assert not is_registered(sent, uris, is_public=False)
    others = (
        *("http://127.0.0.1:5/cb/", "http://127.0.0.1:5/cb?a=1", "https://127.0.0.1:5/cb", "http://[::1]:5/cb"),
        *("http://u@127.0.0.1:5/cb", "http://127.0.0.1:99999/cb", "http://127.0.0.1:5@evil.example/cb"),
        *("http://127.0.0.1.evil.example:5/cb", "http://[::1", " http://127.0.0.1:5/cb", "HTTP://127.0.0.1:5/cb"),
        "http://127.0.0.1:5/CB",
    )
    for registered, sent in (
        *((here, other) for other in others),
        ("http://localhost/cb", "http://localhost:5/cb"),
        ("https://app.example/cb", "https://app.example:5/cb"),
    ):
        assert not is_registered(sent, [registered], is_public=True), sent


def test_redirect_uris_of_native_applications_are_registered(reading: Served, user: httpx.Client) -> None:
    for uri, target in (
        ("com.example.app:/callback", "com.example.app"),
        ("com.example.app://callback/x?a=1", "com.example.app"),
        ("io.git-hub.desk:/oauth/2", "io.git-hub.desk"),
        ("https://app.example/.well-known/callback", "app.example"),
        ("http://127.0.0.1/", "127.0.0.1"),
        ("http://[::1]:0/callback", "[::1]:0"),
    ):
        created = submit(user, user.get(NEW), name="Native", redirect_uri=uri, public="yes")
        client_id = value_in(created, CLIENT_ID)
        page = reading.request_code(user, client_id=client_id, redirect_uri=uri, **PKCE)
        answer = submit(user, page, decision="approve")
        listed = user.get("/admin/applications")
        submit(user, user.get(f"{HOME}/{client_id}/delete"))

        assert target_of(uri) == target
        assert f"came here from <strong>{target}</strong>" in page.text
        assert f"{target}</dd>" in listed.text
        assert answer.headers["location"].startswith(f"{uri}{'&' if '?' in uri else '?'}code=")
        assert f"form-action 'self' {uri.partition(':')[0]}:" in page.headers["content-security-policy"]


def test_only_redirect_uris_that_are_safe_are_registered() -> None:
    for uri in (
        *("https://app.example/callback?tenant=1", "http://127.0.0.1:8765/callback", "http://localhost/callback"),
        "http://[::1]:1/",
    ):
        check_redirect_uri(uri)
    for uri in (
        *("http://app.example/callback", "https://app.example/#fragment", "https://app.example/#", "/callback"),
        *("https://", "javascript:alert(1)", "https://user:secret@app.example/", "https://app.example/a b"),
        *("https://app.example\\@evil.example/", "https://app.example:99999/", "https://[::1/"),
        *("https://bücher.example/", "https://app.example/\r\nX: y", "data:text/html,a.b", "file:///a.b"),
        *("desk://callback", "app.example:8443/callback", "com.example.app:callback", "com.example.app:"),
        *("com.example.app:/callback#part", "com.example.app://user@host/", "com.example.app:/?code=1", "com..app:/x"),
        *("https://a;script-src/", "https://app.example/" + "x" * 2_000, ".com.app:/x", "com.ex;ample:/x"),
        *("https://app.example/?state", "https://app.example/?a=1;ISS=2"),
    ):
        with pytest.raises(InvalidValueError):
            check_redirect_uri(uri)


def test_a_client_that_can_keep_no_secret_gets_none(service: Served, user: httpx.Client) -> None:
    answer = submit(user, user.get(NEW), name="Native", redirect_uri=CALLBACK, public="yes")
    wrong = submit(user, user.get(NEW), name="", redirect_uri=CALLBACK, public="yes", agents="yes")
    listed = user.get(HOME)
    assert "has no secret" in user.get(f"{HOME}/{value_in(answer, CLIENT_ID)}/secret").text

    assert service.stored("SELECT secret_hash FROM service.applications WHERE name = 'Native'") == [(None,)]
    assert answer.status_code == 200
    assert 'id="client_secret"' not in answer.text
    assert "PKCE" in answer.text
    assert "must use PKCE" in listed.text
    for box in ("public", "agents"):
        assert re.search(f'<input id="{box}"[^>]* checked>', wrong.text)


def test_the_secret_is_only_in_the_one_answer_that_makes_a_client(service: Served) -> None:
    with service.logged_in() as browser, ThreadPoolExecutor(6) as pool:
        page, name = browser.get(NEW), '<img src=x onerror=alert(1)>"'
        answers = list(pool.map(lambda _: submit(browser, page, name=name, redirect_uri=CALLBACK), range(6)))
        again = submit(browser, page, name=name, redirect_uri=CALLBACK)
        [first] = [answer for answer in answers if answer.status_code == 200]
        own = _with_client(service, first)
        listed, deletion = browser.get(HOME), browser.get(f"{HOME}/{own.client_id}/delete")

    assert sorted(answer.status_code for answer in answers) == [200, 303, 303, 303, 303, 303]
    assert first.headers["cache-control"] == "no-store"
    assert again.headers["location"] == f"{HOME}?notice=repeated"
    assert own.client_secret not in listed.text
    assert listed.text.count("<section") == 1
    for shown in (listed, deletion):
        assert ("<img" in shown.text, "&lt;img" in shown.text) == (False, True)
    rows = service.stored("SELECT t::text FROM service.applications AS t")
    assert not any(own.client_secret in row or own.client_secret.encode().hex() in row for (row,) in rows)


def test_deleting_a_client_ends_its_tokens(service: Served, user: httpx.Client) -> None:
    own = _create(service, user)
    client_id = own.client_id
    pair = own.pair()
    assert "1 user has" in user.get(f"{HOME}/{client_id}/delete").text
    answer = submit(user, user.get(f"{HOME}/{client_id}/delete"))
    with own.client() as browser:
        refreshed, read = own.refresh(browser, pair["refresh_token"]), own.status_of(pair["access_token"])
    events = "SELECT kind FROM service.security_events WHERE client_id = %s AND kind LIKE 'application%%' ORDER BY id"

    assert service.stored(events, client_id) == [("application_registered",), ("application_deleted",)]
    assert answer.headers["location"] == f"{HOME}?notice=deleted"
    assert (refreshed.status_code, refreshed.json()["error"], read) == (401, "invalid_client", 401)


def test_a_user_has_a_bounded_number_of_clients(service: Served, user: httpx.Client) -> None:
    service.execute(
        "INSERT INTO service.applications (client_id, name, redirect_uris, origin, owner_id) "
        "SELECT 'client ' || n, 'App', '{https://app.example/}', 'owner', users.id "
        "FROM service.users, generate_series(1, %s) AS n WHERE users.email = %s",
        MOST_APPLICATIONS,
        ANN,
    )
    answer = submit(user, user.get(NEW), name="One more", redirect_uri=CALLBACK)

    assert answer.status_code == 400
    assert "nobody may have more" in answer.text
