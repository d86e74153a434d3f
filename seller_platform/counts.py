"""Counts with their nouns, such as `1 row` and `2,000 rows`."""

_IRREGULAR = {"query": "queries", "entry": "entries", "currency": "currencies", "is": "are", "was": "were"}


def count_of(count: int, noun: str) -> str:
    """Return a count with its noun, in the singular for one.

    The noun may have words before it, such as `more row`.
    """
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a noun, or of `is` and `was`."""
    before, space, last = noun.rpartition(" ")
    return f"{before}{space}{_IRREGULAR.get(last, f'{last}s')}"
