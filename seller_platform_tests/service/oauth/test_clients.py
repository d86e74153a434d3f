"""Tests the pages under Admin, Developers: new clients, their changes and secrets, and what operators verify."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from seller_platform.contract.tokens import code_challenge
from seller_platform.service.oauth.applications import add_application, add_public_application, verify_application
from seller_platform.service.oauth.developers_page import MOST_APPLICATIONS
from seller_platform.service.oauth.registration_rules import is_registered, looks_like
from seller_platform_tests.support.served import ANN, BOB, CALLBACK, Served, execute, stored, submit

HOME, NEW = "/admin/developers", "/admin/developers/new"
OTHER = "https://app.example/callback"


def _create(service: Served, browser: httpx.Client, name: str = "My app", redirect_uri: str = CALLBACK) -> Served:
    """Return the service with a new client of the user."""
    answer = submit(browser, browser.get(NEW), name=name, redirect_uri=redirect_uri)
    return _with_client(service, answer)


def _with_client(service: Served, page: httpx.Response) -> Served:
    assert page.status_code == 200, page.text
    fields = [re.search(f'id="{field}">([^<]+)<', page.text) for field in ("client_id", "client_secret")]
    assert fields[0]
    assert fields[1]
    return replace(service, client_id=fields[0][1], client_secret=fields[1][1])


def _status(own: Served) -> int:
    """Return the status with which the token endpoint answers the client's secret: 400, or 401 if it is refused."""
    with own.client() as browser:
        return own.refresh(browser, "unknown").status_code


def _consent(service: Served, browser: httpx.Client, **parameters: str) -> str:
    return service.request_code(browser, **parameters).text


def test_a_request_names_one_of_several_redirect_uris(service: Served) -> None:
    with service.logged_in() as browser:
        own = _create(service, browser, redirect_uri=f"  {CALLBACK}\r\n\r\n{OTHER}\r\n{CALLBACK}")
        listed = browser.get(HOME)
        pages = [own.request_code(browser, redirect_uri=uri) for uri in (CALLBACK, OTHER, f"{OTHER}/more", "")]
        answer = submit(browser, pages[1], decision="approve")
        code = httpx.URL(answer.headers["location"]).params["code"]
        other_uri = own.exchange(browser, code)
        same_uri = own.exchange(browser, code, redirect_uri=OTHER)

    assert [page.status_code for page in pages] == [200, 200, 400, 400]
    assert answer.headers["location"].startswith(f"{OTHER}?")
    assert (other_uri.status_code, same_uri.status_code) == (400, 200)
    assert listed.text.count(f'<dd class="mono">{CALLBACK}</dd>') == 1
    assert f'<dd class="mono">{OTHER}</dd>' in listed.text


def test_a_change_of_a_client_holds_at_once_and_ends_its_verification(service: Served) -> None:
    with service.logged_in() as browser:
        own = _create(service, browser)
        verify_application(service.database, own.client_id)
        verified = _consent(own, browser)
        edit = browser.get(f"{HOME}/{own.client_id}/edit")
        same = submit(browser, edit, name="My app", redirect_uri=CALLBACK)
        still = _consent(own, browser)
        changed = submit(browser, edit, name="Your app", redirect_uri=OTHER)
        after = _consent(own, browser, redirect_uri=OTHER)
        former = own.request_code(browser)
        refused = submit(browser, edit, name="Your app", redirect_uri="http://app.example/")
    statement = "SELECT kind, details FROM service.security_events WHERE client_id = %s ORDER BY id"
    events = stored(service.database, statement, own.client_id)

    assert CALLBACK in edit.text
    assert "This client is verified." in edit.text
    assert "Not verified." not in verified
    assert "Not verified." not in still
    assert (same.headers["location"], changed.status_code) == (f"{HOME}?notice=changed", 303)
    assert "Not verified." in after
    assert "Your app" in after
    assert former.status_code == 400
    assert (refused.status_code, "must be https" in refused.text) == (422, True)
    assert [kind for kind, _ in events] == ["application_registered", "application_verified", "application_changed"]
    assert (events[2][1]["former_name"], events[2][1]["was_verified"]) == ("My app", True)


