"""Facts about the reading of a slice, and the verdict on its row count."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
class LoadFacts:
    """How a slice was read, as its receipt keeps it.

    Attributes:
        requests: HTTP requests of all attempts, retries included.
        pages: Pages of the attempt whose rows were kept.
        body_bytes: Bytes of all bodies; of a report those of the attempt whose rows were kept.
        announced: Rows that the upstream announced; None where it sends no total.
        notes: What else was read: attempts, unknown_fields, duplicate_keys, null_keys, facet_ignored, asked_by_day,
            moved and such.
    """

    requests: int
    pages: int
    body_bytes: int
    announced: int | None
    verdict: CountVerdict
    notes: Mapping[str, object] = field(default_factory=dict)
