"""Judges a world after each commit: what the tables hold, against what the upstream has listed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from random import Random
from typing import Any

from seller_platform.contract import Dataset, Window
from seller_platform_tests.simulation import tables as read
from seller_platform_tests.simulation.facts import Facts, Violation, check, window_of
from seller_platform_tests.simulation.holds import Holds
from seller_platform_tests.simulation.planning import Days
from seller_platform_tests.simulation.tables import Receipt, Rows, Stored, Tables
from seller_platform_tests.simulation.upstream import Group, UpstreamModel, grouped

_FEW_ROWS = 5  # of recent days, which may lose their amounts


class Model:
    """What the product has promised so far."""

    def __init__(self, upstream: UpstreamModel, per_day: int | None = None) -> None:
        self._upstream, self._per_day = upstream, per_day
        self._datasets = {each.name: each for each in upstream.datasets}
        self._last = Tables()
        self._ever: dict[int, Receipt] = {}
        self._facts = Facts(upstream)
        self.holds = Holds(self._facts)
        self._floors: dict[tuple[str, Group], int] = {}
        self._requested: dict[str, str] = {}
        self._jobs: set[int] = set()  # also those that were pruned
        self._before: dict[int, Rows] = {}
        self._steps: list[read.Step] = []
        self._states: dict[str, list[Counter[Stored]]] = {name: [Counter()] for name in self._datasets}
        self.told: set[int] = set()
        self.believed_claims = self.reverted = self.is_pruned = False

    def observe(self, tables: Tables) -> None:
        """Judge what a commit has changed, or raise a violation."""
        new = [tables.receipts[number] for number in sorted(tables.receipts.keys() - self._last.receipts.keys())]
        prunable = read.replaced(self._last.receipts) if self.is_pruned else set()
        check("a receipt is lost", self._last.receipts.keys() - tables.receipts.keys() <= prunable)
        self._judge_jobs(tables)
        for name, rows in tables.rows.items():
            self._judge_change(name, rows, tables, [each for each in new if each["dataset"] == name])
        self._last = tables
        self._ever |= tables.receipts
        self._facts.remember(tables.receipts, self._upstream.clock.now(), is_pruned=self.is_pruned)

    def _judge_change(self, name: str, rows: Counter[Stored], tables: Tables, new: list[Receipt]) -> None:
        before, former = self._last.rows.get(name, Counter()), self._last.former.get(name, Counter())
        left, came = before - rows, rows - before
        lost, buried = former - tables.former[name], tables.former[name] - former
        moved = f"{name}: {read.some(left)} left the table; history: +{read.some(buried)} -{read.some(lost)}"
        check(moved, not lost and left == buried)
        publishing = [each for each in new if each["verdict"] != "held"]
        gone = tables.gone[name] - self._last.gone.get(name, Counter())
        check(f"{name}: rows are gone with {gone}", gone.keys() <= {each["id"] for each in publishing} | {None})
        if publishing and name in self._states:
            self._states[name].append(rows)
        if new and name in self._datasets:
            honest = not self._upstream.claims.get(name)
            self.holds.judge(self._datasets[name], new, before, rows, is_honest=honest, is_pruned=self.is_pruned)
        others = left + came
        for receipt in publishing:
            first, end = receipt["window_start"], receipt["window_end"]
            came_inside, left_inside = (read.changed_inside(each, first, end) for each in (came, left))
            self._steps.append((name, receipt["finished_at"], came_inside, left_inside))
            others = Counter({row: count for row, count in others.items() if not first <= row[0] < end})
            if name == "report_rows":
                self._judge_report(receipt, rows, left + came)
                continue
            windows = [window_of(each) for each in new]
            whole = Window(min(each.start for each in windows), max(each.end for each in windows))
            self._facts.judge(self._datasets[name], receipt, whole, before, rows)
            inside = read.rows_inside(rows, first, end)
            self._judge_reading(self._datasets[name], receipt, before, inside, is_whole=len(new) == 1)
        check(f"{name}: {read.some(others)} changed, and {len(publishing)} receipts are of other days", not others)

    def _judge_reading(
        self, dataset: Dataset, receipt: Receipt, all_before: Counter[Stored], rows: Rows, *, is_whole: bool
    ) -> None:
        name, first, load = dataset.name, receipt["window_start"], f"{dataset.name}: load {receipt['id']}"
        before = read.rows_inside(all_before, first, receipt["window_end"])
        self._before[receipt["id"]] = before
        if reverted := (receipt["notes"] or {}).get("reverts_load"):
            self.reverted = True
            self.judge_reader(f"{load} reverts load {reverted}", rows, self._before[reverted])
            self._floors = {key: floor for key, floor in self._floors.items() if key[0] != name}
            return
        counts = {receipt["rows"], receipt["announced"] if receipt["verdict"] == "match" else receipt["rows"]}
        check(f"{load} says {counts} rows and stores {rows.total()}", counts == {rows.total()})
        groups = read.groups_of(dataset, self._upstream.channels, first, receipt["window_end"])
        found = [self._judge_group(dataset, receipt, group, read.rows_of_group(rows, group)) for group in groups]
        is_of_one_moment = receipt["pages"] == 1 and all(found) and not self._upstream.claims.get(name)
        check(f"{load} is one answer of no one moment", not is_of_one_moment or set.intersection(*found))
        had, has = (read.count_of_amounts(dataset, each) for each in (before, rows))
        loses_amounts = rows and had > before.total() / 2 and not has and before.total() > _FEW_ROWS
        if not dataset.is_dated and not before:
            days = [*read.accepted_days(self._last.receipts, name), *(day for day, _, _ in all_before)]
            before = read.rows_inside(all_before, max((day for day in days if day <= first), default="9"), "9")
        readings = [
            each["verdict"]
            for each in self._last.receipts.values()
            if each["dataset"] == name and each["verdict"] != "held"
            if not dataset.is_dated or (each["window_start"] < receipt["window_end"] and each["window_end"] > first)
        ]
        if {*readings} == {"mismatch"}:
            return  # what contradicted itself is no yardstick
        outside = (text for day, text, _ in all_before if not first <= day < receipt["window_end"])
        elsewhere = {*outside} if dataset.is_dated else set[str]()
        left = any(text not in elsewhere for _, text in before)  # what came under another day before may go
        # A list without days may lose half of its rows, and two of any.
        least = 1 if dataset.is_dated else max(1, min(before.total() / 2, before.total() - 2))
        if is_whole and (loses_amounts or (left and rows.total() < least)):
            check(f"{load} loses rows or amounts, and nobody accepted it", "accepted" in (receipt["notes"] or {}))

    def _judge_group(self, dataset: Dataset, receipt: Receipt, group: Group, rows: Counter[str]) -> set[int]:
        began = self._upstream.number_at(dataset.name, datetime.fromisoformat(receipt["started_at"]))
        floor = max(began, self._floors.get((dataset.name, group), 0))
        numbers = range(floor, len(self._upstream.versions[dataset.name]))
        if found := {each for each in numbers if self._upstream.version(dataset, each).get(group, Counter()) == rows}:
            self._floors[dataset.name, group] = min(found)
            return found
        claims = self._upstream.claims.get(dataset.name, ())
        if any(grouped(dataset, claim).get(group, Counter()) == rows for claim in claims):
            self.believed_claims = True
            return set()
        raise Violation(f"{dataset.name}: load {receipt['id']} stores rows of {group} never listed: {read.some(rows)}")

    def _judge_report(self, receipt: Receipt, rows: Counter[Stored], changed: Counter[Stored]) -> None:
        number, day, load = receipt["notes"]["report_id"], receipt["window_start"], f"load {receipt['id']} of report"
        report = next(each for each in self._upstream.reports.asked if each.number == number)
        requested_at = datetime.fromisoformat(self._requested[number]).astimezone(self._upstream.zone)
        stored = Counter(text for _, text, _ in rows.elements() if text.startswith(f"{number}|"))
        self.judge_reader(f"{load} {number}", stored, read.report_texts(report))
        if others := [text for _, text, _ in changed if not text.startswith(f"{number}|")]:
            raise Violation(f"{load} {number} changes rows of others: {others[0]}")
        check(f"{load} {number} is of {day}, and was requested at {requested_at}", str(requested_at.date()) == day)

    def _judge_jobs(self, tables: Tables) -> None:
        for number, job in tables.jobs.items():
            self._requested.setdefault(job["report_id"], job["requested_at"])
            before = self._last.jobs.get(number, job)
            ends = [(each["state"], each["load_id"]) for each in (before, job)]
            is_open = before["state"] in {"requested", "pending", "ready"}
            check(f"job {number} was {ends[0]}, and is {ends[1]}", is_open or ends[0] == ends[1])
            notes = tables.receipts.get(job["load_id"], {"notes": {}})["notes"]
            is_its_load = job["state"] != "loaded" or notes.get("report_id") == job["report_id"]
            check(f"job {number} is loaded, and load {job['load_id']} did not load its report", is_its_load)
        self._jobs |= set(tables.jobs)
        requested = len(self._upstream.reports.asked)
        check(f"{requested} reports were requested by {len(self._jobs)} jobs", requested <= len(self._jobs))

    def tell(self, load: int) -> None:
        """Remember that a held reading was reported, of which several runs of days may be held."""
        told, names = self._last.receipts[load], ("dataset", "run_id", "started_at", "verdict")
        check(f"load {load} is reported as held, and is not", told["verdict"] == "held")
        receipts = self._last.receipts.items()
        self.told |= {each for each, receipt in receipts if all(receipt[name] == told[name] for name in names)}

    def judge_holds(self, listed: list[int]) -> None:
        """Check the listed holds."""
        held = self._open("held")
        check(f"the readings {held} are held, and {listed} are listed", sorted(held) == sorted(listed))

    def _open(self, verdict: str) -> list[int]:
        """Return the readings with a verdict of whose days later ones do not have all.

        Those that are held end with later ones that are held, too, those of a list without days with any.
        """
        receipts = self._last.receipts
        numbers = []
        for number, receipt in receipts.items():
            later = [
                each
                for each in receipts.values()
                if (each["id"] > number and each["dataset"] == receipt["dataset"])
                and (verdict == "held" or each["verdict"] != "held")
            ]
            days = {day for each in later for day in window_of(each).each_day()}
            is_dated = receipt["dataset"] in self._datasets and self._datasets[receipt["dataset"]].is_dated
            is_over = days >= set(window_of(receipt).each_day()) if is_dated else bool(later)
            numbers += [number] * (receipt["verdict"] == verdict and not is_over)
        return numbers

    def days_of(self, dataset: Dataset, since: date, now: datetime) -> Days:
        """Return the days of a list that are due at a moment, and those that are not."""
        doubtful = [*self._open("held"), *self._open("mismatch")]
        return Days.of(dataset, self._ever.values(), doubtful, since, now, self._upstream.zone)

    def judge_problems(self, named: Counter[tuple[str, int]]) -> None:
        """Check the readings that `platform.problems` names: of each slice the newest that is held, and mismatched."""
        receipts, newest = self._last.receipts, dict[object, tuple[str, int]]()
        for kind, numbers in (("held", self._open("held")), ("mismatched", self._open("mismatch"))):
            for number in sorted(numbers):
                name, month = receipts[number]["dataset"], receipts[number]["window_start"][:7]
                is_dated = name in self._datasets and self._datasets[name].is_dated
                newest[kind, name, month if is_dated else None] = (kind, number)
        self.judge_reader("platform.problems", named, Counter(newest.values()))

    def former_rows(self, random: Random) -> tuple[str, str, Rows] | None:
        """Return a dataset, a former moment, and the rows that were stored then; None if nothing was stored yet."""
        if not self._steps:
            return None
        name, moment, _, _ = random.choice(self._steps)
        return name, moment, read.rows_then(self._steps, name, moment)

    def first_load(self) -> int | None:
        """Return the first load that has a receipt; None if there is none, or if former ones may be deleted."""
        return None if self.is_pruned else min(self._last.receipts, default=None)

    def revertible_loads(self) -> list[int]:
        """Return the published loads of lists that changed rows of days which were loaded before."""
        published = [each for each in self._last.receipts.values() if each["verdict"] != "held"]
        return [
            later["id"]
            for later in published
            if later["changed"]
            and later["dataset"] in self._datasets
            and any(
                each["id"] < later["id"]
                and each["dataset"] == later["dataset"]
                and each["window_start"] < later["window_end"]
                and each["window_end"] > later["window_start"]
                for each in published
            )
        ]

    def states_of(self, name: str) -> int:
        """Return how many states of a dataset were published, the empty one included."""
        return len(self._states[name])

    def window_read(self, name: str) -> Window | None:
        """Return the days of the newest published reading of a dataset."""
        read_days = [each for each in self._last.receipts.values() if each["dataset"] == name]
        newest = next((each for each in reversed(read_days) if each["verdict"] != "held"), None)
        if newest is None:
            return None
        return Window(date.fromisoformat(newest["window_start"]), date.fromisoformat(newest["window_end"]))

    def judge_walk(
        self, dataset: Dataset, rows: Sequence[Mapping[str, Any]], total: int, window: Window, states: range
    ) -> None:
        """Check that the pages of a walk are those of one state that was published while its first page was read."""
        seen = Counter(read.answered_text(dataset, row) for row in rows)
        check(f"{dataset.name}: {total} rows are announced, and {len(rows)} on the pages", total == len(rows))
        published = [read.served_rows(dataset, self._states[dataset.name][number], window) for number in states]
        if seen not in published:
            self.judge_reader(f"a walk over {dataset.name}", seen, published[-1])

    def judge_reader(self, name: str, seen: Counter[Any], expected: Counter[Any]) -> None:
        """Check what a reader saw in one transaction."""
        if seen != expected:
            raise Violation(f"{name}: {read.some(expected - seen)} is missing, {read.some(seen - expected)} too much")

    def judge_accepted(self, asked: int, load: int) -> None:
        """Check that a reading which an operator accepted says what the held one said, and is of its slice."""
        held, receipt = self._last.receipts[asked], self._last.receipts[load]
        is_of_slice = held["dataset"] == receipt["dataset"] and held["window_start"] < receipt["window_end"]
        check(f"load {asked} was accepted, and load {load} is of another slice", is_of_slice)

    def judge_end(self, run_id: str) -> None:
        """Check that a run which has ended told of each reading that it held."""
        receipts = [each for each in self._last.receipts.values() if each["run_id"] == run_id]
        held = {each["id"] for each in receipts if each["verdict"] == "held"}
        check(f"of {held}, which were held, {run_id} reported only {held & self.told}", held <= self.told)

    def judge_requests(self) -> None:
        """Check that no refresh token was sent whose successor had arrived, and no more requests a day than allowed."""
        check("a superseded refresh token was sent", not self._upstream.tokens.superseded_sent)
        most = max(self._upstream.requests.values(), default=0)
        check(f"of {self._per_day} requests a day, {most} were sent", self._per_day is None or most <= self._per_day)

    def judge_counted(self, counted: Mapping[date, int]) -> None:
        """Check that each request was counted once, on days without requests around midnight, when none is reserved."""
        sent = Counter(moment.date() for moment in self._upstream.sent)
        for day, requests in counted.items():
            ends = [datetime.combine(day + timedelta(days=after), time(), UTC) for after in (0, 1)]
            is_clear = all(abs(moment - end) > timedelta(minutes=2) for end in ends for moment in self._upstream.sent)
            check(f"{requests} requests of {day} are counted, not {sent[day]}", not is_clear or requests == sent[day])

    def judge_refusal(self, family: int) -> None:
        """Check that a user is asked to connect again only after the upstream refused the grant."""
        tokens = self._upstream.tokens
        is_explained = not tokens.is_kept or tokens.is_refused or tokens.family != family
        check("a grant is said to be refused, and the upstream refused nothing", is_explained)

    def judge_quiet(self) -> None:
        """Check that each list is stored as the upstream has it, and each loaded report once."""
        loaded = {job["report_id"] for job in self._last.jobs.values() if job["state"] == "loaded"}
        # A load may be stored whose report was gone before its job was changed.
        stored = [text for _, text, _ in self._last.rows["report_rows"].elements() if text.partition("|")[0] in loaded]
        reports = [each for each in self._upstream.reports.asked if each.number in loaded]
        self.judge_reader("reports", Counter(stored), sum(map(read.report_texts, reports), start=Counter()))
        for name, dataset in self._datasets.items():
            newest = None if dataset.is_dated else str(self._upstream.today)
            stored = [text for day, text, _ in self._last.rows[name].elements() if newest in {None, day}]
            self.judge_reader(name, Counter(stored), Counter(row.text(dataset) for row in self._upstream.rows(name)))
