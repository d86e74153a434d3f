"""Compares a reading with what is stored, day by day, and says which days contradict it and are held."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from seller_platform.contract import Dataset, Slicing
from seller_platform.counts import count_of
from seller_platform.warehouse.loads.day_changes import ROWS, SUMS_ALIKE, WHOLE_LIST, DayChange, Figures, sum_changes

READINGS_TO_BELIEVE = 3
"""A day of which readings say the same this often, each time at least 20 hours later, is published."""

AN_OPERATOR = "an operator"
"""Who accepts a reading, where no name is given."""

_APART = timedelta(hours=20)
_ALIKE = Decimal("0.05")
_CENT = Decimal("0.01")

Figure: TypeAlias = tuple[Decimal | int, Decimal | int, str]
"""How many rows, of how many, and the column where it is of one. Instead of rows also sums."""

Measure: TypeAlias = Callable[[Sequence[DayChange]], Iterator[Figure]]


class RuleScope(StrEnum):
    """What a rule is about; rules about one day come before those about several."""

    READING = "the whole reading"
    SNAPSHOT = "a snapshot"
    ACCOUNTS = "a list of accounts"
    DAILY = "a list with one row a day"
    SETTLED_DAY = "a settled day"
    RECENT_DAY = "another day"
    SETTLED_DAYS = "settled days together"
    RECENT_DAYS = "other days together"


@dataclass(frozen=True)
class Rule:
    """A rule by which a reading is in doubt: more than a share of what is stored, and more than a number.

    Attributes:
        name: Names the rule in receipts.
        reason: What is wrong, with places for `n`, `of`, `column` and `days`.
        stops: Wrong answers that it stops, for the documents.
        passes: True changes that it lets pass, for the documents.
        limits: By what it is about, the percentage and the number of rows up to which nothing is in doubt.
        measure: Yields what is compared, of a day or of several.
    """

    name: str
    reason: str
    stops: str
    passes: str
    limits: Mapping[RuleScope, tuple[int, int]]
    measure: Measure = lambda _: iter(())


def _sum_of(number: Callable[[DayChange], int]) -> Measure:
    """Return the measure that compares a number of rows with those that are stored or read, whichever are more."""

    def measure(changes: Sequence[DayChange]) -> Iterator[Figure]:
        before, after = (sum(each.before for each in changes), sum(each.after for each in changes))
        if before:
            yield sum(map(number, changes)), max(before, after), ""

    return measure


def _none_read(changes: Sequence[DayChange]) -> Iterator[Figure]:
    if all(each.lost == each.before for each in changes):
        yield (stored := sum(each.before for each in changes)), stored, ""


def _emptied(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of columns that most rows had, while there are rows."""
    before, after = _compared(changes)
    for name in [name for kind, name in before if kind == "filled" and after[ROWS]]:
        had, has = (each["filled", name] for each in (before, after))
        if 2 * had > before[ROWS]:
            yield had - has, had, name


