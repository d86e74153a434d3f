"""Tests every page with axe-core on a phone and dark; and that no page scrolls sideways on any window."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pytest
from playwright.sync_api import Page, ViewportSize

from seller_platform_tests.service.browser.test_pages import ask_for_consent, log_in
from seller_platform_tests.service.pages.test_every_page import page_paths
from seller_platform_tests.support.browsers import AXE
from seller_platform_tests.support.served import ANN, Served, issue_token

pytestmark = [pytest.mark.browser, pytest.mark.journey]


@dataclass(frozen=True)
class Mode:
    """A window; zoom divides the pixels that a page has, in both directions.

    Attributes:
        axe: The options of axe-core, which checks the page in this window; empty for no check, since one takes seconds.
    """

    width: int
    height: int
    scheme: Literal["light", "dark"] = "light"
    axe: str = ""


MODES: Mapping[str, Mode] = {
    "desktop": Mode(1280, 800),
    "phone": Mode(375, 812, axe="resultTypes: ['violations']"),
    "dark": Mode(1280, 800, "dark", axe="resultTypes: ['violations'], runOnly: ['color-contrast']"),
    "200 %": Mode(640, 400),
}


@dataclass
class Visits:
    """Opens pages and collects what is wrong with them."""

    page: Page
    base_url: str
    modes: Sequence[str] = tuple(MODES)
    problems: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Open a page and check it."""
        self.page.goto(f"{self.base_url}{path}")
        self.check(path)

    def check(self, name: str) -> None:
        """Check the page that is open, in each mode."""
        self.page.evaluate(AXE)
        for title, mode in ((title, MODES[title]) for title in self.modes):
            self.page.set_viewport_size(ViewportSize(width=mode.width, height=mode.height))
            self.page.emulate_media(color_scheme=mode.scheme)
            found = self.page.evaluate(f"axe.run({{{mode.axe}}})")["violations"] if mode.axe else []
            for violation in found:
                nodes = [node["html"][:150] for node in violation["nodes"]]
                self.problems.append(f"{name}, {title}: {violation['id']} ({violation['help']}): {nodes}")
            if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                self.problems.append(f"{name}, {title}: scrolls sideways")


@pytest.fixture
def visits(page: Page, service: Served) -> Iterator[Visits]:
    """Visits to a service whose user gave an application access."""
    issue_token(service.database, ANN)
    yield Visits(page, service.base_url)


@pytest.mark.parametrize("modes", [("desktop", "phone", "200 %"), pytest.param(("dark",), marks=pytest.mark.nightly)])
def test_no_page_violates_a_rule_of_accessibility(visits: Visits, service: Served, modes: Sequence[str]) -> None:
    visits.modes = modes
    page = visits.page
    visits.open("/")
    _visit_documentation(visits)
    for path in ("/nothing", "/oauth/authorize", "/login"):
        visits.open(path)
    log_in(page, "wrong")
    visits.check("wrong password")
    ask_for_consent(page, service)
    log_in(page)
    visits.check("consent")
    _visit_pages_of_user(visits, service)
    service.execute("ALTER TABLE service.sessions RENAME TO sessions_elsewhere")
    visits.open("/admin/developers?broken")

    assert page.get_by_role("heading", level=1).inner_text() == "Something broke on our side"
    assert visits.problems == []


def _visit_documentation(visits: Visits) -> None:
    """Check the documentation with two endpoints, since all are made by one template and checking takes seconds."""
    visits.page.goto(f"{visits.base_url}/docs")
    visits.page.evaluate(
        "for (const endpoint of document.querySelectorAll('.endpoint')) {"
        "  if (['list_transactions', 'write_cost_periods'].includes(endpoint.id)) endpoint.open = true;"
        "  else endpoint.querySelector('.panel').remove();"
        "}"
    )
    visits.check("/docs")
    visits.page.get_by_label("Search endpoints and fields").fill("order_id")
    visits.check("search")


def _visit_pages_of_user(visits: Visits, service: Served) -> None:
    """Check the pages of every route, with an own client and an application that has access in its parameters."""
    page = visits.page
    page.goto(f"{service.base_url}/admin/developers/new")
    for uri, name in (("http://app.example/", "x"), ("https://app.example/callback", "W" * 100)):
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_label(re.compile("^Redirect URL")).fill(uri)
        page.get_by_role("button", name="Create client").click()
        visits.check(f"client of {uri}")
    own_client = page.locator("#client_id").inner_text()
    paths = page_paths("GET")
    assert {"/", "/login", "/admin/developers/new", "/admin/applications/{client_id:path}/end"} <= paths
    for path in sorted(paths - {"/docs"}):
        visits.open(re.sub("{.*?}", own_client if "developers" in path else service.client_id, path))
