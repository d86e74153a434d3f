"""Tests the pages by which users manage their own login."""

import re
from datetime import timedelta

import httpx
import pytest

from seller_platform.errors import InvalidPasswordError
from seller_platform.service.own_account.activity import WORDS
from seller_platform.service.own_account.sessions import browser_name
from seller_platform.service.security_events import EventKind
from seller_platform.service.users.reset_links import create_reset_link
from seller_platform.service.users.weak_passwords import check_password
from seller_platform_tests.support.served import ANN, BOB, PASSWORD, Served, execute, stored, submit

NEW = "violet tram nine hats"


def _log_in(browser: httpx.Client, password: str = PASSWORD, email: str = ANN) -> httpx.Response:
    return submit(browser, browser.get("/login"), email=email, password=password)


def _kinds(service: Served) -> list[str]:
    """Return the kinds of the events of requests, the oldest first."""
    statement = "SELECT kind FROM service.security_events WHERE address IS NOT NULL ORDER BY id"
    return [kind for (kind,) in stored(service.database, statement)]


def test_a_new_password_needs_the_present_one_and_ends_the_other_sessions(service: Served) -> None:
    with service.client() as browser, service.client() as other:
        _log_in(browser)
        _log_in(other)
        page = browser.get("/admin/account/password")
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


def test_a_reset_link_sets_a_password_once(service: Served) -> None:
    token = create_reset_link(service.database, ANN, timedelta(hours=1))
    with service.client() as browser, service.client() as other:
        _log_in(other)
        page = browser.get("/reset-password", params={"token": token})
        short = submit(browser, page, new="short", repeated="short")
        done = submit(browser, page, new=NEW, repeated=NEW)
        again = submit(browser, page, new=NEW, repeated=NEW)
        notice = browser.get(done.headers["location"]).text
        ended, login = other.get("/admin/account"), _log_in(browser, NEW)

    assert ANN in page.text
    assert (short.status_code, done.status_code, again.status_code) == (422, 303, 404)
    assert "12 characters at least; it has 5" in short.text
    assert "This link no longer works" in again.text
    assert "Your new password is set." in notice
    assert (ended.status_code, login.status_code) == (303, 303)
    assert "password_changed" in _kinds(service)


def test_a_reset_link_ends_the_waits_after_failures(service: Served) -> None:
    token = create_reset_link(service.database, ANN, timedelta(hours=1))
    with service.client() as browser:
        failures = [_log_in(browser, "wrong").status_code for _ in range(6)]
        submit(browser, browser.get("/reset-password", params={"token": token}), new=NEW, repeated=NEW)
        login = _log_in(browser, NEW)

    assert failures[-1] == 429
    assert login.status_code == 303


@pytest.mark.parametrize("change", ["expires_at = now()", "token_hash = ''"])
def test_a_reset_link_that_is_old_or_forged_sets_nothing(service: Served, change: str) -> None:
    token = create_reset_link(service.database, ANN, timedelta(hours=1))
    with service.client() as browser:
        page = browser.get("/reset-password", params={"token": token})
        execute(service.database, f"UPDATE service.reset_links SET {change}")
        answers = [browser.get(str(page.url)), submit(browser, page, new=NEW, repeated=NEW)]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert _log_in(browser, NEW).status_code == 401


def test_sessions_are_listed_and_ended_and_those_of_others_are_not(service: Served) -> None:
    firefox = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
    with service.client() as browser, service.client() as second, service.client() as third, service.client() as bob:
        for client, email in ((browser, ANN), (second, ANN), (third, ANN), (bob, BOB)):
            client.headers.update(firefox)
            _log_in(client, email=email)
        page = browser.get("/admin/account/sessions")
        numbers = re.findall(r'name="session" value="(\d+)"', page.text)
        one = submit(browser, page, session=numbers[1])
        left = [client.get("/admin/account").status_code for client in (browser, second, third)]
        of_bob = int(max(numbers, key=int)) + 1
        submit(browser, page, session=str(of_bob))
        submit(browser, page, session="others")
        after = [client.get("/admin/account").status_code for client in (browser, second, third, bob)]
        refused = submit(browser, page, session="x").status_code

    assert page.text.count("Firefox on Linux") == 2 * len(numbers) == 6
    assert "127.0.0.1" in page.text
    assert one.headers["location"].endswith("?notice=ended")
    assert sorted(left) == [200, 200, 303]
    assert (after, refused) == ([200, 303, 303, 200], 400)
    assert _kinds(service)[4:] == ["session_ended", "session_ended"]


@pytest.mark.parametrize(
    "ended_by", ["last_used_at = now() - interval '3 hours'", "expires_at = now()"], ids=["idle", "absolute"]
)
def test_a_session_ends_when_it_is_idle_and_some_hours_after_its_login(service: Served, ended_by: str) -> None:
    with service.client() as browser:
        _log_in(browser)
        execute(service.database, "UPDATE service.sessions SET last_used_at = now() - interval '90 minutes'")
        used = browser.get("/admin/account").status_code
        noted = stored(service.database, "SELECT now() - last_used_at < interval '1 minute' FROM service.sessions")
        execute(service.database, f"UPDATE service.sessions SET {ended_by}")

        assert (used, noted) == (200, [(True,)])
        assert browser.get("/admin/account").status_code == 303


def test_recent_activity_lists_the_users_own_events_in_words(service: Served) -> None:
    with service.client() as browser, service.client() as bob:
        _log_in(browser, "wrong")
        _log_in(browser)
        _log_in(bob, "wrong", BOB)
        page = browser.get("/admin/account/activity").text

    assert page.index("Logged in") < page.index("A login with your e-mail address failed")
    assert page.count("A login with your e-mail address failed") == 1
    assert "Accounts were added to your login: S1.US, S1.DE, S4.FR, S4.IT" in page
    assert re.search(r'<time datetime="[0-9T:Z-]+">[^<]+ UTC</time>', page)
    assert "127.0.0.1" in page
    assert "the operator" in page


def test_every_kind_of_event_has_words() -> None:
    assert set(WORDS) == set(EventKind)


def test_the_login_page_says_whom_to_ask_for_a_forgotten_password(reading: Served) -> None:
    with reading.client() as browser:
        assert "Ask the operator of this service for a link to set a new one." in browser.get("/login").text


def test_a_password_that_can_be_guessed_is_refused_and_others_are_taken() -> None:
    for password in (
        *("short", "elevenchars", "x" * 1_025, "aaaaaaaaaaaa", "abcabcabcabc", "k7Qk7Qk7Qk7Q", "123456789012"),
        *("qwertyuiop12", "1qaz2wsx3edc", "password1234", "P@ssw0rd!2025", "P@ssw0rdP@ssw0rd", "Administrator1!"),
        *("unbelievable", "happybirthday", "christopher1", "iloveyouforever", "Summer2025!!!!", "ann.shop.example"),
        "AnnMeyer1987",
    ):
        with pytest.raises(InvalidPasswordError):
            check_password(password, ANN, "Ann Meyer")
    for password in (PASSWORD, NEW, "zebra-lamp-quorum", "tr0ub4dor&3xyz", "jR8_kp2Qw-x1"):
        check_password(password, ANN, "Ann Meyer")


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Linux; Android 15) Chrome/140.0 Mobile Safari/537.36", "Chrome on Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("curl/8.5", "curl/8.5"),
        (None, "Unknown browser"),
    ],
)
def test_a_session_is_named_by_its_browser(user_agent: str | None, name: str) -> None:
    assert browser_name(user_agent) == name
