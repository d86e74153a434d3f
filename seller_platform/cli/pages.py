"""The pages of documentation that are shipped with the package."""

from dataclasses import dataclass
from pathlib import Path

from seller_platform.errors import RequestError, did_you_mean

FOLDER = Path(__file__).parents[1] / "docs"
NOTEBOOK = FOLDER / "first_look.ipynb"
_NAMES = (
    "concepts", "connect", "backfill", "checks", "trust", "consume", "profit", "month-end", "reports", "costs", "serve",
    "agents", "deploy", "operate", "growing", "numbers", "promises", "reference", "reference/commands",
    "reference/json", "reference/settings", "reference/errors", "reference/checks", "reference/assets",
    "reference/automation", "reference/http", "reference/python",
)  # fmt: skip


@dataclass(frozen=True)
class DocumentPage:
    """A page of documentation, in Markdown.

    Attributes:
        name: The path of its file in the folder of pages, without the ending.
    """

    name: str

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.md"

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def purpose(self) -> str:
        """The first sentence: what its reader can do afterwards."""
        return " ".join(self.text.split("\n\n")[1].split())


PAGES = tuple(map(DocumentPage, _NAMES))
"""All pages, in the order in which a new user reads them."""


def page_named(name: str) -> DocumentPage:
    """Return the page of a name, or of the last part of a name.

    Raises:
        RequestError: No page has that name.
    """
    asked = name.lower().removesuffix(".md")
    by_name = {
        **{page.name.rpartition("/")[2]: page for page in reversed(PAGES)},
        **{page.name: page for page in PAGES},
    }
    if asked not in by_name:
        names = ", ".join(page.name for page in PAGES)
        problem = f"there is no page {name!r}{did_you_mean(asked, by_name)}; the pages are: {names}"
        raise RequestError(problem, code="UnknownPageError")
    return by_name[asked]