def test_two_secrets_work_until_the_old_one_ends(service: Served) -> None:
    with service.logged_in() as browser:
        old = _create(service, browser)
        page = browser.get(f"{HOME}/{old.client_id}/secret")
        new = _with_client(service, submit(browser, page, hours="24"))
        both = [_status(old), _status(new)]
        sent_again = submit(browser, page, hours="0")
        after_reload = [_status(old), _status(new)]
        ended = submit(browser, browser.get(f"{HOME}/{old.client_id}/secret"))
        after = [_status(old), _status(new)]
        newest = _with_client(service, submit(browser, browser.get(f"{HOME}/{old.client_id}/secret"), hours="168"))
        execute(service.database, "UPDATE service.applications SET old_secret_ends_at = now()")
        last = [_status(new), _status(newest)]
        at_once = _with_client(service, submit(browser, browser.get(f"{HOME}/{old.client_id}/secret"), hours="0"))
        none_left = [_status(newest), _status(at_once)]
        wrong = submit(browser, browser.get(f"{HOME}/{old.client_id}/secret"), hours="1")
    statement = "SELECT kind FROM service.security_events WHERE client_id = %s AND kind LIKE 'secret%%' ORDER BY id"
    kinds = ("secret_created", "secret_ended", "secret_refused", "secret_created", "secret_created")

    assert stored(service.database, statement, old.client_id) == [(kind,) for kind in kinds]
    assert re.search(r'<option value="168" selected>in 7 days</option>', page.text)
    assert new.client_id == old.client_id
    assert (both, after_reload, after) == ([400, 400], [400, 400], [401, 400])
    assert (sent_again.status_code, "End the old" in sent_again.text) == (400, True)
    assert ended.headers["location"] == f"{HOME}?notice=ended"
    assert (last, none_left, wrong.status_code) == ([401, 400], [401, 400], 400)


def test_a_native_client_may_use_any_port_of_its_loopback_address(service: Served) -> None:
    registered = "http://127.0.0.1/callback"
    public = replace(
        service, client_id=add_public_application(service.database, "Native", registered), client_secret=""
    )
    pkce = {"code_challenge": code_challenge("v" * 43), "code_challenge_method": "S256"}
    here = "http://127.0.0.1:51004/callback"
    with service.logged_in() as browser:
        page = public.request_code(browser, redirect_uri=here, **pkce)
        answer = submit(browser, page, decision="approve")
        form = {
            "grant_type": "authorization_code",
            "code": httpx.URL(answer.headers["location"]).params["code"],
            "client_id": public.client_id,
            "code_verifier": "v" * 43,
        }
        other_port = browser.post("/oauth/token", data={**form, "redirect_uri": registered})
        same_port = browser.post("/oauth/token", data={**form, "redirect_uri": here})

    assert answer.headers["location"].startswith(f"{here}?code=")
    assert "http://127.0.0.1:51004" in page.headers["content-security-policy"]
    assert (other_port.status_code, same_port.status_code) == (400, 200)


