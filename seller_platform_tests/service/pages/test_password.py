"""Tests the pages on which users change their password, and when sessions end."""

from datetime import timedelta

import httpx
import pytest

from seller_platform.service.errors import InvalidValueError
from seller_platform.service.users.passwords import check_password
from seller_platform.service.users.reset_links import create_reset_link
from seller_platform_tests.support.served import ANN, PASSWORD, Served, submit

NEW = "violet tram nine hats"


def _log_in(browser: httpx.Client, password: str = PASSWORD) -> httpx.Response:
    return submit(browser, browser.get("/login"), email=ANN, password=password)


def _kinds(service: Served) -> list[str]:
    """Return the kinds of the events of requests, the oldest first."""
    statement = "SELECT kind FROM service.security_events WHERE address IS NOT NULL ORDER BY id"
    return [kind for (kind,) in service.stored(statement)]


def test_a_new_password_needs_the_present_one_and_ends_the_other_sessions(service: Served) -> None:
    with service.client() as browser, service.client() as other:
        _log_in(browser)
        _log_in(other)
        page = browser.get("/admin/account")
        different = submit(browser, page, present=PASSWORD, new=NEW, repeated="violet tram nine hat")
        common = submit(browser, page, present=PASSWORD, new="password1234", repeated="password1234")
        wrong = submit(browser, page, present="wrong", new=NEW, repeated=NEW)
        changed = submit(browser, page, present=PASSWORD, new=NEW, repeated=NEW)
        stays, ended = browser.get("/admin/account"), other.get("/admin/account")
        logins = [_log_in(other, password).status_code for password in (PASSWORD, NEW)]

    assert [answer.status_code for answer in (different, common, wrong, changed)] == [422, 422, 422, 303]
    assert "are not the same" in different.text
    assert "too easy to guess" in common.text
    assert "Your present password is wrong." in wrong.text
    assert (stays.status_code, ended.status_code, logins) == (200, 303, [401, 303])
    assert _kinds(service)[2:] == ["login_failed", "password_changed", "login_failed", "login_succeeded"]


def test_a_reset_link_sets_a_password_once_and_ends_the_lock_of_a_user(service: Served) -> None:
    token = create_reset_link(service.database, ANN, timedelta(hours=1))
    with service.client() as browser, service.client() as other:
        _log_in(other)
        _log_in(browser, "wrong")
        service.execute("UPDATE service.login_attempts SET failures = 20 WHERE subject LIKE 'account %%'")
        locked = _log_in(browser)
        page = browser.get("/reset-password", params={"token": token})
        short = submit(browser, page, new="short", repeated="short")
        done = submit(browser, page, new=NEW, repeated=NEW)
        again = submit(browser, page, new=NEW, repeated=NEW)
        notice = browser.get(done.headers["location"]).text
        ended, login = other.get("/admin/account"), _log_in(browser, NEW)

    assert "Ask the operator of this service for a link to set a new one." in locked.text
    assert (locked.status_code, ANN in page.text) == (429, True)
    assert (short.status_code, done.status_code, again.status_code) == (422, 303, 404)
    assert "12 to 1024 characters; it has 5" in short.text
    assert "This link no longer works" in again.text
    assert "Your new password is set." in notice
    assert (ended.status_code, login.status_code) == (303, 303)
    assert "password_changed" in _kinds(service)


def test_a_reset_link_that_is_old_or_forged_sets_nothing(service: Served) -> None:
    for change in ("expires_at = now()", "token_hash = ''"):
        token = create_reset_link(service.database, ANN, timedelta(hours=1))
        with service.client() as browser:
            page = browser.get("/reset-password", params={"token": token})
            service.execute(f"UPDATE service.reset_links SET {change} WHERE expires_at > now()")
            answers = [browser.get(str(page.url)), submit(browser, page, new=NEW, repeated=NEW)]

            assert [answer.status_code for answer in answers] == [404, 404]
            assert _log_in(browser, NEW).status_code == 401


def test_a_session_ends_when_it_is_idle_and_some_hours_after_its_login(service: Served) -> None:
    for ended_by in ("last_used_at = now() - interval '3 hours'", "expires_at = now()"):
        with service.client() as browser:
            _log_in(browser)
            service.execute("UPDATE service.sessions SET last_used_at = now() - interval '90 minutes'")
            used = browser.get("/admin/account").status_code
            noted = "SELECT bool_or(now() - last_used_at < interval '1 minute') FROM service.sessions"
            assert (used, service.stored(noted)) == (200, [(True,)])
            service.execute(f"UPDATE service.sessions SET {ended_by}")
            assert browser.get("/admin/account").status_code == 303


def test_a_password_that_can_be_guessed_is_refused_and_others_are_taken() -> None:
    for password in (
        *("short", "elevenchars", "x" * 1_025, "aaaaaaaaaaaa", "abcabcabcabc", "k7Qk7Qk7Qk7Q", "123456789012"),
        *("qwertyuiop12", "1qaz2wsx3edc", "password1234", "P@ssw0rd!2025", "P@ssw0rdP@ssw0rd", "Administrator1!"),
        *("unbelievable", "happybirthday", "christopher1", "iloveyouforever", "Summer2025!!!!", "ann.shop.example"),
        "AnnMeyer1987",
    ):
        with pytest.raises(InvalidValueError):
            check_password(password, ANN, "Ann Meyer")
    for password in (PASSWORD, NEW, "zebra-lamp-quorum", "tr0ub4dor&3xyz", "jR8_kp2Qw-x1"):
        check_password(password, ANN, "Ann Meyer")
