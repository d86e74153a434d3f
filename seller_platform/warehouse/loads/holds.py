"""Compares a reading with what is stored, day by day, and says which days contradict it and are held."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self, TypeAlias

from seller_platform.contract import Dataset
from seller_platform.counts import count_of
from seller_platform.warehouse.loads.day_changes import SCALE, WHOLE_LIST, DayChange, Figures

READINGS_TO_BELIEVE = 3
"""A day of which readings say the same this often, each time at least 20 hours later, is published."""

AN_OPERATOR = "an operator"
"""Who accepts a reading, where no name is given."""

_APART = timedelta(hours=20)
_ALIKE = 0.05
_CENT = Decimal("0.01")

Claim: TypeAlias = tuple[int, str]
"""What a reading says of a day: its rows, and how much it changes the sum of the first amount."""

Figure: TypeAlias = tuple[Decimal | int, Decimal | int, str]
"""How many rows, of how many, and the column where it is of one. Instead of rows also sums."""


class RuleScope(StrEnum):
    """What a rule is about."""

    SETTLED_DAY = "a settled day"
    SETTLED_DAYS = "settled days together"
    RECENT_DAY = "another day"
    RECENT_DAYS = "other days together"
    READING = "the whole reading"
    LIST = "a list without days"


_TOGETHER = (RuleScope.SETTLED_DAYS, RuleScope.RECENT_DAYS)


@dataclass(frozen=True)
class Rule:
    """A rule by which a reading is in doubt: more than a share of what is stored, and more than a number.

    Attributes:
        name: Names the rule in receipts.
        measure: Yields what is compared, of a day or of several.
        more_than_percent: The share from which on a reading is in doubt.
        more_than: How many rows are never in doubt.
        reason: What is wrong, with places for `n`, `of`, `column` and `days`.
        stops: Wrong answers that it stops, for the documents.
        passes: True changes that it lets pass, for the documents.
    """

    name: str
    scope: RuleScope
    measure: Callable[[Sequence[DayChange]], Iterator[Figure]]
    more_than_percent: int
    more_than: int
    reason: str
    stops: str
    passes: str


def _sum_of(number: Callable[[DayChange], int]) -> Callable[[Sequence[DayChange]], Iterator[Figure]]:
    """Return the measure that compares a number of rows with those that are stored."""
    return lambda changes: iter([(sum(map(number, changes)), sum(each.before for each in changes), "")])


_missing = _sum_of(lambda each: each.missing)
_lost = _sum_of(lambda each: each.lost)
_others = _sum_of(lambda each: each.others)
_added = _sum_of(lambda each: max(0, each.after - each.before))


def _nothing_read(changes: Sequence[DayChange]) -> Iterator[Figure]:
    if not any(each.after for each in changes):
        yield from _missing(changes)


def _emptied_days(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of lists with one row a day."""
    if all(each.before <= 1 for each in changes):
        yield sum(each.before > each.after for each in changes), sum(each.before for each in changes), ""