def _sums(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of the smaller sum, so that growing and shrinking are alike; a sum that was 0 may be any."""
    before, after = _compared(changes)
    for name, change, least in sum_changes(before, after) if after[ROWS] else ():
        if before["gross", name]:
            yield change, least or _CENT, name


def _values(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of columns in which most rows had a number."""
    before, _ = _compared(changes)
    for name, scaled in changes[0].scaled.items() if before else ():
        if 2 * before["filled", name] > before[ROWS]:
            yield scaled, before["filled", name], name


def _compared(changes: Sequence[DayChange]) -> tuple[Figures, Figures]:
    """Return the figures before and after of the days that had rows; none unless all of these were compared."""
    before, after = Figures(), Figures()
    for each in changes:
        if each.before and each.compared is None:
            return Figures(), Figures()
        if each.before and each.compared is not None:
            before.update(each.compared[0])
            after.update(each.compared[1])
    return before, after


ACCOUNT = Rule(
    "account",
    "{column}",
    "a seller under another number, another seller under a number; most accounts with another time zone or currency, "
    "or another currency while the amounts of settled days stay",
    "another title or country; another zone or currency of one account, whose rows say so",
    {RuleScope.READING: (0, 0)},
)
"""The rule about who an account is, and about its time zone and currency."""

TOTAL = Rule(
    "total",
    "the list announced no total, which it did before",
    "an empty or cut list without its counts",
    "a list that never announced one",
    {RuleScope.READING: (0, 0)},
)
"""The rule about what comes with the rows."""

RULES = (
    ACCOUNT,
    Rule(
        "nothing",
        "none of {of} stored rows was read",
        "an empty list; entirely other rows",
        "an account that never had rows",
        {RuleScope.READING: (99, 0)},
        _none_read,
    ),
    Rule(
        "emptied",
        "{column} is empty in {n} of {of} rows that had it, {days}",
        "SKU, order, name, ASIN, currency or quantity null or empty; all amounts of the rows zero or null",
        "a column that few rows had; a value that one row loses",
        {RuleScope.READING: (95, 5), RuleScope.SETTLED_DAY: (95, 1), RuleScope.RECENT_DAY: (95, 5)},
        _emptied,
    ),
    Rule(
        "others",
        "{n} of {of} rows are missing or others than before {days}",
        "rows of another account, other amounts, quantities, currencies or sales channels, every row twice",
        "late changes of less than a tenth of the rows; any change of a status or a name",
        {RuleScope.SETTLED_DAY: (25, 1), RuleScope.SETTLED_DAYS: (10, 2)},
        _sum_of(lambda each: each.others),
    ),
    Rule(
        "sums",
        "the sum of {column} changes by {n}, {days}",
        "amounts or fees that are doubled, times 100, divided by it, or have another sign, even of one row a day",
        "sums that change by less",
        {RuleScope.SETTLED_DAY: (int(100 * SUMS_ALIKE), 0)},
        _sums,
    ),
    Rule(
        "rows",
        "{n} of {of} rows were added or are missing {days}",
        "a list that lost a page, or has rows twice, spread over its days",
        "some rows that come or are deleted late",
        {RuleScope.SETTLED_DAYS: (1, 5)},
        _sum_of(lambda each: abs(each.after - each.before)),
    ),
    Rule(
        "lost",
        "{n} of {of} rows are missing {days}",
        "half of a recent day, a third of many days, days of a list with one row a day, more than half of the accounts",
        "rows of recent days that come or change, some that are deleted; further accounts",
        {
            RuleScope.ACCOUNTS: (50, 0),
            RuleScope.DAILY: (20, 2),
            RuleScope.RECENT_DAY: (40, 5),
            RuleScope.RECENT_DAYS: (20, 20),
        },
        lambda changes: iter([(sum(each.lost for each in changes), sum(each.before for each in changes), "")]),
    ),
    Rule(
        "list",
        "{n} of {of} rows were added or are missing",
        "a shortened list, the list of another account, every row twice, one row many times",
        "a catalogue that less than doubles, or loses less than half; two products",
        {RuleScope.SNAPSHOT: (49, 2)},
        _sum_of(lambda each: max(each.lost, each.added)),
    ),
    Rule(
        "values",
        "{column} is five times larger or smaller, or of another currency, in {n} of {of} rows",
        "stock times ten, costs times 100, costs in another currency",
        "a stock-take; new costs of less than half of the products",
        {RuleScope.SNAPSHOT: (50, 2)},
        _values,
    ),
    TOTAL,
)
"""The rules, the first one that applies names the reason. Each is about one share of one thing."""


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What a reading says of a day.

    Attributes:
        amount: How much it changes the sum of the first amount.
        account: Of a list of accounts: which of them are others, and how.
    """

    rows: int
    amount: Decimal = Decimal(0)
    account: str = ""

    def agrees_with(self, other: "Claim | None") -> bool:
        """Whether another reading says the same, give or take a row or 5 %: a true list goes on changing."""
        if other is None or self.account != other.account or (self.rows == 0) is not (other.rows == 0):
            return False
        most = max(abs(self.amount), abs(other.amount))
        are_as_many = abs(self.rows - other.rows) <= max(Decimal(1), _ALIKE * max(self.rows, other.rows))
        return are_as_many and abs(self.amount - other.amount) <= _ALIKE * most


class Doubt(msgspec.Struct, frozen=True):
    """Why days of a reading contradict the stored rows.

    Attributes:
        rule: The name of the first rule that applies.
        reason: A part of a sentence about the whole reading.
        rows_stored: Rows of these days, or of the newest snapshot before.
        rows_read: Rows of the reading of these days.
        claim: What the reading says of each of these days. Of a list without days all rows, under "".
    """

    rule: str
    reason: str
    rows_stored: int
    rows_read: int
    claim: dict[str, Claim]


@dataclass(frozen=True)
class Accepted:
    """A doubt that does not stop days of a reading which say the same; with who accepted it, and the reason."""

    doubt: Doubt
    by: str = AN_OPERATOR
    why: str | None = None


@dataclass(frozen=True)
class Contradiction:
    """A rule that applies to a day, and the column that it applies to, or of an account what is another."""

    rule: Rule
    column: str


@dataclass(frozen=True)
class Judge:
    """How a reading is judged before it is published.

    Attributes:
        settled: The days of the window that were read after their last expected change.
        is_second: The slice was read before with the same result; days that are still in doubt are held.
        account: Says of accounts that they have another number, seller, time zone or currency than before.
        needs_person: Only a person accepts this, however often the list says the same: other rows could come under
            their keys.
    """

    settled: Collection[date] | Collection[str] = frozenset()
    is_second: bool = False
    accepted: Accepted | None = None
    account: str = ""
    needs_person: bool = False

    def findings(
        self, dataset: Dataset, changes: Mapping[str, DayChange], *, lacks_total: bool
    ) -> dict[str, list[Contradiction]]:
        """Return the rules that apply to each day in doubt, of the changes by day."""
        found: dict[str, list[Contradiction]] = defaultdict(list)
        settled = self._settled_of(changes)
        recent = [day for day in sorted(changes) if day not in settled and dataset.is_dated]
        for scope in RuleScope:
            # Days that a rule about one day applies to do not put other days in doubt.
            members = {
                RuleScope.READING: [[*changes]],
                RuleScope.SNAPSHOT: [[*changes]] if dataset.keeps_snapshots else [],
                RuleScope.ACCOUNTS: [[*changes]] if dataset.slicing is Slicing.CONNECTION else [],
                RuleScope.DAILY: [[*changes]] if dataset.key == (dataset.day,) and WHOLE_LIST not in changes else [],
                RuleScope.SETTLED_DAY: [[day] for day in settled],
                RuleScope.RECENT_DAY: [[day] for day in recent],
                RuleScope.SETTLED_DAYS: [[day for day in settled if day not in found]],
                RuleScope.RECENT_DAYS: [[day for day in recent if day not in found]],
            }
            for rule in RULES:
                for days in members[scope] if scope in rule.limits else ():
                    percent, number = rule.limits[scope]
                    findings = [
                        Contradiction(rule, column)
                        for count, whole, column in rule.measure([changes[day] for day in days])
                        if whole and count > number and 100 * count > percent * whole
                    ]
                    for day in days if findings else ():
                        if any(number > 0 for number, _, _ in rule.measure([changes[day]])):
                            found[day] += findings
        beside = [Contradiction(TOTAL, "")] * lacks_total + [Contradiction(ACCOUNT, self.account)] * bool(self.account)
        for day in changes if beside else ():
            found[day] += beside
        return dict(found)

    def held(
        self,
        findings: Mapping[str, list[Contradiction]],
        changes: Mapping[str, DayChange],
        readings: Mapping[str, Sequence[tuple[datetime, Claim]]],
        now: datetime,
    ) -> tuple[dict[str, list[Contradiction]], dict[str, dict[str, Any]]]:
        """Return the days that are held, and those in doubt that are published, with the note of who accepts them.

        If most days that had rows, or most of their rows, are held, the whole reading is. So it is with settled days.

        Args:
            readings: When each day was held since it was last published, and what the reading said, newest first.
        """
        notes = {day: self._belief(self._claim_of(changes[day]), day, readings.get(day, ()), now) for day in findings}
        believed = {day: note for day, note in notes.items() if note}
        held = {day: of_day for day, of_day in findings.items() if day not in believed}
        for days in (changes, self._settled_of(changes)):
            rows = [(changes[day].before, day in held) for day in days if changes[day].before]
            in_doubt = [before for before, is_held in rows if is_held]
            if len(rows) > 1 and (
                2 * len(in_doubt) > len(rows) or 2 * sum(in_doubt) > sum(before for before, _ in rows)
            ):
                first = next(iter(held.values()))[0]
                held |= {day: [first] for day in changes if day not in held and day not in believed}
        return held, believed

    def doubt_about(
        self,
        findings: Mapping[str, Sequence[Contradiction]],
        changes: Mapping[str, DayChange],
        amount: tuple[str, Decimal] | None = None,
        days: Collection[str] | None = None,
    ) -> Doubt:
        """Return the doubt about days, with the reason that the first rule gives which applies to any of them.

        Args:
            findings: Those of the whole reading.
            amount: The name of the first amount, and its sum in the stored rows.
            days: Those that the doubt is about, of those with findings; None for all.
        """
        first = min((each for of_day in findings.values() for each in of_day), key=lambda each: RULES.index(each.rule))
        of_rule = [day for day, of_day in findings.items() if first in of_day]
        figures = [each for each in first.rule.measure([changes[day] for day in of_rule]) if each[2] == first.column]
        number, whole, _ = figures[0] if figures else (0, 0, "")
        kind = "settled day" if {*of_rule} <= {*self._settled_of(changes)} else "day"
        named = "in the list" if WHOLE_LIST in changes else f"on {count_of(len(of_rule), kind)}"
        reason = first.rule.reason.format(n=number, of=whole, column=first.column, days=named)
        judged = sorted(findings if days is None else days)
        return Doubt(
            first.rule.name,
            f"{reason}{_of_reading(changes, amount)}",
            sum(changes[day].before for day in judged),
            sum(changes[day].after for day in judged),
            {day: self._claim_of(changes[day]) for day in judged},
        )

    def _claim_of(self, change: DayChange) -> Claim:
        return Claim(change.after, change.amount, self.account)

    def _belief(
        self, claim: Claim, day: str, readings: Sequence[tuple[datetime, Claim]], now: datetime
    ) -> dict[str, Any] | None:
        if self.accepted is not None and claim.agrees_with(self.accepted.doubt.claim.get(day)):
            return {"by": self.accepted.by} | ({} if self.accepted.why is None else {"why": self.accepted.why})
        count, last = 1, now
        for moment, other in readings:
            if not claim.agrees_with(other):
                break
            if last - moment >= _APART:
                count, last = count + 1, moment
        is_believed = count >= READINGS_TO_BELIEVE and not self.needs_person
        return {"by": f"{count_of(count, 'reading')} that say the same"} if is_believed else None

    def _settled_of(self, changes: Mapping[str, DayChange]) -> list[str]:
        settled = set(map(str, self.settled))
        return [day for day in sorted(changes) if day in settled]


def _of_reading(changes: Mapping[str, DayChange], amount: tuple[str, Decimal] | None) -> str:
    """Say how much of the whole reading differs, in rows, money and days."""
    differ = [each for each in changes.values() if each.others or each.lost or each.added]
    rows = max(sum(each.before for each in changes.values()), sum(each.after for each in changes.values()))
    parts = [f"{sum(max(each.others, each.lost, each.added) for each in differ)} of {count_of(rows, 'row')}"]
    if amount is not None:
        name, whole = amount
        parts.append(f"{sum(abs(each.amount) for each in differ):,.2f} of {whole:,.2f} in {name}")
    if WHOLE_LIST not in changes:
        parts.append(f"{len(differ)} of {count_of(len(changes), 'day')}")
    return f" (in all {', '.join(parts)})" if differ else ""
