"""Tests passkeys in Chromium, whose virtual authenticator stands for a user's device."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from seller_platform.errors import UnknownUserError
from seller_platform.service.users.passkeys import remove_passkeys
from seller_platform_tests.support.browsers import PATIENCE_MILLISECONDS, open_browser
from seller_platform_tests.support.served import ANN, PASSWORD, Served, execute, submit


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    complaints: list[str] = []
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    yield context.new_page()
    context.close()
    assert complaints == []


def _authenticator(page: Page) -> tuple[CDPSession, str]:
    """Add a virtual device with a user who confirms everything."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    added = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, added["authenticatorId"]


def _log_in(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_label("E-mail address").fill(ANN)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()


def _add(page: Page, name: str) -> None:
    form = page.locator("form[data-passkey]")
    form.get_by_label("Name").fill(name)
    form.get_by_label("Your password").fill(PASSWORD)
    form.get_by_role("button", name="Add a passkey").click()


@pytest.mark.browser
def test_a_passkey_is_added_asked_for_at_the_login_and_removed(page: Page, service: Served) -> None:
    # A passkey belongs to a host name; the number of an address is none.
    base_url = f"http://localhost:{urlsplit(service.base_url).port}"
    session, device = _authenticator(page)
    _log_in(page, f"{base_url}/login?next=/admin/account/passkeys")
    _add(page, "Phone")
    expect(page.get_by_role("status")).to_contain_text("The passkey is added.")

    _add(page, "Phone again")
    expect(page.get_by_role("alert")).to_have_text("This device has a passkey of yours already.")

    page.context.clear_cookies()
    _log_in(page, f"{base_url}/login?next=/admin/account/passkeys")
    expect(page.get_by_role("heading", level=1)).to_have_text("Use your passkey")
    # The password alone opens nothing.
    assert page.request.get(f"{base_url}/admin/account", max_redirects=0).status == 303
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", level=2, name="Phone")).to_be_visible()
    with service.database.begin() as connection:
        counted = connection.exec_driver_sql("SELECT sign_count, last_used_at IS NULL FROM service.passkeys").one()
        browser_passed = (
            connection.exec_driver_sql(
                "SELECT details FROM service.security_events WHERE kind = 'login_succeeded' ORDER BY id"
            )
            .scalars()
            .all()
        )
    assert counted[0] > 0
    assert not counted[1]
    assert browser_passed == [{"passkey": False}, {"passkey": True}]

    # A copy of the device has an older counter: its signature is refused.
    execute(service.database, "UPDATE service.passkeys SET sign_count = 1000")
    page.context.clear_cookies()
    _log_in(page, f"{base_url}/login?next=/admin/account/passkeys")
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("alert").first).to_contain_text("is not one of this user's, or did not sign the request")
    execute(service.database, "UPDATE service.passkeys SET sign_count = 0")
    page.get_by_role("button", name="Use a passkey").click()

    row = page.locator("section", has=page.get_by_role("heading", level=2, name="Phone"))
    row.get_by_label("Your password, to remove it").fill("wrong")
    row.get_by_role("button").click()
    expect(page.get_by_role("alert").first).to_have_text("Your present password is wrong.")
    row.get_by_label("Your password, to remove it").fill(PASSWORD)
    row.get_by_role("button").click()
    expect(page.get_by_role("status")).to_have_text("The passkey is removed.")

    page.context.clear_cookies()
    _log_in(page, f"{base_url}/login?next=/admin/account/activity")
    expect(page.get_by_role("cell", name="A passkey was added: Phone")).to_be_visible()
    expect(page.get_by_role("cell", name="A passkey was removed: Phone")).to_be_visible()
    expect(page.get_by_role("cell", name="A passkey was refused")).to_be_visible()
    session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": device})


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
    with pytest.raises(UnknownUserError):
        remove_passkeys(service.database, "nobody@shop.example")
    with httpx.Client(base_url=service.base_url) as browser:
        assert submit(browser, browser.get("/login"), email=ANN, password=PASSWORD).headers["location"] == "/login"
