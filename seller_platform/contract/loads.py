"""Facts about the reading of a slice, and the verdict on its row count."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class CountVerdict(StrEnum):
    """How the number of rows read compares with the total that the upstream announced.

    A reading that is held was not published, whatever its number of rows.
    """

    MATCH = "match"
    MISMATCH = "mismatch"
    UNVERIFIABLE = "unverifiable"
    HELD = "held"

    @classmethod
    def worst(cls, verdicts: Collection["CountVerdict"]) -> "CountVerdict":
        """Return the worst of the verdicts; a mismatch is worse than an unverifiable count."""
        ranked = (cls.HELD, cls.MISMATCH, cls.UNVERIFIABLE, cls.MATCH)
        return next(verdict for verdict in ranked if verdict in verdicts)


@dataclass(frozen=True)
class PageFacts:
    """What the rows of a page add to their slice. With it, the same page need not be decoded again.

    Attributes:
        days: Rows by the value of the slice column.
        duplicate_keys: Rows whose key another row of the page has too.
    """

    rows: int
    hash_sum: bytes
    days: Mapping[str, int]
    duplicate_keys: int = 0
    unknown_fields: frozenset[str] = frozenset()


REPLACED_TEXT, UNREADABLE_VALUES, EXCESS_DIGITS = "replaced_text", "unreadable_values", "excess_digits"
"""The names of notes about rows that are stored although something is wrong with them."""
CONTRADICTION = "contradiction"
"""The name of the note that says how the counts of a list contradict its pages."""
UNKNOWN_PRODUCTS = "unknown_products"
"""The name of the note that counts the products that the upstream does not know."""
DATED_ANEW = "dated_anew"
"""The name of the note that lists earlier days with a row that came under another date, and is equal in all else."""
WAITING = "waiting"
"""The name of the note that lists the accounts whose time zone or currency is in doubt."""

NO_PAGES: Mapping[bytes, PageFacts] = MappingProxyType({})


@dataclass(frozen=True)
class LoadFacts:
    """How a slice was read, as its receipt keeps it.

    Attributes:
        requests: HTTP requests of all attempts, retries included.
        pages: Pages of the attempt whose rows were kept.
        body_bytes: Bytes of all bodies; of a report those of the attempt whose rows were kept.
        announced: Rows that the upstream announced; None where it sends no total.
        notes: What else was read: attempts, unknown_fields, duplicate_keys, null_keys, replaced_text,
            unreadable_values, excess_digits, contradiction, facet_ignored, asked_by_day, moved and such.
    """

    requests: int
    pages: int
    body_bytes: int
    announced: int | None
    verdict: CountVerdict
    notes: Mapping[str, object] = field(default_factory=dict)
