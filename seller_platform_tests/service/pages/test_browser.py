"""Tests the pages in Chromium: login, consent, and rules of accessibility."""

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from seller_platform_tests.service.pages.test_every_page import page_paths
from seller_platform_tests.support.browsers import AXE, PATIENCE_MILLISECONDS, open_browser
from seller_platform_tests.support.served import ANN, CALLBACK, PASSWORD, Served, issue_token

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A running Chromium; it ends with this module, because no test may start an event loop meanwhile."""
    with open_browser() as browser:
        yield browser


@pytest.fixture
def context(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A new browser context with the options of the test's parameter.

    The test fails if a page violates its content security policy.
    """
    options = getattr(request, "param", {})
    context = chromium.new_context(**options)
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    complaints: list[str] = []
    context.on("console", lambda it: complaints.append(it.text) if it.type in ("error", "warning") else None)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    yield context
    context.close()
    # The browser reports expected 4xx answers as errors, too.
    assert [complaint for complaint in complaints if not complaint.startswith("Failed to load resource")] == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


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


def test_no_page_on_a_phone_violates_a_rule_of_accessibility(page: Page, service: Served) -> None:
    problems: list[str] = []

    def check(name: str) -> None:
        page.evaluate(AXE)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        problems.extend(f"{name}: {each['help']}: {[node['html'][:150] for node in each['nodes']]}" for each in found)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{name}: scrolls sideways")

    issue_token(service.database, ANN)
    page.set_viewport_size({"width": 375, "height": 812})
    ask_for_consent(page, service)
    log_in(page, "wrong")
    check("wrong password")
    log_in(page)
    check("consent")
    paths = sorted({*page_paths("GET"), "/nothing"} - {"/login"})
    for path in paths:
        page.goto(service.base_url + re.sub("{.*?}", service.client_id, path))
        check(path)

    assert len(paths) > 5
    assert problems == []
