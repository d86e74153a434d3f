"""Counts with their nouns, such as `1 row` and `2,000 rows`."""

_PLURALS = {
    "query": "queries",
    "retry": "retries",
    "is": "are",
    "was": "were",
    "has": "have",
    "does": "do",
    "matches": "match",
}


def count_of(count: float, noun: str, verb: str = "") -> str:
    """Return a count with its noun, both in the singular for one, such as `1 row was` and `2 rows were`.

    Args:
        noun: In the singular; words before it stay as they are, such as `more row`.
        verb: In the singular, where one follows.
    """
    number = f"{count:,}" if isinstance(count, int) else f"{count:,g}"
    if count == 1:
        return f"{number} {noun} {verb}".rstrip()
    before, space, last = noun.rpartition(" ")
    verbs = _PLURALS.get(verb, verb.removesuffix("s"))
    return f"{number} {before}{space}{_PLURALS.get(last, f'{last}s')} {verbs}".rstrip()