def _emptied_columns(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of columns that most rows had, while there are rows."""
    if both := _compared(changes):
        for name in both[0][0].filled:
            had, has = (sum(figures.filled[name] for figures in each) for each in both)
            if 2 * had > sum(figures.rows for figures in both[0]):
                yield had - has, had, name


def _without_amounts(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of all amounts of a row together."""
    if both := _compared(changes):
        had, has = (
            max((sum(figures.filled[name] for figures in each) for name in each[0].gross), default=0) for each in both
        )
        yield had - has, had, ""


def _compared(changes: Sequence[DayChange]) -> Sequence[tuple[Figures, ...]]:
    """Return the figures before and after of the days that had rows; nothing unless all differ, and rows are left."""
    pairs = [each.compared for each in changes if each.before]
    compared = [pair for pair in pairs if pair is not None]
    return [*zip(*compared, strict=True)] if compared == pairs and any(after.rows for _, after in compared) else []


def _scaled(changes: Sequence[DayChange]) -> Iterator[Figure]:
    """Of the smaller sum, so that growing and shrinking are alike."""
    for name, before, after in _sums(changes, "gross"):
        if before:
            yield abs(after - before), min(before, after) or _CENT, name


def _turned(changes: Sequence[DayChange]) -> Iterator[Figure]:
    gross = {name: before for name, before, _ in _sums(changes, "gross")}
    for name, before, after in _sums(changes, "net"):
        yield abs(after - before) if before * after < 0 else 0, gross[name], name


def _sums(changes: Sequence[DayChange], kind: str) -> Iterator[tuple[str, Decimal, Decimal]]:
    for each in changes:
        if each.compared is not None and each.after:
            before, after = (getattr(figures, kind) for figures in each.compared)
            yield from ((name, before[name], after[name]) for name in before)


RULES = (
    Rule(
        "nothing",
        RuleScope.READING,
        _nothing_read,
        99,
        0,
        "no row was read; {of} are stored",
        "an empty list",
        "an account that never had rows",
    ),
    Rule(
        "no_amounts",
        RuleScope.READING,
        _without_amounts,
        95,
        0,
        "nearly no amount is other than zero or null; {of} rows had one",
        "all amounts zero or null, or all but one",
        "some orders that are cancelled",
    ),
    Rule(
        "emptied",
        RuleScope.READING,
        _emptied_columns,
        95,
        5,
        "{column} is empty in {n} of {of} rows that had it",
        "a column that the upstream lost",
        "a column that few rows had",
    ),
    Rule(
        "emptied_day",
        RuleScope.SETTLED_DAY,
        _emptied_columns,
        95,
        1,
        "{column} is empty in {n} of {of} rows that had it, on {days}",
        "SKU, order, name, ASIN or currency null on some days",
        "a value that one row loses",
    ),
    Rule(
        "emptied_recent_day",
        RuleScope.RECENT_DAY,
        _emptied_columns,
        95,
        5,
        "{column} is empty in {n} of {of} rows that had it, on {days}",
        "the same on days that may still change",
        "values that some rows lose",
    ),
    Rule(
        "others",
        RuleScope.SETTLED_DAY,
        _others,
        25,
        1,
        "{n} of {of} rows are missing or others than before on {days}",
        "rows of another account, other amounts, quantities or currencies, every row twice, one row many times",
        "late changes of some rows; any change of a status or a name",
    ),
    Rule(
        "others_of_many_days",
        RuleScope.SETTLED_DAYS,
        _others,
        10,
        20,
        "{n} of {of} rows are missing or others than before on {days}",
        "the same in a part of each day",
        "late changes of less than a tenth of the rows",
    ),
    Rule(
        "others_of_few_rows",
        RuleScope.SETTLED_DAYS,
        _others,
        25,
        2,
        "{n} of {of} rows are missing or others than before on {days}",
        "the same in an account with few rows",
        "two rows of a few that change late",
    ),
    Rule(
        "missing",
        RuleScope.SETTLED_DAYS,
        _missing,
        1,
        5,
        "{n} of {of} rows are missing on {days}",
        "a list that lost a page, spread over its days",
        "some rows that were deleted late",
    ),
    Rule(
        "scaled",
        RuleScope.SETTLED_DAY,
        _scaled,
        100 * (SCALE - 1),
        0,
        "the amounts in {column} are more than five times larger or smaller on {days}",
        "amounts times 100 or divided by it, even of one row a day",
        "amounts that change by less",
    ),
    Rule(
        "scaled_sums",
        RuleScope.SETTLED_DAY,
        _scaled,
        150,
        0,
        "the sums in {column} are more than 2.5 times larger or smaller on {days}",
        "the sums of another account, in a list with one row a day",
        "sums that double",
    ),
    Rule(
        "turned",
        RuleScope.SETTLED_DAY,
        _turned,
        150,
        0,
        "the sum of {column} changed its sign on {days}",
        "signs that are flipped, even of one row a day",
        "a sum near zero that changes its sign",
    ),
    Rule(
        "lost",
        RuleScope.RECENT_DAY,
        _lost,
        40,
        5,
        "{n} of {of} rows are missing on {days}",
        "half of a day missing, or rows of another account",
        "rows that come or change; some that are deleted",
    ),
    Rule(
        "lost_of_many_days",
        RuleScope.RECENT_DAYS,
        _lost,
        20,
        20,
        "{n} of {of} rows are missing on {days}",
        "a third of the rows missing, spread over the days",
        "a fifth of the rows deleted",
    ),
    Rule(
        "emptied_days",
        RuleScope.READING,
        _emptied_days,
        20,
        2,
        "no rows on {n} of {of} days that had rows",
        "a list with one row a day that loses days",
        "two days without rows",
    ),
    Rule(
        "lost_of_list",
        RuleScope.LIST,
        _lost,
        50,
        0,
        "{n} of {of} rows are missing",
        "a shortened list; the list of another account, or entirely other accounts",
        "up to half of the products or accounts replaced",
    ),
    Rule(
        "added_to_list",
        RuleScope.LIST,
        _added,
        99,
        20,
        "{n} rows were added to {of}",
        "every row twice, one row many times",
        "a catalogue that grows by less than its size",
    ),
)
"""The rules, the first one that applies names the reason. Each is about one share of one thing."""

TOTAL = Rule(
    "total",
    RuleScope.READING,
    lambda _: iter(()),
    0,
    0,
    "the list announced no total, which it did before",
    "an empty or cut list without its counts",
    "a list that never announced one",
)
"""The rule about what comes with the rows."""

IDENTITY = replace(
    TOTAL,
    name="identity",
    reason="{column}",
    stops="a seller under another number, another seller under a number",
    passes="another title, country, currency or time zone",
)
"""The rule about who an account is."""


@dataclass(frozen=True)
class Doubt:
    """Why days of a reading contradict the stored rows.

    Attributes:
        rule: The name of the first rule that applies.
        reason: A part of a sentence, such as "no row was read".
        rows_stored: Rows of these days, or of the newest snapshot before.
        rows_read: Rows of the reading of these days.
        claim: What the reading says of each of these days. Of a list without days all rows, under "".
    """

    rule: str
    reason: str
    rows_stored: int
    rows_read: int
    claim: Mapping[str, Claim]

    @property
    def note(self) -> dict[str, Any]:
        """The doubt as a receipt keeps it."""
        return asdict(self)

    @classmethod
    def of_note(cls, note: Mapping[str, Any]) -> Self:
        return cls(**{**note, "claim": {day: (rows, amount) for day, (rows, amount) in note["claim"].items()}})


@dataclass(frozen=True)
class Accepted:
    """A doubt that does not stop days of a reading which say the same.

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
        is_second: The slice was read before with the same result; days that are still in doubt are held.
        accepted: The doubt that an operator accepted.
        repairs: A person asked to store what is listed: a list that is what loads have stored before is not in doubt,
            however another program has changed the rows.
        other_identities: Says of accounts that they have another number, seller or marketplace than before. Only a
            person accepts these, however often the list says the same: other rows could come under their keys.
    """

    settled: Collection[date] = frozenset()
    is_second: bool = False
    accepted: Accepted | None = None
    repairs: bool = False
    other_identities: str = ""

    def findings(
        self, dataset: Dataset, changes: Mapping[str, DayChange], *, lacks_total: bool
    ) -> dict[str, list["Contradiction"]]:
        """Return the rules that apply to each day in doubt.

        Args:
            changes: The change of each day.
            lacks_total: Whether the list announced no total, which it did before.
        """
        found: dict[str, list[Contradiction]] = defaultdict(list)
        of_settled = {str(day) for day in self.settled}
        settled = [day for day in sorted(changes) if day in of_settled]
        recent = [day for day in sorted(changes) if day not in of_settled and day != WHOLE_LIST]
        for rule in sorted(RULES, key=lambda rule: rule.scope in _TOGETHER):
            # Days that a rule about one day applies to do not put other days in doubt.
            members = {
                RuleScope.READING: [[*changes]],
                RuleScope.LIST: [[*changes]] if WHOLE_LIST in changes else [],
                RuleScope.SETTLED_DAY: [[day] for day in settled],
                RuleScope.RECENT_DAY: [[day] for day in recent],
                RuleScope.SETTLED_DAYS: [[day for day in settled if day not in found]],
                RuleScope.RECENT_DAYS: [[day for day in recent if day not in found]],
            }
            if not _concerns(rule, dataset):
                continue
            for days in members[rule.scope]:
                findings = [
                    Contradiction(rule, column)
                    for number, whole, column in rule.measure([changes[day] for day in days])
                    if whole and number > rule.more_than and 100 * number > rule.more_than_percent * whole
                ]
                for day in _contributing(rule, days, changes) if findings else ():
                    found[day] += findings
        if lacks_total:
            for day in changes:
                found[day].append(Contradiction(TOTAL, ""))
        if self.other_identities:
            for day in changes:
                found[day].append(Contradiction(IDENTITY, self.other_identities))
        return dict(found)

    def held(
        self,
        findings: Mapping[str, list["Contradiction"]],
        changes: Mapping[str, DayChange],
        readings: Mapping[str, Sequence[tuple[datetime, Claim]]],
        now: datetime,
    ) -> tuple[dict[str, list["Contradiction"]], dict[str, dict[str, Any]]]:
        """Return the days that are held, and those in doubt that are published, with the note of who accepts them.

        If most of the days that had rows are held, all days that change are.

        Args:
            readings: When each day was held since it was last published, and what the reading said, newest first.
        """
        believed = {}
        for day in findings:
            note = self._belief(day, claim_of(changes[day]), readings.get(day, ()), now)
            if note is not None:
                believed[day] = note
        held = {day: of_day for day, of_day in findings.items() if day not in believed}
        had_rows = [day for day, change in changes.items() if change.before]
        if 2 * sum(day in held for day in had_rows) > len(had_rows) > 1:
            first = next(iter(held.values()))[0]
            changed = [day for day, each in changes.items() if each.others or each.before != each.after]
            held |= {day: [first] for day in changed if day not in held and day not in believed}
        return held, believed

    def _belief(
        self, day: str, claim: Claim, readings: Sequence[tuple[datetime, Claim]], now: datetime
    ) -> dict[str, Any] | None:
        if (
            self.accepted is not None
            and self.other_identities in ("", self.accepted.doubt.reason)
            and _say_the_same(claim, self.accepted.doubt.claim.get(day))
        ):
            return self.accepted.note
        count, last = 1, now
        for moment, other in readings:
            if not _say_the_same(claim, other):
                break
            if last - moment >= _APART:
                count, last = count + 1, moment
        is_believed = count >= READINGS_TO_BELIEVE and not self.other_identities
        return {"by": f"{count_of(count, 'reading')} that say the same"} if is_believed else None


@dataclass(frozen=True)
class Contradiction:
    """A rule that applies to a day, and the column that it applies to."""

    rule: Rule
    column: str


def claim_of(change: DayChange) -> Claim:
    """Return what a reading says of a day."""
    return change.after, str(change.amount)


def doubt_about(findings: Mapping[str, Sequence[Contradiction]], changes: Mapping[str, DayChange]) -> Doubt:
    """Return the doubt about days, with the reason that the first rule gives which applies to any of them."""
    rank = {rule.name: number for number, rule in enumerate((IDENTITY, *RULES, TOTAL))}
    first = min((each for of_day in findings.values() for each in of_day), key=lambda each: rank[each.rule.name])
    days = [day for day, of_day in findings.items() if first in of_day]
    figures = [each for each in first.rule.measure([changes[day] for day in days]) if each[2] == first.column]
    number, whole, _ = figures[0] if figures else (0, 0, "")
    kind = "settled day" if first.rule.scope in (RuleScope.SETTLED_DAY, RuleScope.SETTLED_DAYS) else "day"
    reason = first.rule.reason.format(n=number, of=whole, column=first.column, days=count_of(len(days), kind))
    judged = [changes[day] for day in findings]
    return Doubt(
        first.rule.name,
        reason,
        sum(each.before for each in judged),
        sum(each.after for each in judged),
        {day: claim_of(changes[day]) for day in sorted(findings)},
    )


def _concerns(rule: Rule, dataset: Dataset) -> bool:
    if rule.name in ("emptied_days", "scaled_sums"):
        return dataset.key == (dataset.day,)
    # Dated rows are a whole where the account's time zone changed; some of their days may have never been read before.
    return rule.name != "added_to_list" or not dataset.is_dated


def _contributing(rule: Rule, days: Sequence[str], changes: Mapping[str, DayChange]) -> Iterator[str]:
    """Yield the days that a rule about several days is about."""
    for day in days:
        if any(number > 0 for number, _, _ in rule.measure([changes[day]])):
            yield day


def _say_the_same(claim: Claim, other: Claim | None) -> bool:
    """Whether two readings say the same of a day, give or take a row or 5 %: a true list goes on changing."""
    if other is None or (claim[0] == 0) is not (other[0] == 0):
        return False
    amounts = Decimal(claim[1]), Decimal(other[1])
    most = max(map(abs, amounts))
    return abs(claim[0] - other[0]) <= max(1, _ALIKE * max(claim[0], other[0])) and abs(amounts[0] - amounts[1]) <= (
        Decimal(str(_ALIKE)) * most
    )
