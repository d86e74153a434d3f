"""Tests of the documentation site: its pages, and what it requests.

Its build refuses links that lead nowhere.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from seller_platform.cli.pages import PAGES
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.tools.site import COMMENT, addresses, build

pytestmark = pytest.mark.slow


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


def test_the_search_knows_the_words_of_every_page_by_their_headings(site: Path) -> None:
    items = json.loads((site / "search.json").read_text("utf-8"))["items"]

    assert "webhook" in {each["location"]: each["text"] for each in items}["checks.html#alerts"]
    assert {each["location"].partition("#")[0] for each in items} == {*_pages(site)} - {"404.html"}


def test_the_site_loads_nothing_from_other_servers(site: Path) -> None:
    of_pages = [f"{name}: {url}" for name, page in _pages(site).items() for url in page.loaded]
    of_styles = [
        f"{path.name}: {url}"
        for path in site.rglob("*.css")
        for url in re.findall(r"""(?:url\(|@import\s*)["']?([^"')]+)""", path.read_text("utf-8"))
    ]

    assert of_pages
    assert [each for each in (*of_pages, *of_styles) if re.search(r": (?:\w+:)?//", each)] == []
