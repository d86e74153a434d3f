"""Tests the pages in Chromium: login, consent, developers' clients, and documentation with its search and menu."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from seller_platform_tests.support.served import ANN, CALLBACK, PASSWORD, Served, issue_token

pytestmark = pytest.mark.browser

PHONE = {"width": 375, "height": 812}


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("E-mail address").fill(ANN)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in", exact=True).click()


def ask_for_consent(page: Page, service: Served, redirect_uri: str = CALLBACK) -> None:
    query = {"response_type": "code", "client_id": service.client_id, "redirect_uri": redirect_uri, "state": "a state"}
    page.goto(f"{service.base_url}/oauth/authorize?{urlencode(query)}")


def _decide(page: Page, name: str) -> str:
    """Press a button of the consent page and return the address of the failed redirect."""
    with page.expect_event("requestfailed") as failed:
        page.get_by_role("button", name=name, exact=True).click()
    return str(failed.value.url)


@pytest.mark.parametrize("context", [{}, {"java_script_enabled": False}], indirect=True, ids=["scripts", "no scripts"])
def test_a_person_logs_in_after_a_wrong_password_and_approves(page: Page, reading: Served) -> None:
    ask_for_consent(page, reading)
    log_in(page, "wrong")
    expect(page.get_by_role("alert")).to_have_text("E-mail address or password is wrong.")
    expect(page.get_by_label("E-mail address")).to_have_value(ANN)
    expect(page.get_by_label("Password")).to_be_focused()
    log_in(page)

    expect(page.get_by_role("heading", level=1)).to_have_text("Allow Reader <1> to use your seller data?")
    expect(page.locator(".accounts")).to_contain_text("Shop US")
    left_for = _decide(page, "Approve")

    assert re.fullmatch(re.escape(CALLBACK) + r"&code=[\w-]{43}&state=a%20state&iss=http%3A%2F%2F[\w.%]+", left_for)


def test_a_redirect_to_an_ipv6_address_is_not_stopped_by_our_policy(page: Page, service: Served) -> None:
    service.execute("UPDATE service.applications SET redirect_uris = '{http://[::1]:9/cb}'")
    ask_for_consent(page, service, "http://[::1]:9/cb")
    log_in(page)

    assert _decide(page, "Approve").startswith("http://[::1]:9/cb?code=")


def test_a_secret_is_copied_by_a_button_that_says_so(page: Page, service: Served) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{service.base_url}/admin/developers/new")
    log_in(page)
    page.get_by_label("Name", exact=True).fill("My dashboard")
    page.get_by_label("Redirect URL", exact=True).fill("https://app.example/callback")
    page.get_by_role("button", name="Create client").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("My dashboard is registered")
    secret = page.locator("#client_secret").inner_text()

    page.get_by_role("button", name="Copy client secret").press("Enter")

    expect(page.locator("[aria-live]")).to_have_text("Copied client secret")
    assert page.evaluate("navigator.clipboard.readText()") == secret


def test_an_endpoint_is_tried_on_the_documentation_page(page: Page, reading: Served) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    token = issue_token(reading.database, ANN)
    page.goto(f"{reading.base_url}/docs#list_accounts")
    endpoint = page.locator("#list_accounts")

    endpoint.get_by_role("button", name="Send request").click()
    expect(endpoint.locator("output")).to_contain_text("401 Unauthorized")
    page.get_by_label("Access token").fill(token)
    endpoint.get_by_role("button", name="Send request").click()

    expect(endpoint.locator("output")).to_contain_text("200 OK")
    expect(endpoint.locator("output")).to_contain_text('"account_title": "Shop US"')
    assert not any(token in url for url in asked)
    assert all(url.startswith(reading.base_url) for url in asked if not url.startswith("data:"))


@pytest.mark.parametrize("context", [{"java_script_enabled": False}], indirect=True, ids=["no scripts"])
def test_the_documentation_is_complete_without_scripts(page: Page, reading: Served) -> None:
    page.goto(f"{reading.base_url}/docs")
    endpoint = page.locator("#list_orders")
    endpoint.locator("summary").click()

    expect(endpoint).to_contain_text("purchase_date")
    expect(endpoint).to_contain_text("curl 'http")
    expect(endpoint.get_by_role("button")).to_have_count(0)
    expect(page.get_by_label("Access token")).to_be_hidden()


def test_the_search_works_by_keyboard_and_announces_its_matches(page: Page, reading: Served) -> None:
    page.goto(f"{reading.base_url}/docs")
    announced = page.locator("#search").get_by_role("status")
    page.get_by_label("Search endpoints and fields").focus()

    page.keyboard.type("conversion_rate")
    expect(announced).to_have_text(re.compile(r"^1 endpoint, [1-9] parameters or fields$"))
    expect(page.locator("#write_cost_periods")).to_be_visible()
    expect(page.locator("#list_orders")).to_be_hidden()
    expect(page.get_by_role("navigation", name="Documentation").get_by_role("link", name="orders")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("#write_cost_periods > summary")).to_be_focused()
    page.get_by_label("Search endpoints and fields").fill("nothing like that")
    expect(announced).to_have_text("Nothing matches. Try fewer or shorter words.")
    page.keyboard.press("Escape")
    expect(announced).to_have_text("")
    expect(page.locator("#list_orders")).to_be_visible()
    expect(page.locator("#write_cost_periods")).not_to_have_attribute("open", "")


def test_the_menu_marks_what_is_in_view_and_is_closed_on_a_phone(page: Page, reading: Served) -> None:
    page.goto(f"{reading.base_url}/docs")
    menu = page.get_by_role("navigation", name="Documentation")
    expect(menu.locator("[aria-current]")).to_have_text("Overview")

    menu.get_by_role("link", name="GET /sales/orders").click()
    expect(page.locator("#list_orders")).to_have_attribute("open", "")
    expect(page.locator("#list_orders > summary")).to_be_in_viewport()
    expect(menu.locator("[aria-current]")).to_have_text("GET /sales/orders")
    expect(menu.locator("[aria-current]")).to_be_in_viewport()

    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    expect(menu.get_by_role("link", name="Errors")).to_be_hidden()
    page.get_by_text("Contents", exact=True).click()
    menu.get_by_role("link", name="Errors").click()
    expect(menu.get_by_role("link", name="Errors")).to_be_hidden()
    expect(page.get_by_role("heading", name="Errors")).to_be_in_viewport()
