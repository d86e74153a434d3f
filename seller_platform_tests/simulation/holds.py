"""Judges which days of a reading are held and which are published, by what readings have said of each day."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from seller_platform.contract import Dataset
from seller_platform_tests.simulation import tables as read
from seller_platform_tests.simulation.facts import Facts, check, window_of
from seller_platform_tests.simulation.tables import Receipt, Rows, Stored

_Claim = tuple[int, Decimal]
_APART = timedelta(hours=20)
_FEWEST_SETTLED = 3


class Holds:
    """What readings have said of each day since it was last published.

    Attributes:
        accepted_by_operator: Whether an operator has accepted any reading.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._said: dict[tuple[str, str], list[tuple[datetime, _Claim]]] = defaultdict(list)
        self._ever_said: dict[tuple[str, str], list[_Claim]] = defaultdict(list)
        self._reverted: dict[str, set[str]] = defaultdict(set)
        self.accepted_by_operator = False

    def judge(
        self,
        dataset: Dataset,
        reading: Sequence[Receipt],
        before: Counter[Stored],
        after: Counter[Stored],
        *,
        is_honest: bool,
        is_pruned: bool,
    ) -> None:
        """Judge the receipts of one reading, or of a revert.

        Args:
            before: All rows of the dataset before it.
            after: Those after it.
            is_honest: Whether the upstream has sent true lists so far.
            is_pruned: Whether receipts may have been deleted.
        """
        ends = sorted((each["window_start"], each["window_end"]) for each in reading)
        gaps = [pair for pair in pairwise(ends) if pair[0][1] != pair[1][0]]
        check(f"{dataset.name}: the receipts of one reading are of {ends}", not gaps)
        held = [each for each in reading if each["verdict"] == "held"]
        for receipt in held:
            self._judge_held(dataset, receipt, before, is_honest=is_honest)
        lasting = [self._readings(dataset, each, day, claim) for each in held for day, claim in _claims(each, "held")]
        is_over = bool(lasting) and min(lasting) >= 3
        check(f"{dataset.name}: held, though {lasting} readings say the same", is_pruned or not is_over)
        for receipt in reading:
            if receipt["verdict"] != "held":
                accepted = self._accepted(dataset, receipt, before, after)
                days = set(map(str, window_of(receipt).each_day())) if dataset.is_dated else set()
                if "reverts_load" in (receipt["notes"] or {}):
                    self._reverted[dataset.name] |= days
                else:
                    self._reverted[dataset.name] -= days
                    self._judge_settled(dataset, receipt, before, after, accepted)
                for key in self._said:
                    if (
                        key[0] == dataset.name
                        and receipt["window_start"] <= (key[1] or receipt["window_start"]) < receipt["window_end"]
                    ):
                        self._said[key].clear()
        for receipt in held:
            for day, claim in _claims(receipt, "held"):
                self._said[dataset.name, day].append((datetime.fromisoformat(receipt["started_at"]), claim))
                self._ever_said[dataset.name, day].append(claim)

    def _judge_held(self, dataset: Dataset, receipt: Receipt, before: Counter[Stored], *, is_honest: bool) -> None:
        first, end = receipt["window_start"], receipt["window_end"]
        days = {day for day, _ in _claims(receipt, "held")}
        outside = [day for day in days if day and not first <= day < end]
        check(f"load {receipt['id']} of {first} to {end} holds {outside}", not outside)
        # Under a changed time zone a month is judged as a whole.
        others = read.days_of(before, first, end).keys() - days if days != {""} else set()
        check(f"load {receipt['id']} holds {sorted(others)}, which are not in doubt", not others)
        settled = self._facts.settled_days(dataset, receipt) if is_honest and dataset.is_dated else set()
        settled -= self._reverted[dataset.name]  # a true list differs from rows that a person put back
        check(f"load {receipt['id']} holds {days & settled}, which settled, of a true list", not days & settled)

    def _accepted(
        self, dataset: Dataset, receipt: Receipt, before: Counter[Stored], after: Counter[Stored]
    ) -> set[str]:
        """Return the days of a published reading that were in doubt, after the check of who accepted them."""
        load, notes = f"{dataset.name}: load {receipt['id']}", (receipt["notes"] or {}).get("accepted", {})
        claims = dict(_claims(receipt, "accepted"))
        for day, claim in claims.items():
            if day and not receipt["window_start"] <= day < receipt["window_end"]:
                continue  # of another part of the reading
            if day:
                was, now = (
                    (rows.total(), _amount(dataset, rows))
                    for rows in (read.rows_of_day(each, day) for each in (before, after))
                )
                said = claim == (now[0], now[1] - was[1])
                check(f"{load} is accepted for {claim} on {day}, and stores {now} after {was}", said)
            if notes["by"] == "an operator":
                was_held = any(_are_alike(claim, other) for other in self._ever_said[dataset.name, day])
                check(f"{load} is accepted by no operator", self.accepted_by_operator and was_held)
            else:
                readings = self._readings(dataset, receipt, day, claim, breaks=False)
                check(f"{load} is accepted: {readings} readings say the same of {day}", readings >= 3)
        return set(claims)

    def _judge_settled(
        self, dataset: Dataset, receipt: Receipt, before: Counter[Stored], after: Counter[Stored], accepted: set[str]
    ) -> None:
        """Check that most rows of a settled day are replaced only where the reading was accepted."""
        for day in self._facts.settled_days(dataset, receipt) - accepted if dataset.is_dated else ():
            was, now = (read.rows_of_day(each, day) for each in (before, after))
            differ = max((was - now).total(), (now - was).total())
            is_plain = was.total() < _FEWEST_SETTLED or differ < _FEWEST_SETTLED or 2 * differ <= was.total()
            message = f"load {receipt['id']} replaces {differ} of {was.total()} rows of {day}, which settled"
            check(f"{dataset.name}: {message}", is_plain)

    def _readings(self, dataset: Dataset, receipt: Receipt, day: str, claim: _Claim, *, breaks: bool = True) -> int:
        """Return how many readings of a day say the same, each 20 hours after the one before.

        Args:
            breaks: Whether one that says something else ends the count.
        """
        last, readings = datetime.fromisoformat(receipt["started_at"]), 1
        for moment, other in reversed(self._said[dataset.name, day]):
            if not _are_alike(claim, other):
                if breaks:
                    break
            elif last - moment >= _APART:
                last, readings = moment, readings + 1
        return readings


def _claims(receipt: Receipt, note: str) -> list[tuple[str, _Claim]]:
    claims: Mapping[str, tuple[int, str, str]] = (receipt["notes"] or {}).get(note, {}).get("claim", {})
    return [(day, (rows, Decimal(amount))) for day, (rows, amount, _) in claims.items()]


def _amount(dataset: Dataset, rows: Rows) -> Decimal:
    first = dataset.money[0].name if dataset.money else ""
    return read.sums_of(dataset, rows).get(first, Decimal())


def _are_alike(claim: _Claim, other: _Claim) -> bool:
    rows, amounts = (claim[0], other[0]), (claim[1], other[1])
    is_same_amount = abs(amounts[0] - amounts[1]) <= max(map(abs, amounts)) / 20
    return abs(rows[0] - rows[1]) <= max(1, max(rows) / 20) and is_same_amount and (0 in rows) == (rows == (0, 0))
