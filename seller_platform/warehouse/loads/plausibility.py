"""Compares a reading with what is stored, and says why it contradicts the stored rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Self

from seller_platform.contract import Dataset
from seller_platform.counts import count_of
from seller_platform.warehouse.loads.profiles import Profile
from seller_platform.warehouse.loads.spool import Spool

READINGS_TO_BELIEVE = 3
"""A reading that says the same this often, each time at least 20 hours later, is published."""

AN_OPERATOR = "an operator"
"""Who accepts a reading, where no name is given."""

# Of a list with one row a day, half may be gone without 20 rows being lost.
_MOST_EMPTIED, _EMPTIED_SHARE = 2, 5

_FEWEST_AMOUNTS = 5
_APART = timedelta(hours=20)
_ALIKE = 0.05


class DoubtKind(StrEnum):
    """What a reading lacks."""

    ROWS = "rows"
    AMOUNTS = "amounts"
    TOTAL = "total"


@dataclass(frozen=True)
class Doubt:
    """Why a reading contradicts the stored rows.

    Attributes:
        reason: A part of a sentence, such as "no row was read".
        rows_stored: Rows of the slice, or of the newest snapshot before it.
        rows_read: Rows of the reading.
        claim: What the reading says about the days that lost rows: the rows of each. Of a snapshot all rows, under "".
        covers_all: Whether any later load of the dataset and account ends the hold, because it is a whole list.
    """

    kind: DoubtKind
    reason: str
    rows_stored: int
    rows_read: int
    claim: Mapping[str, int]
    covers_all: bool

    @property
    def note(self) -> dict[str, Any]:
        """The doubt as a receipt keeps it."""
        return asdict(self)

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Self:
        return cls(**{**note, "kind": DoubtKind(note["kind"])})

    def says_the_same(self, other: "Doubt") -> bool:
        """Whether an earlier reading lacked the same rows, give or take a row or 5 %: a true list goes on changing."""
        if self.kind is not other.kind or self.kind is not DoubtKind.ROWS:
            return self.kind is other.kind
        return bool(self.claim) and all(_are_alike(rows, other.claim.get(day)) for day, rows in self.claim.items())


@dataclass(frozen=True)
class Accepted:
    """A doubt that does not stop a reading which says the same.

    Attributes:
        by: Who accepted it.
        why: The reason that was given.
    """

    doubt: Doubt
    by: str = AN_OPERATOR
    why: str | None = None

    @property
    def note(self) -> dict[str, Any]:
        """Who accepted it and why, as a receipt keeps it."""
        return {"by": self.by} | ({} if self.why is None else {"why": self.why})


@dataclass(frozen=True)
class Judge:
    """How a reading is judged before it is published.

    Attributes:
        settled: The days of the window that were read after their last expected change.
        is_second: The slice was read before with the same result; it is held if it is still implausible.
        accepted: The doubt that an operator accepted.
    """

    settled: Collection[date] = frozenset()
    is_second: bool = False
    accepted: Accepted | None = None

    def doubt(
        self, dataset: Dataset, stored: Profile, read: Spool, *, announced_before: bool, announces: bool
    ) -> Doubt | None:
        """Return why a reading contradicts the stored rows; None if it does not.

        Args:
            stored: The profile of the stored rows; of a first snapshot of a day, of the newest snapshot before.
            announced_before: Whether the last load of the slice announced a total.
            announces: Whether this one did.
        """
        is_whole = not dataset.is_dated
        claim = {"": read.count} if is_whole else _claim(stored, read)
        found = _lost_rows(dataset, stored, read, self.settled)
        if found is None and read.count:
            found = _lost_amounts(stored, read)
        if found is None and announced_before and not announces:
            found = DoubtKind.TOTAL, "the list announced no total, which it did before"
        if found is None:
            return None
        kind, reason = found
        return Doubt(kind, reason, stored.rows, read.count, claim, covers_all=is_whole)

    def believes(self, doubt: Doubt, held: Sequence[tuple[datetime, Doubt]], now: datetime) -> dict[str, Any]:
        """Return the note with which a doubted reading is published; empty if it is not.

        Args:
            held: When the slice was held since it was last published, and why, newest first.
        """
        if self.accepted is not None and doubt.says_the_same(self.accepted.doubt):
            return {"accepted": {**self.accepted.note, **doubt.note}}
        readings, last = 1, now
        for moment, other in held:
            if not doubt.says_the_same(other):
                break
            if last - moment >= _APART:
                readings, last = readings + 1, moment
        if readings >= READINGS_TO_BELIEVE:
            return {"accepted": {"by": f"{count_of(readings, 'reading')} that say the same", **doubt.note}}
        return {}


@dataclass
class _Loss:
    """Rows that some days lost."""

    percent: int
    at_least: int
    stored: int = 0
    lost: int = field(default=0)

    def add(self, stored: int, read: int) -> None:
        self.stored += stored
        self.lost += max(0, stored - read)

    @property
    def is_implausible(self) -> bool:
        return self.lost > self.at_least and 100 * self.lost > self.percent * self.stored


def _lost_rows(
    dataset: Dataset, stored: Profile, read: Spool, settled: Collection[date]
) -> tuple[DoubtKind, str] | None:
    """Judge by the number of rows. Rows that other days gained do not make up for those that days lost."""
    if stored.rows and not read.count:
        return DoubtKind.ROWS, f"no row was read; {stored.rows} are stored"
    if not dataset.is_dated:
        if 2 * read.count < stored.rows:
            return (
                DoubtKind.ROWS,
                f"{count_of(read.count, 'row', 'was')} read, less than half of the {stored.rows} before",
            )
        return None
    of_settled, of_others = _Loss(1, 5), _Loss(20, 20)
    for day, rows in stored.days.items():
        (of_settled if day in settled else of_others).add(rows, read.days[str(day)])
    emptied = sum(1 for day in stored.days if not read.days[str(day)]) if dataset.key == (dataset.day,) else 0
    if emptied > _MOST_EMPTIED and _EMPTIED_SHARE * emptied > len(stored.days):
        return DoubtKind.ROWS, f"no rows on {emptied} of {count_of(len(stored.days), 'day')} that had rows"
    for loss, name in ((of_settled, "settled days"), (of_others, "days")):
        if loss.is_implausible:
            return (
                DoubtKind.ROWS,
                f"{loss.lost} of {count_of(loss.stored, 'row', 'is')} missing on {name} that had them",
            )
    return None


def _lost_amounts(stored: Profile, read: Spool) -> tuple[DoubtKind, str] | None:
    """Judge by money columns: all of them, or one that most rows had, without an amount."""
    had = {name: rows for name, rows in stored.with_amounts.items() if rows}
    if had and not read.with_amounts:
        return DoubtKind.AMOUNTS, f"no amount is other than zero or null; {count_of(max(had.values()), 'row')} had one"
    for name, rows in had.items():
        if name not in read.with_amounts and 2 * rows > stored.rows and rows > _FEWEST_AMOUNTS:
            return DoubtKind.AMOUNTS, f"every {name} is zero or null; {count_of(rows, 'row')} had one"
    return None


def _are_alike(rows: int, before: int | None) -> bool:
    if before is None or (rows == 0) is not (before == 0):
        return False
    return abs(rows - before) <= max(1, _ALIKE * max(rows, before))


def _claim(stored: Profile, read: Spool) -> dict[str, int]:
    return {str(day): read.days[str(day)] for day, rows in sorted(stored.days.items()) if read.days[str(day)] < rows}
