"""Judges what receipts say beside their rows: sums, what changed, and which days had settled."""

from collections import Counter
from collections.abc import Mapping, Set
from datetime import date, datetime, timedelta
from decimal import Decimal

from seller_platform.contract import Dataset, Window
from seller_platform_tests.simulation import tables as read
from seller_platform_tests.simulation.tables import Receipt, Stored
from seller_platform_tests.simulation.upstream import UpstreamModel


class Violation(Exception):  # noqa: N818  # it is a verdict
    """A promise of the product that a run has broken."""


def check(broken: str, is_kept: object) -> None:
    """Raise a violation, unless a promise is kept."""
    if not is_kept:
        raise Violation(broken)


class Facts:
    """The receipts so far, and when each was committed."""

    def __init__(self, upstream: UpstreamModel) -> None:
        self._upstream = upstream
        self._receipts: Mapping[int, Receipt] = {}
        self._committed: dict[int, datetime] = {}
        self._is_pruned = False

    def remember(self, receipts: Mapping[int, Receipt], now: datetime, *, is_pruned: bool) -> None:
        """Remember receipts, of which the new ones are committed now."""
        self._receipts, self._is_pruned = receipts, is_pruned
        for number in receipts.keys() - self._committed.keys():
            self._committed[number] = now

    def judge(
        self, dataset: Dataset, receipt: Receipt, whole: Window, before: Counter[Stored], rows: Counter[Stored]
    ) -> None:
        """Judge the receipt of a published reading, or of a revert.

        Args:
            whole: The days of the whole reading, of which others may be held.
            before: All rows of the dataset before the load.
            rows: Those after it.
        """
        load, first, end = f"{dataset.name}: load {receipt['id']}", receipt["window_start"], receipt["window_end"]
        was, sums = (read.sums_of(dataset, read.rows_inside(each, first, end)) for each in (before, rows))
        if receipt["sums"] is not None:
            said = {name: Decimal(amount) for name, amount in receipt["sums"].items() if Decimal(amount)}
            check(f"{load} says that its rows add up to {said}, not {sums}", said == sums)
        if receipt["restatement"] is not None:
            names = [name for name in {*was, *sums} if was.get(name) != sums.get(name)]
            restated = {name: (was.get(name, 0), sums.get(name, 0)) for name in names}
            told = {name: (Decimal(e["before"]), Decimal(e["after"])) for name, e in receipt["restatement"].items()}
            check(f"{load} restates {told}, not {restated}", told == restated)
        came, left = (read.days_of(each, first, end) for each in (rows - before, before - rows))
        if receipt["changed_days"] is not None:
            counts = {day: (new, gone) for day, (new, gone, _) in receipt["changed_days"].items()}
            changed = {day: (came[day], left[day]) for day in {*came, *left}}
            check(f"{load} says that it changed {counts}, not {changed}", counts == changed)
        check(f"{load} changed rows, and does not say so", receipt["changed"] or not (came or left))
        is_revert = "reverts_load" in (receipt["notes"] or {})
        check(f"{load} belongs to no run", receipt["run_id"] or is_revert)
        if dataset.is_dated and not is_revert:
            self._judge_settled(load, dataset, receipt, whole)

    def settled_days(self, dataset: Dataset, receipt: Receipt) -> set[str]:
        """Return the days of a receipt that had certainly settled when its load began."""
        began = datetime.fromisoformat(receipt["started_at"])
        certain = {number for number, moment in self._committed.items() if moment < began}
        return {str(day) for day in self._settled(dataset, certain) & set(window_of(receipt).each_day())}

    def _judge_settled(self, load: str, dataset: Dataset, receipt: Receipt, whole: Window) -> None:
        """Check that days count as settled if they were read later than the lookback after them.

        A load looks at the receipts when it begins. Others may be committed until it is stored, or pruned.
        """
        says_so, days = bool((receipt["notes"] or {}).get("was_settled")), set(whole.each_day())
        began = datetime.fromisoformat(receipt["started_at"])
        certain = {number for number, moment in self._committed.items() if moment < began}
        check(f"{load} does not say that its days had settled", says_so or not self._settled(dataset, certain) >= days)
        may_be = self._is_pruned or self._settled(dataset, self._receipts.keys()) >= days
        check(f"{load} says that its days had settled", may_be or not says_so)

    def _settled(self, dataset: Dataset, numbers: Set[int]) -> set[date]:
        """Return the days that readings say have settled. What was read under another time zone counts no more."""
        lookback, settled, zone = timedelta(days=dataset.lookback_days), set[date](), self._upstream.zone
        for number in sorted(numbers & self._receipts.keys()):
            reading = self._receipts[number]
            if reading["dataset"] == dataset.name and read.is_published_reading(reading):
                if reading["time_zone"] != str(zone):
                    settled -= set(Window.month_of(window_of(reading).start).each_day())
                    continue
                read_on = datetime.fromisoformat(reading["started_at"]).astimezone(zone).date()
                settled |= {day for day in window_of(reading).each_day() if read_on > day + lookback}
        return settled


def window_of(receipt: Receipt) -> Window:
    """Return the days of a receipt."""
    return Window(date.fromisoformat(receipt["window_start"]), date.fromisoformat(receipt["window_end"]))
