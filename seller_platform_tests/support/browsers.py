"""Starts Chromium for the browser tests."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from playwright.sync_api import Browser, expect, sync_playwright

from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

PATIENCE_MILLISECONDS = 1_000 * PATIENCE_SECONDS
AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text()
"""The script axe-core, which checks pages for accessibility."""

# The first has no windows and no extensions: it takes less than half of the CPU time.
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Run a Chromium until the block ends; without one the test is skipped, or fails in CI.

    While it runs, no test of the process may start an event loop.
    """
    path = next((path for name in _PROGRAMS if (path := shutil.which(name))), None)
    if path is None:
        skip_except_in_ci("no Chromium found; install the Debian package chromium-headless-shell")
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        yield browser
        browser.close()
