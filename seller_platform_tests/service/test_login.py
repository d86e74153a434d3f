"""Login and consent pages: who gets in, what a page is protected by, and what it says."""

import httpx
import pytest

from seller_platform_tests.service.conftest import ANN, CALLBACK, PASSWORD, Served, execute, submit


def _consent_page(service: Served, browser: httpx.Client) -> httpx.Response:
    page = submit(browser, service.request_code(browser), email=ANN, password=PASSWORD)
    return browser.get(page.headers["location"])


@pytest.mark.parametrize(
    "fields",
    [
        {"email": ANN, "password": "wrong"},
        {"email": "nobody@shop.example", "password": PASSWORD},
        {"email": ANN},
        {"email": "", "password": ""},
        {"email": ANN, "password": "x" * 2000},
    ],
    ids=["wrong", "unknown", "missing", "empty", "long"],
)
def test_a_wrong_login_shows_the_form_again_and_opens_nothing(service: Served, fields: dict[str, str]) -> None:
    with service.client() as browser:
        answer = submit(browser, service.request_code(browser), **fields)

        assert answer.status_code == 401
        assert "E-mail address or password is wrong." in answer.text
        assert service.request_code(browser).url.path == "/login"


def test_after_a_wrong_password_the_right_one_still_works(reading: Served) -> None:
    with reading.client() as browser:
        page = submit(browser, reading.request_code(browser), email=ANN, password="wrong")

        assert submit(browser, page, email=ANN, password=PASSWORD).status_code == 303


def test_many_wrong_passwords_make_an_account_wait(service: Served) -> None:
    with service.client() as browser:
        page = service.request_code(browser)
        statuses = [submit(browser, page, email=ANN, password="wrong").status_code for _ in range(10)]
        answer = submit(browser, page, email=ANN, password=PASSWORD)

    assert statuses == [401] * 10
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 900
    assert "Try again in 15 minutes." in answer.text


def test_a_closed_user_cannot_log_in(service: Served) -> None:
    execute(service.database, "UPDATE service.users SET status = 'closed' WHERE email = %s", ANN)
    with service.client() as browser:
        assert submit(browser, service.request_code(browser), email=ANN, password=PASSWORD).status_code == 401


def test_a_login_form_of_another_visit_is_refused(reading: Served) -> None:
    with reading.client() as browser, reading.client() as other:
        page = reading.request_code(browser)

        assert submit(other, page, email=ANN, password=PASSWORD).status_code == 403
        assert submit(browser, page, email=ANN, password=PASSWORD, csrf_token="é" * 64).status_code == 403


def test_login_changes_the_cookie_and_logout_ends_the_session(reading: Served) -> None:
    with reading.client() as browser:
        page = reading.request_code(browser)
        before = dict(browser.cookies)
        submit(browser, page, email=ANN, password=PASSWORD)
        after = dict(browser.cookies)
        page = browser.get("/login")
        assert "You are logged in" in page.text
        submit(browser, page)

        assert before != after
        assert reading.request_code(browser).url.path == "/login"


def test_cookies_are_closed_to_scripts_and_other_sites(reading: Served) -> None:
    with reading.client() as browser:
        page = browser.get("/login")
        login = submit(browser, page, email=ANN, password=PASSWORD)
    behind_tls = httpx.get(f"{reading.base_url}/login", headers={"X-Forwarded-Proto": "https"})

    for answer in (page, login):
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Secure" not in cookie
    assert "Secure" in behind_tls.headers["set-cookie"]
    assert behind_tls.headers["set-cookie"].startswith("__Host-")


def test_a_consent_needs_the_token_of_its_page(reading: Served) -> None:
    with reading.client() as browser:
        page = _consent_page(reading, browser)
        forged = browser.post(str(page.url), data={"decision": "approve"})
        foreign = browser.post(str(page.url), data={"decision": "approve", "csrf_token": "0" * 64})
        undecided = submit(browser, page)

    assert (forged.status_code, foreign.status_code, undecided.status_code) == (403, 403, 400)


def test_a_consent_without_a_login_leads_to_the_login(reading: Served) -> None:
    with reading.client() as browser:
        page = _consent_page(reading, browser)
        browser.cookies.clear()
        answer = submit(browser, page, decision="approve")

    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/login?next=%2Foauth%2Fauthorize%3F")


def test_pages_run_no_scripts_stand_in_no_frame_and_are_not_kept(reading: Served) -> None:
    with reading.client() as browser:
        for page in (reading.request_code(browser), _consent_page(reading, browser), browser.get("/oauth/authorize")):
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"
            assert "<script" not in page.text
            assert "style=" not in page.text


def test_the_consent_page_says_what_is_granted_and_to_whom(reading: Served) -> None:
    with reading.client() as browser:
        page = _consent_page(reading, browser)

    assert "Reader &lt;1&gt;" in page.text
    assert "<1>" not in page.text
    assert "Shop US" in page.text
    assert "Bob" not in page.text
    assert "form-action 'self' http://127.0.0.1:9" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    "destination",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/oauth/authorize?\r\nX: y"],
)
def test_the_login_leads_to_our_own_pages_only(reading: Served, destination: str) -> None:
    with reading.client() as browser:
        page = browser.get("/login", params={"next": destination})
        answer = submit(browser, page, email=ANN, password=PASSWORD, next=destination)

    assert answer.headers["location"] == "/login"


def test_the_style_sheet_is_served(reading: Served) -> None:
    answer = httpx.get(f"{reading.base_url}/static/style.css")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")


def test_a_page_with_a_body_that_is_no_form_is_refused(reading: Served) -> None:
    for path in ("/login", "/logout", f"/oauth/authorize?redirect_uri={CALLBACK}"):
        answer = httpx.post(f"{reading.base_url}{path}", json={"email": ANN})
        assert answer.status_code == 415
        assert answer.headers["content-type"].startswith("text/html")
