"""Tests passkeys in Chromium, whose virtual authenticator stands for a user's device."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import CDPSession, Page, expect

from seller_platform_tests.support.served import (
    ANN,
    PASSWORD,
    Served,
    execute,
    stored,
)


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
    assert stored(service.database, "SELECT sign_count > 0, last_used_at IS NULL FROM service.passkeys") == [
        (True, False)
    ]
    logins = "SELECT details FROM service.security_events WHERE kind = 'login_succeeded' ORDER BY id"
    assert stored(service.database, logins) == [({"passkey": False},), ({"passkey": True},)]

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
