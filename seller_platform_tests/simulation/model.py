"""Judges a world after each commit: what the tables hold, against what the upstream has listed."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from seller_platform.contract import Dataset
from seller_platform_tests.simulation import tables as read
from seller_platform_tests.simulation.tables import Receipt, Rows, Stored, Tables
from seller_platform_tests.simulation.upstream import Group, UpstreamModel, grouped


class Violation(Exception):  # noqa: N818  # it is a verdict
    """A promise of the product that a run has broken."""


class Model:
    """What the product has promised so far."""

    def __init__(self, upstream: UpstreamModel) -> None:
        self._upstream, self._datasets = upstream, {each.name: each for each in upstream.datasets}
        self._last = Tables()
        self._floors: dict[tuple[str, Group], int] = {}
        self._requested: dict[str, str] = {}
        self._before: dict[int, Rows] = {}
        self._steps: list[tuple[str, str, Counter[Stored], Counter[Stored]]] = []
        self.told: set[int] = set()
        self.accepted_by_operator = self.believed_claims = self.reverted = False

    def observe(self, tables: Tables) -> None:
        """Judge what a commit has changed.

        Raises:
            Violation: A row was lost, two readings are mixed, or something was published that must not be.
        """
        new = [tables.receipts[number] for number in sorted(tables.receipts.keys() - self._last.receipts.keys())]
        if gone := self._last.receipts.keys() - tables.receipts.keys():
            raise Violation(f"the receipts {sorted(gone)} are lost")
        self._judge_jobs(tables)
        for name, rows in tables.rows.items():
            self._judge_change(name, rows, tables, [each for each in new if each["dataset"] == name])
        self._last = tables

    def _judge_change(self, name: str, rows: Counter[Stored], tables: Tables, new: list[Receipt]) -> None:
        before, former = self._last.rows.get(name, Counter()), self._last.former.get(name, Counter())
        left, came = before - rows, rows - before
        lost, buried = former - tables.former[name], tables.former[name] - former
        if lost or left != buried:
            raise Violation(
                f"{name}: {read.some(left)} left the table; history: +{read.some(buried)} -{read.some(lost)}"
            )
        publishing = [each for each in new if each["verdict"] != "held"]
        self._steps += [(name, each["finished_at"], came, left) for each in publishing[:1]]
        if (left or came) and len(publishing) != 1:
            raise Violation(
                f"{name}: rows changed with {len(publishing)} receipts: {read.some(left)}, {read.some(came)}"
            )
        for receipt in publishing:
            first, end = receipt["window_start"], receipt["window_end"]
            if outside := [row for row in (*left, *came) if not first <= row[0] < end]:
                raise Violation(f"{name}: load {receipt['id']} until {end} changed other days: {outside[0]}")
            if name == "report_rows":
                self._judge_report(receipt, rows, left + came)
            else:
                self._judge_reading(self._datasets[name], receipt, before, read.rows_inside(rows, first, end))

    def _judge_reading(self, dataset: Dataset, receipt: Receipt, all_before: Counter[Stored], rows: Rows) -> None:
        name, first, load = dataset.name, receipt["window_start"], f"{dataset.name}: load {receipt['id']}"
        before = read.rows_inside(all_before, first, receipt["window_end"])
        if reverted := (receipt["notes"] or {}).get("reverts_load"):
            self.reverted = True
            if rows != (wanted := self._before[reverted]):
                raise Violation(f"{load} reverts to other rows: {read.some(rows - wanted)}, {read.some(wanted - rows)}")
            self._floors = {key: floor for key, floor in self._floors.items() if key[0] != name}
            return
        self._before[receipt["id"]] = before
        if rows.total() != receipt["rows"]:
            raise Violation(f"{load} says {receipt['rows']} rows and stores {rows.total()}")
        for group in read.groups_of(dataset, first, receipt["window_end"]):
            self._judge_group(dataset, receipt, group, read.rows_of_group(rows, group))
        if rows and read.has_amounts(dataset, before) and not read.has_amounts(dataset, rows):
            self._judge_acceptance(load, receipt)
        if not dataset.is_dated and not before:
            newest = max((day for day, _, _ in all_before if day < first), default="9")
            before = read.rows_inside(all_before, newest, "9")
        if before and rows.total() < (1 if dataset.is_dated else before.total() / 2):
            self._judge_acceptance(load, receipt)

    def _judge_group(self, dataset: Dataset, receipt: Receipt, group: Group, rows: Counter[str]) -> None:
        """Check that the rows of a day are those that the upstream listed at one moment, and at no earlier one."""
        floor = self._floors.get((dataset.name, group), 0)
        for number in range(floor, len(self._upstream.versions[dataset.name])):
            if self._upstream.version(dataset, number).get(group, Counter()) == rows:
                self._floors[dataset.name, group] = number
                return
        claims = self._upstream.claims.get(dataset.name, ())
        may_differ = receipt["verdict"] == "mismatch"
        if any(grouped(dataset, claim).get(group, Counter()) == rows for claim, fits in claims if fits or may_differ):
            self.believed_claims = True
            return
        raise Violation(f"{dataset.name}: load {receipt['id']} stores rows of {group} never listed: {read.some(rows)}")

    def _judge_acceptance(self, load: str, receipt: Receipt) -> None:
        """Check that a reading which lost its rows or amounts is accepted by an operator, or by three readings."""
        by = (receipt["notes"] or {}).get("accepted", {}).get("by", "nobody")
        receipts = [each for each in self._last.receipts.values() if each["dataset"] == receipt["dataset"]]
        held = [datetime.fromisoformat(each["started_at"]) for each in receipts if each["verdict"] == "held"]
        are_enough = len(held) > 1 and datetime.fromisoformat(receipt["started_at"]) - min(held) >= timedelta(hours=40)
        if by == "nobody" or not (self.accepted_by_operator if by == "an operator" else are_enough):
            raise Violation(f"{load} loses rows or amounts, accepted by {by}; {len(held)} were held before")

    def _judge_report(self, receipt: Receipt, rows: Counter[Stored], changed: Counter[Stored]) -> None:
        number, load = receipt["notes"]["report_id"], f"report_rows: load {receipt['id']}"
        report = next(each for each in self._upstream.reports if each.number == number)
        requested_at = datetime.fromisoformat(self._requested[number]).astimezone(self._upstream.zone)
        stored = Counter(text for _, text, _ in rows.elements() if text.startswith(f"{number}|"))
        if stored != read.report_texts(report):
            raise Violation(f"{load} of report {number} stores other rows: {read.some(stored)}")
        if others := [text for _, text, _ in changed if not text.startswith(f"{number}|")]:
            raise Violation(f"{load} of report {number} changes rows of others: {others[0]}")
        if str(requested_at.date()) != receipt["window_start"]:
            raise Violation(f"{load} is of {receipt['window_start']}, and its report was requested at {requested_at}")

    def _judge_jobs(self, tables: Tables) -> None:
        for number, job in tables.jobs.items():
            self._requested.setdefault(job["report_id"], job["requested_at"])
            before = self._last.jobs.get(number, job)["state"]
            if before not in {"requested", "pending", "ready", job["state"]}:
                raise Violation(f"job {number} was {before}, and is {job['state']}")
            notes = tables.receipts.get(job["load_id"], {"notes": {}})["notes"]
            if job["state"] == "loaded" and notes.get("report_id") != job["report_id"]:
                raise Violation(f"job {number} is loaded, and load {job['load_id']} did not load its report")
        if len(self._upstream.reports) > (attempts := sum(job["attempt"] for job in tables.jobs.values())):
            raise Violation(f"{len(self._upstream.reports)} reports were requested in {attempts} attempts")

    def tell(self, load: int) -> None:
        """Remember that a held reading was reported."""
        if self._last.receipts[load]["verdict"] != "held":
            raise Violation(f"load {load} is reported as held, and its receipt says otherwise")
        self.told.add(load)

    def judge_holds(self, listed: list[int]) -> None:
        """Check which readings the product lists as held: those that no later load of all their days replaced."""
        receipts = self._last.receipts
        held = [number for number, receipt in receipts.items() if receipt["verdict"] == "held"]
        for number, later in receipts.items():
            held = [each for each in held if each >= number or not self._replaces(later, receipts[each])]
        if sorted(held) != sorted(listed):
            raise Violation(f"the readings {held} are held, and {listed} are listed")

    def _replaces(self, later: Receipt, receipt: Receipt) -> bool:
        days = (later["window_start"] <= receipt["window_start"], later["window_end"] >= receipt["window_end"])
        name = receipt["dataset"]
        return bool(later["dataset"] == name and (all(days) or not self._datasets[name].is_dated))

    def judge_moments(self, random: Random, rows_as_of: Callable[[str, str], Rows]) -> None:
        """Check what the database says about a few former moments."""
        for name, moment, _, _ in random.sample(self._steps, min(2, len(self._steps))):
            expected: Rows = Counter()
            for came, left in ((came, left) for other, at, came, left in self._steps if other == name and at <= moment):
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

    def judge_refusal(self) -> None:
        """Check that a user is asked to connect again only after the upstream refused the grant."""
        tokens = self._upstream.tokens
        if tokens.is_kept and not tokens.is_refused:
            raise Violation("a grant is said to be refused, and the upstream refused nothing")

    def judge_quiet(self) -> None:
        """Check that each list is stored as the upstream has it, and each loaded report once."""
        loaded = [job["report_id"] for job in self._last.jobs.values() if job["state"] == "loaded"]
        reports = [each for each in self._upstream.reports if each.number in loaded]
        self._compare("report_rows", Counter(text for each in reports for text in read.report_texts(each)), loaded)
        for name, dataset in self._datasets.items():
            self._compare(name, Counter(row.text(dataset) for row in self._upstream.rows(name)))

    def _compare(self, name: str, listed: Counter[str], reports: list[str] | None = None) -> None:
        newest = str(self._upstream.today) if name in self._datasets and not self._datasets[name].is_dated else None
        rows = Counter(text for day, text, _ in self._last.rows[name].elements() if newest in {None, day})
        if reports is not None:  # an attempt may be stored whose report was gone before its job was changed
            rows = Counter(text for text in rows.elements() if text.partition("|")[0] in reports)
        if rows != listed:
            raise Violation(
                f"{name}: at quiet {read.some(listed - rows)} is missing, {read.some(rows - listed)} is not listed"
            )
