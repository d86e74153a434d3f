"""Fixtures of Chromium: the browser, a context that fails on violations of the policy, and a page."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from seller_platform_tests.support.skipping import skip_except_in_ci

_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A running Chromium; without one the test is skipped, or fails in CI.

    While it runs, no test of the process may start an event loop; so it ends with its module.
    """
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        skip_except_in_ci("no Chromium found; install the Debian package chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """A new browser context with the options of the test's parameter.

    The test fails if a page violates its content security policy.
    """
    options = getattr(request, "param", {})
    context = chromium.new_context(**options)
    context.set_default_timeout(15_000)
    complaints: list[str] = []
    context.on(
        "console",
        lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None,
    )
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    yield context
    context.close()
    # The browser reports expected 4xx answers as errors, too.
    assert [complaint for complaint in complaints if not complaint.startswith("Failed to load resource")] == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
