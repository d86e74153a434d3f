"""Tests logins with passkeys: what is refused, and what the operator removes."""

import httpx
import pytest

from seller_platform.errors import RequestError
from seller_platform.service.users.passkeys import remove_passkeys
from seller_platform_tests.support.served import ANN, PASSWORD, Served, execute, submit


def _give_passkey(service: Served) -> None:
    execute(
        service.database,
        "INSERT INTO service.passkeys (user_id, name, credential_id, public_key, sign_count) "
        "SELECT id, 'Phone', 'id', 'key', 0 FROM service.users WHERE email = %s",
        ANN,
    )


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        '{"rawId": "aWQ", "response": {}}',
        '{"rawId": 7}',
        "[" * 20_000,
        '{"rawId": "\\ud800"}',
    ],
    ids=lambda credential: credential[:12],
)
def test_a_login_with_a_broken_signature_is_refused_and_opens_nothing(service: Served, credential: str) -> None:
    _give_passkey(service)
    with service.client() as browser:
        answer = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        page = browser.get(answer.headers["location"])
        refused = submit(browser, page, credential=credential)
        again = submit(browser, page, credential=credential)

        assert answer.headers["location"] == "/login/passkey"
        assert (refused.status_code, again.status_code) == (401, 401)
        assert browser.get("/admin/account").status_code == 303


def test_the_passkey_page_needs_the_right_password_in_the_same_browser(service: Served) -> None:
    _give_passkey(service)
    with service.client() as browser, service.client() as other:
        before = dict(browser.cookies)
        answer = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        assert dict(browser.cookies) != before  # a session that another person has set is of no use
        other.get("/login")
        late = other.get(answer.headers["location"])
        execute(service.database, "UPDATE service.passkey_challenges SET expires_at = now()")
        expired = browser.get(answer.headers["location"])
        notice = browser.get(expired.headers["location"]).text

    assert (late.status_code, expired.status_code) == (303, 303)
    assert "That took too long. Please log in again." in notice


def test_the_operator_removes_lost_passkeys(service: Served) -> None:
    _give_passkey(service)

    assert remove_passkeys(service.database, ANN.upper()) == 1
    with pytest.raises(RequestError):
        remove_passkeys(service.database, "nobody@shop.example")
    with httpx.Client(base_url=service.base_url) as browser:
        assert submit(browser, browser.get("/login"), email=ANN, password=PASSWORD).headers["location"] == "/login"
