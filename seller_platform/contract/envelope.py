"""The envelope around a page of a list."""

CURRENT_PAGE = "current_page"
ROWS = "data"
TOTAL = "total"
PER_PAGE = "per_page"
LAST_PAGE = "last_page"


def last_page_of(total: int, per_page: int) -> int:
    """Return the number of the last page; an empty list has one page, which is empty."""
    return max(1, -(-total // per_page))
