"""Tests the pages of login and consent, and how failed logins lock an address or a user."""

import asyncio
import statistics
import time
from urllib.parse import urlencode

import httpx
import pytest

from seller_platform.service.errors import TooManyAttemptsError
from seller_platform.service.http.addresses import network_of
from seller_platform.service.pages.login import MOST_OF_A_USER, MOST_OF_AN_ADDRESS, begin_attempt
from seller_platform.service.pool import Store
from seller_platform.service.users.store import add_user
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import ANN, CSRF_TOKEN, PASSWORD, Served, submit, value_in, with_store
from seller_platform_tests.support.stored_rows import stored


def test_a_wrong_login_shows_the_form_again_and_opens_nothing(service: Served, browser: httpx.Client) -> None:
    for fields in (
        {"email": ANN, "password": "wrong"},
        {"email": "nobody@shop.example", "password": PASSWORD},
        {"email": ANN},
        {"email": "", "password": ""},
        {"email": ANN, "password": "x" * 2000},
    ):
        answer = submit(browser, service.request_code(browser), **fields)

        assert (answer.status_code, "E-mail address or password is wrong." in answer.text) == (401, True)
        assert service.request_code(browser).url.path == "/login"


def test_a_login_form_of_another_session_is_refused(reading: Served) -> None:
    with reading.client() as browser, reading.client() as other:
        page = reading.request_code(browser)

        assert submit(other, page, email=ANN, password=PASSWORD).status_code == 403
        assert submit(browser, page, email=ANN, password=PASSWORD, csrf_token="é" * 64).status_code == 403


def test_login_changes_the_cookie_and_logout_ends_the_session(reading: Served) -> None:
    with reading.client() as browser, reading.client() as other:
        page = reading.request_code(browser)
        before = dict(browser.cookies)
        other.cookies.update(browser.cookies)  # as of a person who chose them for this browser
        login = submit(browser, page, email=ANN, password=PASSWORD)
        after = dict(browser.cookies)
        shown, unchanged = browser.get("/login"), other.get("/login")
        submit(browser, shown)

        assert ("You are logged in" in shown.text, "You are logged in" in unchanged.text) == (True, False)
        assert before != after
        assert reading.request_code(browser).url.path == "/login"
    for cookie in (page.headers["set-cookie"], login.headers["set-cookie"]):
        assert ("HttpOnly" in cookie, "SameSite=lax" in cookie, "Secure" in cookie) == (True, True, False)


def test_a_consent_page_says_what_is_granted_and_needs_its_token(reading: Served, user: httpx.Client) -> None:
    page = reading.request_code(user)
    forged = user.post(str(page.url), data={"decision": "approve"})
    foreign = user.post(str(page.url), data={"decision": "approve", "csrf_token": "0" * 64})
    undecided = submit(user, page)
    user.cookies.clear()
    logged_out = submit(user, page, decision="approve")

    assert ("Reader &lt;1&gt;" in page.text, "<1>" in page.text) == (True, False)
    assert ("Shop US" in page.text, "Bob" in page.text) == (True, False)
    assert "form-action 'self' http://127.0.0.1:9" in page.headers["content-security-policy"]
    assert (forged.status_code, foreign.status_code, undecided.status_code) == (403, 403, 400)
    assert logged_out.status_code == 303
    assert logged_out.headers["location"].startswith("/login?next=%2Foauth%2Fauthorize%3F")


def test_the_login_leads_to_our_own_pages_only(reading: Served) -> None:
    for destination in (
        *("https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"),
        *("/oauth/authorize?\r\nX: y", "/oauth/authorize?é", "/oauth/authorize@evil.example/", "/logout", "x" * 20_000),
        *("/admin/developers.evil.example", "/admin/developers/../..//evil.example", "/admin/developers/x/delete\n"),
    ):
        with reading.client() as browser:
            page = browser.get("/login", params={"next": destination})
            answer = submit(browser, page, email=ANN, password=PASSWORD, next=destination)

        assert answer.headers["location"] == "/login", destination[:40]


@pytest.mark.slow
def test_an_unknown_address_takes_as_long_as_a_wrong_password(service: Served, browser: httpx.Client) -> None:
    def seconds(email: str) -> float:
        began = time.process_time()  # of the server, too, which runs in this process
        submit(browser, page, email=email, password="wrong")
        return time.process_time() - began

    add_user(service.database, "real@shop.example", "Real", PASSWORD)  # ANN's hash is cheaper than the service's own
    page = browser.get("/login")
    seconds("first@shop.example")
    pairs = [(seconds(f"nobody{number}@shop.example"), seconds("real@shop.example")) for number in range(3)]
    unknown, existing = (statistics.median(times) for times in zip(*pairs, strict=True))

    assert 0.4 < unknown / existing < 2.5


def test_a_cookie_that_is_none_of_ours_is_replaced(reading: Served) -> None:
    long = "a" * 42
    for cookie in ("short", "a" * 5000, f'"{long}\\015\\012X: y"', f"{long};", f"{long}é", f"{long}<"):
        headers = [(b"Cookie", f"seller_platform_session={cookie}".encode())]

        answer = httpx.get(f"{reading.base_url}/login", headers=headers)

        assert (answer.status_code, "x" in answer.headers) == (200, False)
        assert "aaaaa" not in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "text", ["é" * 3_000, "\ufeff\u202e", "<script>alert(1)</script>", "' OR 1=1 --", "\0", "\ud800"]
)
def test_odd_texts_in_the_login_are_refused_and_harmless(reading: Served, text: str, browser: httpx.Client) -> None:
    reading.execute("DELETE FROM service.login_attempts")  # other tests fail at this address, too
    page = browser.get("/login")
    content = urlencode(
        {"csrf_token": value_in(page, CSRF_TOKEN), "email": text, "password": text}, errors="surrogatepass"
    )
    answer = browser.post("/login", content=content, headers={"Content-Type": "application/x-www-form-urlencoded"})

    assert answer.status_code in (400, 401)
    assert "<script" not in answer.text