@pytest.mark.parametrize(
    ("registered", "sent", "is_public", "expected"),
    [
        ("http://127.0.0.1/cb", "http://127.0.0.1:5/cb", True, True),
        ("http://127.0.0.1:9/cb?a=1", "http://127.0.0.1:5/cb?a=1", True, True),
        ("http://[::1]:1/cb", "http://[::1]:65535/cb", True, True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5/cb", False, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5/cb/", True, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5/cb?a=1", True, False),
        ("http://127.0.0.1/cb", "https://127.0.0.1:5/cb", True, False),
        ("http://127.0.0.1/cb", "http://[::1]:5/cb", True, False),
        ("http://127.0.0.1/cb", "http://u@127.0.0.1:5/cb", True, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb", True, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5@evil.example/cb", True, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1.evil.example:5/cb", True, False),
        ("http://localhost/cb", "http://localhost:5/cb", True, False),
        ("https://app.example/cb", "https://app.example:5/cb", True, False),
        ("http://127.0.0.1/cb", "http://[::1", True, False),
        ("http://127.0.0.1/cb", " http://127.0.0.1:5/cb", True, False),
        ("http://127.0.0.1/cb", "HTTP://127.0.0.1:5/cb", True, False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5/CB", True, False),
    ],
)
def test_only_the_port_of_a_loopback_address_may_vary(
    registered: str, sent: str, is_public: bool, expected: bool
) -> None:
    assert is_registered(sent, ["https://app.example/", registered], is_public=is_public) is expected


@pytest.mark.parametrize("parameter", ["code", "state", "error", "iss", "STATE", "error_description"])
def test_a_redirect_uri_with_a_parameter_of_the_answer_is_refused(reading: Served, parameter: str) -> None:
    with reading.logged_in() as browser:
        for query in (f"{parameter}=1", f"tenant=1&{parameter}", f"a=1;{parameter}=2"):
            answer = submit(browser, browser.get(NEW), name="App", redirect_uri=f"https://app.example/?{query}")

            assert answer.status_code == 422
            assert f"must have no parameter {parameter}" in answer.text


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        ("Acme Analytics", "ACME analytics", True),
        ("Acme Analytics", "Аcme Anаlytics", True),  # Cyrillic letters
        ("Bill Pro", "BiII Pr0", True),
        ("Bill Pro", "BⅠll Рго", False),
        ("modern", "modem", True),
        ("Café", "Cafe", True),
        ("Acme", "A c m e", True),
        ("Acme", "Acne", False),
        ("Ⓐcme", "Acme", True),
        ("Ακμε", "Akue", False),
    ],
)
def test_names_that_people_may_take_for_each_other_look_alike(name: str, other: str, expected: bool) -> None:
    assert looks_like(name, other) is expected
    assert looks_like(other, name) is expected


def test_the_consent_page_warns_of_an_imitation_until_it_is_verified(service: Served) -> None:
    ids: dict[str, str] = {}
    owners = dict(stored(service.database, "SELECT email, id FROM service.users"))
    for number, (name, owner) in enumerate((("Acme", ANN), ("Асме", BOB), ("ACME", ANN))):  # Cyrillic
        ids[name], _ = add_application(service.database, name, CALLBACK, owner_id=owners[owner])
        execute(
            service.database,
            "UPDATE service.applications SET created_at = now() + %s * interval '1 second' WHERE client_id = %s",
            number,
            ids[name],
        )

    def warned(browser: httpx.Client) -> dict[str, bool]:
        pages = {name: _consent(replace(service, client_id=client_id), browser) for name, client_id in ids.items()}
        return {name: "looks like that of another application" in page for name, page in pages.items()}

    with service.logged_in() as browser:
        first = warned(browser)
        verify_application(service.database, ids["Асме"])  # Cyrillic
        second = warned(browser)

    assert first == {"Acme": False, "Асме": True, "ACME": True}  # Cyrillic
    assert second == {"Acme": True, "Асме": False, "ACME": True}  # Cyrillic


def test_a_client_that_can_keep_no_secret_gets_none(service: Served) -> None:
    with service.logged_in() as browser:
        answer = submit(browser, browser.get(NEW), name="Native", redirect_uri=CALLBACK, public="yes")
        wrong = submit(browser, browser.get(NEW), name="", redirect_uri=CALLBACK, public="yes")
        listed = browser.get(HOME)
        client_id = re.search('id="client_id">([^<]+)<', answer.text)
        assert client_id
        assert "has no secret" in browser.get(f"{HOME}/{client_id[1]}/secret").text

    assert stored(service.database, "SELECT secret_hash FROM service.applications WHERE name = 'Native'") == [(None,)]
    assert answer.status_code == 200
    assert 'id="client_secret"' not in answer.text
    assert "PKCE" in answer.text
    assert "must use PKCE" in listed.text
    assert re.search(r'<input id="public"[^>]* checked>', wrong.text)


def test_the_secret_is_only_in_the_first_answer(service: Served) -> None:
    with service.logged_in() as browser:
        page = browser.get(NEW)
        first = submit(browser, page, name="My app", redirect_uri=CALLBACK)
        again = submit(browser, page, name="My app", redirect_uri=CALLBACK)
        listed = browser.get(HOME)
    secret = re.search('id="client_secret">([^<]+)<', first.text)
    assert secret

    assert first.headers["cache-control"] == "no-store"
    assert again.headers["location"] == f"{HOME}?notice=repeated"
    assert secret[1] not in listed.text
    assert listed.text.count("<section") == 1
    rows = stored(service.database, "SELECT t::text FROM service.applications AS t")
    assert not any(secret[1] in row or secret[1].encode().hex() in row for (row,) in rows)


def test_a_form_sent_many_times_at_once_makes_one_client(service: Served) -> None:
    with service.logged_in() as browser, ThreadPoolExecutor(6) as pool:
        page = browser.get(NEW)
        answers = list(pool.map(lambda _: submit(browser, page, name="A", redirect_uri=CALLBACK), range(6)))

    assert sorted(answer.status_code for answer in answers) == [200, 303, 303, 303, 303, 303]


def test_deleting_a_client_ends_its_tokens(service: Served) -> None:
    with service.logged_in() as ann:
        own = _create(service, ann)
        client_id = own.client_id
        with own.client() as browser:
            pair = own.exchange(browser, own.code(browser)).json()
        assert "1 user has" in ann.get(f"{HOME}/{client_id}/delete").text
        answer = submit(ann, ann.get(f"{HOME}/{client_id}/delete"))
        with own.client() as browser:
            refreshed = own.refresh(browser, pair["refresh_token"])
            read = browser.get("/user/me", headers={"Authorization": f"Bearer {pair['access_token']}"})
    events = "SELECT kind FROM service.security_events WHERE client_id = %s AND kind LIKE 'application%%' ORDER BY id"

    assert stored(service.database, events, client_id) == [("application_registered",), ("application_deleted",)]
    assert answer.headers["location"] == f"{HOME}?notice=deleted"
    assert (refreshed.status_code, refreshed.json()["error"], read.status_code) == (401, "invalid_client", 401)


@pytest.mark.parametrize(
    ("name", "redirect_uri", "problem"),
    [
        ("", CALLBACK, "The name must have 1 to 100 printable characters."),
        ("x" * 101, CALLBACK, "The name must have"),
        ("Good\u202eapp", CALLBACK, "The name must have"),
        ("App", "", "The redirect URL must be an absolute"),
        ("App", "http://app.example/", "The redirect URL must be https"),
        ("App", "https://app.example/#x", "The redirect URL must have no fragment"),
        ("App", "https://a;script-src/", "The redirect URL must name a host"),
        ("App", "https://app.example/" + "x" * 2000, "The redirect URL must be a URI of at most 2000"),
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_an_invalid_client_is_refused_with_its_problem(
    reading: Served, name: str, redirect_uri: str, problem: str
) -> None:
    with reading.logged_in() as browser:
        before = browser.get(HOME)
        answer = submit(browser, browser.get(NEW), name=name, redirect_uri=redirect_uri)
        after = browser.get(HOME)

    assert answer.status_code == 422
    assert problem in answer.text
    assert f'value="{name}"' in answer.text
    assert after.text == before.text


def test_markup_in_a_name_is_shown_as_text(service: Served) -> None:
    with service.logged_in() as browser:
        client_id = _create(service, browser, '<img src=x onerror=alert(1)>"').client_id
        pages = [browser.get(path) for path in (HOME, f"{HOME}/{client_id}/delete")]

    for page in pages:
        assert "<img" not in page.text
        assert "&lt;img" in page.text


def test_a_user_has_a_bounded_number_of_clients(service: Served) -> None:
    execute(
        service.database,
        "INSERT INTO service.applications (client_id, name, redirect_uri, owner_id) "
        "SELECT 'client ' || n, 'App', 'https://app.example/', users.id "
        "FROM service.users, generate_series(1, %s) AS n WHERE users.email = %s",
        MOST_APPLICATIONS,
        ANN,
    )
    with service.logged_in() as browser:
        answer = submit(browser, browser.get(NEW), name="One more", redirect_uri=CALLBACK)

    assert answer.status_code == 400
    assert "nobody may have more" in answer.text
