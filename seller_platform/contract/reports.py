"""Asynchronous reports: how they are requested, followed and written."""

from datetime import date

DPS_DATE, PRODUCT_SKU, LAST_UPDATED_DATE = "dps_date", "product_sku", "last_updated_date"
SELECTORS = (DPS_DATE, PRODUCT_SKU, LAST_UPDATED_DATE)
"""The parameters that say what a report is to hold, of which a request has exactly one."""

DATE_SELECTORS = (DPS_DATE, LAST_UPDATED_DATE)

JSON, CSV = "json", "csv"
FORMATS = (JSON, CSV)

COMPLETED_WORDS = frozenset({"completed", "done"})
PENDING_WORDS = frozenset({"processing", "queued", "working", "cancelling"})
FAILED_WORDS = frozenset({"failed", "cancelled"})
"""The words for how a report is, in lower case; upstreams write them in any."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a text begins that a spreadsheet would run, blanks aside; in CSV an apostrophe stands before such a text."""


def selector_problem(selector: str, value: str) -> str | None:
    """Return what is wrong with a selector and its value; None if a report can be requested by them."""
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
