"""Tests the pages under Admin, Developers: a user's clients, protection, and new clients."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from seller_platform.service.oauth.developers_page import MOST_APPLICATIONS
from seller_platform_tests.support.served import ANN, CALLBACK, Served, execute, stored, submit

HOME, NEW = "/admin/developers", "/admin/developers/new"


def _create(browser: httpx.Client, name: str = "My app", redirect_uri: str = CALLBACK) -> tuple[str, str]:
    answer = submit(browser, browser.get(NEW), name=name, redirect_uri=redirect_uri)
    assert answer.status_code == 200, answer.text
    fields = [re.search(f'id="{field}">([^<]+)<', answer.text) for field in ("client_id", "client_secret")]
    assert fields[0]
    assert fields[1]
    return fields[0][1], fields[1][1]


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
        client_id, secret = _create(ann)
        own = replace(service, client_id=client_id, client_secret=secret)
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
    assert after.text == before.text


def test_markup_in_a_name_is_shown_as_text(service: Served) -> None:
    with service.logged_in() as browser:
        client_id, _ = _create(browser, '<img src=x onerror=alert(1)>"')
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
