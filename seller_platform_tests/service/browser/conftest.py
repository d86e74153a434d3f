"""Fixtures of Chromium: the browser, a context that fails on violations of the policy, and a page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from seller_platform_tests.support.browsers import PATIENCE_MILLISECONDS, open_browser


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A running Chromium; it ends with this folder, because no test may start an event loop meanwhile."""
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
