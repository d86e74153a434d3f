"""Judges a world after each commit: what the tables hold, against what the upstream has listed."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from seller_platform.contract import Dataset
from seller_platform_tests.simulation.upstream import Report, Row, UpstreamModel

Stored = tuple[str, str, int]
"""A row: its day, its values as text, and its load."""
Group = tuple[str, str]
"""The rows that one answer of the upstream holds: of a day, and of a sales channel where the list has one."""


class Violation(Exception):  # noqa: N818  # it is a verdict
    """A promise of the product that a run has broken."""


@dataclass
class Tables:
    """The rows of all judged tables, and the receipts by number.

    Attributes:
        rows: The rows by dataset.
        former: The rows in schema `history`, by dataset.
    """

    rows: dict[str, Counter[Stored]] = field(default_factory=dict)
    former: dict[str, Counter[Stored]] = field(default_factory=dict)
    receipts: dict[int, Mapping[str, Any]] = field(default_factory=dict)


class Model:
    """What the product has promised so far."""

    def __init__(self, upstream: UpstreamModel) -> None:
        self._upstream = upstream
        self._last = Tables()
        self._floors: dict[tuple[str, Group], int] = {}
        self._before: dict[int, Counter[tuple[str, str]]] = {}
        self._grouped: dict[tuple[str, int], Mapping[Group, Counter[str]]] = {}
        self._steps: list[tuple[str, str, Counter[Stored], Counter[Stored]]] = []
        self.told: set[int] = set()
        self.accepted_by_operator = False
        self.believed_claims = self.reverted = False

    @property
    def receipts(self) -> Mapping[int, Mapping[str, Any]]:
        return self._last.receipts

    def observe(self, tables: Tables) -> None:
        """Judge what a commit has changed.

        Raises:
            Violation: A row was lost, two readings are mixed, or something was published that must not be.
        """
        new = [tables.receipts[number] for number in sorted(tables.receipts.keys() - self._last.receipts.keys())]
        if gone := self._last.receipts.keys() - tables.receipts.keys():
            raise Violation(f"the receipts {sorted(gone)} are lost")
        for name, rows in tables.rows.items():
            self._judge_change(name, rows, tables, [each for each in new if each["dataset"] == name])
        self._last = tables

    def _judge_change(self, name: str, rows: Counter[Stored], tables: Tables, new: list[Mapping[str, Any]]) -> None:
        before = self._last.rows.get(name, Counter())
        left, came = before - rows, rows - before
        buried = tables.former[name] - self._last.former.get(name, Counter())
        if lost := self._last.former.get(name, Counter()) - tables.former[name]:
            raise Violation(f"{name}: rows are gone from history: {_some(lost)}")
        if left != buried:
            raise Violation(f"{name}: {_some(left)} left the table, and {_some(buried)} came into history")
        publishing = [each for each in new if each["verdict"] != "held"]
        self._steps += [(name, each["finished_at"], came, left) for each in publishing[:1]]
        if (left or came) and len(publishing) != 1:
            raise Violation(f"{name}: rows changed with {len(publishing)} receipts: {_some(left)}, {_some(came)}")
        for receipt in publishing:
            window = (receipt["window_start"], receipt["window_end"])
            if outside := [row for row in (*left, *came) if not window[0] <= row[0] < window[1]]:
                raise Violation(f"{name}: load {receipt['id']} of {window} changed other days: {outside[0]}")
            if name == "report_rows":
                self._judge_report(receipt, rows)
            else:
                self._judge_reading(name, receipt, _inside(before, window), _inside(rows, window), before)

    def _judge_reading(
        self,
        name: str,
        receipt: Mapping[str, Any],
        before: Counter[tuple[str, str]],
        rows: Counter[tuple[str, str]],
        all_before: Counter[Stored],
    ) -> None:
        notes = receipt["notes"] or {}
        load = f"{name}: load {receipt['id']}"
        if "reverts_load" in notes:
            self.reverted = True
            if rows != (wanted := self._before[notes["reverts_load"]]):
                raise Violation(f"{load} reverts to other rows: {_some(rows - wanted)}, {_some(wanted - rows)}")
            self._floors = {key: floor for key, floor in self._floors.items() if key[0] != name}
            return
        self._before[receipt["id"]] = before
        self._judge_amounts(name, receipt, before, rows)
        if sum(rows.values()) != receipt["rows"]:
            raise Violation(f"{load} says {receipt['rows']} rows and stores {sum(rows.values())}")
        dataset = next(each for each in self._upstream.datasets if each.name == name)
        for group in self._groups(dataset, receipt):
            of_group = Counter({text: count for (day, text), count in rows.items() if _is_of(group, day, text)})
            self._judge_group(dataset, receipt, group, of_group)
        fewest = 1
        if not dataset.is_dated:
            if not before:
                days = [day for day, _, _ in all_before if day < receipt["window_start"]]
                before = _inside(all_before, (max(days), "9999")) if days else Counter()
            fewest = -(-sum(before.values()) // 2)
        if before and sum(rows.values()) < fewest:
            self._judge_acceptance(load, notes, receipt)

    def _groups(self, dataset: Dataset, receipt: Mapping[str, Any]) -> list[Group]:
        if not dataset.is_dated:
            return [(receipt["window_start"], "")]
        first, end = (date.fromisoformat(receipt[each]) for each in ("window_start", "window_end"))
        days = [str(first + timedelta(days=number)) for number in range((end - first).days)]
        return [
            (day, part)
            for day in days
            for part in (dataset.split_by.values if dataset.tags and dataset.split_by else ("",))
        ]

    def _judge_group(self, dataset: Dataset, receipt: Mapping[str, Any], group: Group, rows: Counter[str]) -> None:
        """Check that the rows of a day are those that the upstream listed at one moment, and at no earlier one."""
        floor_of = (dataset.name, group if dataset.is_dated else ("", ""))
        floor, listed = self._floors.get(floor_of, 0), group if dataset.is_dated else ("", "")
        versions = self._upstream.versions[dataset.name]
        for number in range(floor, len(versions)):
            if self._version(dataset, number).get(listed, Counter()) == rows:
                self._floors[floor_of] = number
                return
        claims = self._upstream.claims.get(dataset.name, ())
        may_differ = receipt["verdict"] == "mismatch"
        if any(grouped(dataset, claim).get(listed, Counter()) == rows for claim, fits in claims if fits or may_differ):
            self.believed_claims = True
            return
        raise Violation(
            f"{dataset.name}: load {receipt['id']} stores rows of {group} that the upstream never listed since its "
            f"version {floor}: {_some(rows)}"
        )

    def _version(self, dataset: Dataset, number: int) -> Mapping[Group, Counter[str]]:
        key = (dataset.name, number)
        if key not in self._grouped:
            self._grouped[key] = grouped(dataset, self._upstream.versions[dataset.name][number])
        return self._grouped[key]

    def _judge_acceptance(self, load: str, notes: Mapping[str, Any], receipt: Mapping[str, Any]) -> None:
        by = notes.get("accepted", {}).get("by")
        if by is None:
            raise Violation(f"{load} publishes a reading that lost its rows")
        if by == "an operator":
            if not self.accepted_by_operator:
                raise Violation(f"{load} is accepted by an operator, and none accepted anything")
            return
        held = [
            datetime.fromisoformat(each["started_at"])
            for each in self._last.receipts.values()
            if each["dataset"] == receipt["dataset"] and each["verdict"] == "held"
        ]
        now = datetime.fromisoformat(receipt["started_at"])
        if len(held) < 2 or now - min(held) < timedelta(hours=40):
            raise Violation(f"{load} is accepted by {by}, of which there were {len(held)} in 40 hours")

    def _judge_report(self, receipt: Mapping[str, Any], rows: Counter[Stored]) -> None:
        number = receipt["notes"]["report_id"]
        report = next(each for each in self._upstream.reports if each.number == number)
        stored = Counter(text for _, text, _ in rows.elements() if text.startswith(f"{number}|"))
        if stored != report_texts(report):
            raise Violation(f"report {number}: load {receipt['id']} stores other rows: {_some(stored)}")

    def tell(self, load: int) -> None:
        """Remember that a held reading was reported."""
        if self._last.receipts[load]["verdict"] != "held":
            raise Violation(f"load {load} is reported as held, and its receipt says otherwise")
        self.told.add(load)

    def _judge_amounts(
        self, name: str, receipt: Mapping[str, Any], before: Counter[tuple[str, str]], rows: Counter[tuple[str, str]]
    ) -> None:
        """Check that amounts or totals which were there before are not lost without an acceptance."""
        dataset = next(each for each in self._upstream.datasets if each.name == name)
        money = [number for number, column in enumerate(dataset.columns) if column in dataset.money]
        had, has = (
            any(text.split("|")[number] not in "~0" for _, text in each for number in money) for each in (before, rows)
        )
        if rows and had and not has:
            self._judge_acceptance(f"{name}: load {receipt['id']}", receipt["notes"] or {}, receipt)

    def judge_holds(self, listed: list[int]) -> None:
        """Check which readings the product lists as held."""
        held = []
        for number, receipt in self._last.receipts.items():
            later = [
                each
                for other, each in self._last.receipts.items()
                if other > number
                and each["dataset"] == receipt["dataset"]
                and (
                    receipt["dataset"] == "inventory"
                    or (each["window_start"] <= receipt["window_start"] and each["window_end"] >= receipt["window_end"])
                )
            ]
            if receipt["verdict"] == "held" and not later:
                held.append(number)
        if sorted(held) != sorted(listed):
            raise Violation(f"the readings {held} are held, and {listed} are listed")

    def judge_moments(self, random: Random, rows_as_of: Callable[[str, str], Counter[tuple[str, str]]]) -> None:
        """Check what the database says about former moments, by a few of them."""
        for name, moment, _, _ in random.sample(self._steps, min(2, len(self._steps))):
            expected: Counter[tuple[str, str]] = Counter()
            for other, at, came, left in self._steps:
                if other == name and at <= moment:
                    expected.update((day, text) for day, text, _ in came.elements())
                    expected.subtract((day, text) for day, text, _ in left.elements())
            if rows_as_of(name, moment) != +expected:
                raise Violation(f"{name}: the rows as of {moment} are not those that were stored then")

    def judge_end(self, run_id: str) -> None:
        """Check that a run which has ended told of each reading that it held."""
        for number, receipt in self._last.receipts.items():
            if receipt["run_id"] == run_id and receipt["verdict"] == "held" and number not in self.told:
                raise Violation(f"load {number} was held, and {run_id} ended without telling it")

    def judge_tokens(self) -> None:
        """Check that no refresh token was sent whose successor had arrived."""
        if self._upstream.tokens.superseded_sent:
            raise Violation("a superseded refresh token was sent")

    def judge_quiet(self) -> None:
        """Check that each list is stored as the upstream has it."""
        for dataset in self._upstream.datasets:
            rows = self._last.rows[dataset.name]
            if not dataset.is_dated:
                newest = str(self._upstream.today)
                stored = Counter(text for day, text, _ in rows.elements() if day == newest)
            else:
                stored = Counter(text for _, text, _ in rows.elements())
            listed = Counter(row.text(dataset) for row in self._upstream.rows(dataset.name))
            if stored != listed:
                raise Violation(
                    f"{dataset.name}: at quiet {_some(listed - stored)} is missing and {_some(stored - listed)} is "
                    "stored although the upstream does not list it"
                )


def grouped(dataset: Dataset, rows: tuple[Row, ...]) -> Mapping[Group, Counter[str]]:
    """Return the rows of a list by day and sales channel."""
    groups: dict[Group, Counter[str]] = {}
    for row in rows:
        group = (str(row.day), row.part or "") if dataset.is_dated else ("", "")
        groups.setdefault(group, Counter())[row.text(dataset)] += 1
    return groups


def report_texts(report: Report) -> Counter[str]:
    """Return the rows of a report as they are stored."""
    return Counter(
        f"{report.number}|{position}|{row['sku']}|~|{row['units_ordered']}|~"
        for position, row in enumerate(report.rows, start=1)
    )


def _inside(rows: Counter[Stored], window: tuple[str, str]) -> Counter[tuple[str, str]]:
    inside: Counter[tuple[str, str]] = Counter()
    for (day, text, _), count in rows.items():
        if window[0] <= day < window[1]:
            inside[day, text] += count
    return inside


def _is_of(group: Group, day: str, text: str) -> bool:
    return day == group[0] and (not group[1] or text.endswith(f"|{group[1]}"))


def _some(rows: Counter[Any]) -> str:
    return str(sorted(map(str, rows.elements()))[:3])
