"""Tests of the documentation site: what it requests, its search, and its pages in a browser.

Its build refuses links that lead nowhere.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from mimetypes import guess_type
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, Page, ViewportSize, expect

from seller_platform.cli.docs import COMMENT
from seller_platform.cli.pages import PAGES
from seller_platform_tests.support.browsers import AXE, PATIENCE_MILLISECONDS, open_browser
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.raw_server import Answer, Request, serving
from seller_platform_tests.tools.site import addresses, build

pytestmark = pytest.mark.slow

_DESKTOP, _PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=375, height=812)


@dataclass
class _Parsed(HTMLParser):
    """A page of the site: what it loads, and the text and the lists of its article."""

    html: str
    loaded: list[str] = field(default_factory=list)
    blocks: Counter[str] = field(default_factory=Counter)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)

    @property
    def words(self) -> str:
        """The text without spaces, which the two kinds of HTML set differently."""
        return "".join(self.text.split())

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag in ("h1", "h2", "h3", "pre", "li", "td"):
            self.blocks[tag] += 1
        if tag != "a" and "href" in values and values.get("rel") != "canonical":
            self.loaded.append(values["href"])
        self.loaded += [values[name] for name in ("src", "srcset", "data", "poster") if name in values]


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    """The folder of the built site."""
    with temporary_folder() as folder:
        build(folder / "site", url="http://site/documentation/", repository="https://git.example/seller-platform")
        yield folder / "site"


def _pages(site: Path) -> dict[str, _Parsed]:
    return {str(path.relative_to(site)): _Parsed(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {str(path.with_suffix(".html")) for path in addresses().values() if path.suffix == ".md"}

    assert len(pages) > len(PAGES)
    assert pages | {"404.html"} == set(_pages(site))


def test_every_page_has_the_text_and_the_lists_that_github_shows(site: Path) -> None:
    github = MarkdownIt("commonmark").enable("table")
    different = []
    for file, address in addresses().items():
        if file.suffix == ".md":
            html = (site / address.with_suffix(".html")).read_text("utf-8")
            article = re.search(r"<article.*?</article>", html, re.DOTALL)
            assert article is not None, address
            shown = _Parsed(re.sub(r'<a class="headerlink.*?</a>|<style.*?</style>', "", article[0], flags=re.DOTALL))
            markdown = re.sub(r"^```mermaid$.*?^```$", "", COMMENT.sub("", file.read_text("utf-8")), flags=re.M | re.S)
            expected = _Parsed(github.render(markdown))
            if (shown.words, shown.blocks) != (expected.words, expected.blocks):
                different.append(str(address))

    assert different == []


def test_the_site_loads_nothing_from_other_servers(site: Path) -> None:
    of_pages = [f"{name}: {url}" for name, page in _pages(site).items() for url in page.loaded]
    of_styles = [
        f"{path.name}: {url}"
        for path in site.rglob("*.css")
        for url in re.findall(r"""(?:url\(|@import\s*)["']?([^"')]+)""", path.read_text("utf-8"))
    ]

    assert of_pages
    assert [each for each in (*of_pages, *of_styles) if re.search(r": (?:\w+:)?//", each)] == []


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """The address of the site on a server of files."""

    def answer(request: Request) -> Answer:
        file = site / unquote(request.path).strip("/")
        file = file / "index.html" if file.is_dir() else file
        if not file.is_file():
            return Answer(404)
        return Answer(body=file.read_bytes(), headers={"Content-Type": guess_type(file)[0] or "text/plain"})

    with serving(answer) as server:
        yield server.url


@pytest.fixture
def page(chromium: Browser, url: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page in a window with the options of the test's parameter; the test fails if it asks another server."""
    context = chromium.new_context(base_url=url, **getattr(request, "param", {}))
    context.set_default_timeout(PATIENCE_MILLISECONDS)
    asked: list[str] = []
    context.on("request", lambda sent: asked.append(sent.url))
    yield context.new_page()
    context.close()
    assert asked
    assert [each for each in asked if not each.startswith((url, "data:", "blob:"))] == []


@pytest.mark.browser
def test_a_search_for_a_word_leads_to_its_heading(page: Page) -> None:
    page.goto("/index.html")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("combobox", name="Search").fill("webhook")
    page.get_by_role("option", name="Alerts").click()

    page.wait_for_url(re.compile("/checks.html.*#alerts$"))
    expect(page.get_by_role("heading", name="Alerts")).to_be_in_viewport()


@pytest.mark.browser
def test_pages_are_accessible_and_do_not_scroll_sideways_on_a_phone(page: Page) -> None:
    problems = []
    for name in ("index", "checks", "reference/settings"):
        page.set_viewport_size(_DESKTOP)
        page.goto(f"/{name}.html")
        page.evaluate(AXE)
        violations = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        problems += [f"{name}: {each['help']}: {each['nodes'][0]['html']}" for each in violations]
        page.set_viewport_size(_PHONE)
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            problems.append(f"{name}: scrolls sideways")

    assert problems == []
