"""Asynchronous reports: selectors of a request, words of a status, and formats."""

from datetime import date
from typing import Final, Literal, get_args

Selector = Literal["dps_date", "product_sku", "last_updated_date"]
SELECTORS: tuple[str, ...] = get_args(Selector)
"""The parameters that choose the rows of a report; a request has exactly one of them."""

DPS_DATE: Final = "dps_date"
LAST_UPDATED_DATE: Final = "last_updated_date"

DATE_SELECTORS = (DPS_DATE, LAST_UPDATED_DATE)

Format = Literal["json", "csv"]
FORMATS: tuple[str, ...] = get_args(Format)
JSON: Final = "json"
CSV: Final = "csv"

STANDINGS = {
    **dict.fromkeys(("completed", "done"), "completed"),
    **dict.fromkeys(("processing", "queued", "working", "cancelling"), "pending"),
    **dict.fromkeys(("failed", "cancelled"), "failed"),
}
"""The meaning of each status of a report, in lower case; upstreams write them in any case."""


def selector_problem(selector: str, value: str) -> str | None:
    """Return the problem of a selector or its value; None where both can be used."""
    if selector not in SELECTORS:
        return f"the selector must be one of {', '.join(SELECTORS)}, not {selector!r}"
    if selector not in DATE_SELECTORS:
        return None if value.strip() else f"{selector} must not be empty"
    try:
        if date.fromisoformat(value).isoformat() == value:
            return None
    except ValueError:
        pass
    return f"{selector} must be a day in the form YYYY-MM-DD, not {value!r}"
