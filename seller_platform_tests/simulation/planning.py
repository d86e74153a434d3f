"""Judges what a planner finds due, and for which of it the requests of a day suffice."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from seller_platform.contract import Dataset, Window
from seller_platform.ingest.loads.planner import Division, DueSlice
from seller_platform_tests.simulation.facts import check, window_of
from seller_platform_tests.simulation.tables import Receipt, is_published_reading

_SOON = timedelta(hours=1)


@dataclass(frozen=True)
class Days:
    """Days of a list that certainly are due at a moment, and days that certainly are not.

    Other days are not judged: those of readings that are held, or have another total than rows, and those that a
    reading soon after midnight had that is short, or of which two days of the month are left.
    """

    due: frozenset[date]
    settled: frozenset[date]

    @classmethod
    def of(  # noqa: PLR0917  # the facts of a plan
        cls,
        dataset: Dataset,
        receipts: Iterable[Receipt],
        open_ones: Collection[int],
        since: date,
        now: datetime,
        zone: ZoneInfo,
    ) -> "Days":
        """Return the days from the first day of interest to today.

        Args:
            receipts: All that were ever written, in their order.
            open_ones: The numbers of those whose readings are held, or do not add up to their total.
        """
        today, lookback, doubtful = now.astimezone(zone).date(), timedelta(days=dataset.lookback_days), set[date]()
        began, read = datetime.combine(today, time(), zone), dict[date, tuple[datetime, bool]]()
        for receipt in (each for each in receipts if each["dataset"] == dataset.name):
            days, at = list(window_of(receipt).each_day()), datetime.fromisoformat(receipt["started_at"])
            if receipt["id"] in open_ones:
                doubtful.update(days if dataset.is_dated else [today])
            if not is_published_reading(receipt):
                continue
            if receipt["time_zone"] != str(zone):
                month = Window.month_of(days[0])
                read = {day: each for day, each in read.items() if dataset.is_dated and day not in month}
            elif dataset.is_dated:
                read |= dict.fromkeys(days, (at, len(days) > 2))
            else:
                read = {today: (at, True)} if at >= began else {}
        due, settled = set[date](), set[date]()
        for day in Window(since if dataset.is_dated else today, today + timedelta(days=1)).each_day():
            last, is_long = read.get(day, (None, False))
            alike = sum(at == last and each in Window.month_of(day) for each, (at, _) in read.items())
            if last is None or (last < began and last.astimezone(zone).date() <= day + lookback):
                due.add(day)
            elif last < began or (is_long and alike > 2) or last >= began + _SOON:
                settled.add(day)
        return cls(frozenset(due - doubtful), frozenset(settled - doubtful))


def judge_due(dataset: Dataset, slices: Sequence[DueSlice], before: Days, after: Days) -> None:
    """Check the slices that a planner found due of a list, each once.

    Args:
        before: The days when it began to plan.
        after: Those when it had planned.
    """
    own = [each for each in slices if each.dataset == dataset]
    twice = [str(month) for month, count in Counter(each.month for each in own).items() if count > 1]
    check(f"{dataset.name}: {twice} are planned twice", not twice)
    planned = {day for each in own for day in each.window.each_day()}
    missing = sorted(map(str, (before.due & after.due) - planned))
    check(f"{dataset.name}: {missing} are due and not planned", not missing)
    ends = {day for each in own if not each.whole for day in (each.window.start, each.window.last_day)}
    wrong = sorted(map(str, before.settled & after.settled & ends))
    check(f"{dataset.name}: {wrong} are planned and not due", not wrong or not dataset.is_divisible)


def judge_division(due: Sequence[DueSlice], division: Division, room: int | None) -> None:
    """Check that slices which fit are expected to need no more requests than a day has left, and that none is lost.

    Args:
        room: The requests that were not sent yet when the planner began; None for any number.
    """
    check("a slice is neither planned nor left for later", {*division.fitting, *division.later} == {*due})
    needed = sum(division.expected[each].requests for each in division.fitting)
    check(f"slices of {needed} requests are planned, and {room} are left", room is None or needed <= room)
