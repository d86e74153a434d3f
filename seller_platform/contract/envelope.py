"""The envelope around a page of a list."""

CURRENT_PAGE = "current_page"
ROWS = "data"
TOTAL = "total"
PER_PAGE = "per_page"
LAST_PAGE = "last_page"

ENVELOPE = {
    CURRENT_PAGE: "The page returned.",
    ROWS: "The rows of the page.",
    TOTAL: "Rows on all pages.",
    PER_PAGE: "Rows on a full page.",
    LAST_PAGE: "Number of the last page.",
}
"""One sentence for each field."""


def last_page_of(total: int, per_page: int) -> int:
    """Return the number of the last page; an empty list has one page, which is empty."""
    return max(1, -(-total // per_page))