def test_errors_are_pages_for_browsers_and_json_for_programs(reading: Served, browser: httpx.Client) -> None:
    html = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    page, json = browser.get("/nothing", headers=html), browser.get("/nothing")
    refused = browser.get("/logout", headers=html)
    of_the_api = browser.get("/sales/nothing", headers=html)
    token = browser.get("/oauth/token", headers=html)
    star = browser.request("OPTIONS", "*")

    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "To the start page" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (refused.status_code, refused.headers["allow"]) == (405, "OPTIONS, POST")
    assert refused.headers["content-type"].startswith("text/html")
    for answer in (json, of_the_api, token):
        assert answer.headers["content-type"] == "application/json"
    assert star.status_code == 404


def _lock(service: Served, email: str) -> None:
    """Store failed logins of a user, as many as are allowed."""
    service.execute(
        "INSERT INTO service.login_attempts SELECT 'account ' || id, %s, now() + interval '10 minutes' "
        "FROM service.users WHERE email = %s",
        MOST_OF_A_USER,
        email,
    )


def test_a_user_is_locked_until_the_window_is_over(service: Served) -> None:
    _lock(service, ANN)
    with service.client() as browser:
        answer = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        service.execute("UPDATE service.login_attempts SET expires_at = clock_timestamp()")
        after = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
    _lock(service, ANN)  # by a clock that was ahead
    service.execute("UPDATE service.login_attempts SET expires_at = expires_at + interval '2 days'")
    with service.client() as browser:
        later = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)

    assert answer.status_code == 429
    assert 540 < int(answer.headers["retry-after"]) <= 600
    assert "Try again in 10 minutes." in answer.text
    assert (after.status_code, later.status_code) == (303, 303)


def test_one_user_in_several_spellings_is_locked_as_one(service: Served, browser: httpx.Client) -> None:
    add_user(service.database, "ασ@shop.example", "Sigma", PASSWORD)
    _lock(service, "ασ@shop.example")
    spellings = ["ΑΣ@shop.example", "αΣ@shop.example", " ασ@shop.example ", "Ασ@SHOP.example"]
    page = browser.get("/login")
    statuses = [submit(browser, page, email=spelling, password=PASSWORD).status_code for spelling in spellings]

    assert statuses == [429] * 4


def test_an_unknown_address_is_throttled_like_a_known_one(service: Served, browser: httpx.Client) -> None:
    _lock(service, ANN)
    page = browser.get("/login")
    first = submit(browser, page, email="nobody@shop.example", password="wrong")
    service.execute(
        "UPDATE service.login_attempts SET failures = 20, expires_at = now() + interval '10 minutes' "
        "WHERE subject LIKE 'account %%'"
    )
    answers = [submit(browser, page, email=email, password="wrong") for email in (ANN, "nobody@shop.example")]

    assert first.status_code == 401
    assert [answer.status_code for answer in answers] == [429, 429]
    assert answers[0].text.replace(ANN, "") == answers[1].text.replace("nobody@shop.example", "")


def test_of_many_attempts_at_once_no_more_get_through_than_are_allowed(database: Database, database_url: str) -> None:
    async def attempt(store: Store, user: str, address: str) -> bool:
        async with store.connection() as connection:
            try:
                await begin_attempt(connection, user, address)
            except TooManyAttemptsError:
                return False
        return True

    async def attempt_together(store: Store) -> tuple[int, int]:
        of_user = await asyncio.gather(*(attempt(store, "17", f"192.0.2.{n}") for n in range(40)))
        of_address = await asyncio.gather(*(attempt(store, f"1{n}", "198.51.100.1") for n in range(40)))
        return sum(of_user), sum(of_address)

    assert with_store(database_url, attempt_together) == (MOST_OF_A_USER, MOST_OF_AN_ADDRESS)
    kept = stored(
        database,
        "SELECT subject, failures FROM service.login_attempts "
        "WHERE subject IN ('account 17', 'address 198.51.100.1') ORDER BY subject",
    )
    assert kept == [("account 17", MOST_OF_A_USER), ("address 198.51.100.1", MOST_OF_AN_ADDRESS)]


def test_a_login_gives_back_what_it_took_and_is_recorded(service: Served, browser: httpx.Client) -> None:
    page = browser.get("/login")
    submit(browser, page, email=ANN, password="wrong")
    submit(browser, page, email=ANN, password=PASSWORD)
    submit(browser, browser.get("/login"))
    kept = service.stored("SELECT subject, failures FROM service.login_attempts")
    events = service.stored(
        "SELECT event.kind, users.email, event.address FROM service.security_events AS event "
        "LEFT JOIN service.users AS users ON users.id = event.user_id "
        "WHERE event.address IS NOT NULL ORDER BY event.id"
    )

    assert kept == [("address 127.0.0.1", 1)]
    assert events == [(kind, ANN, "127.0.0.1") for kind in ("login_failed", "login_succeeded", "logged_out")]


def test_addresses_of_one_customer_are_counted_as_one() -> None:
    for first, second, are_one in (
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("unknown", "unknown", True),
    ):
        assert (network_of(first) == network_of(second)) is are_one
