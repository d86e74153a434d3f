"""The slices that are due, and which of them a connection's requests of today suffice for.

Newest days come first. Days that were never read, and today, come before days that are read again because they may have
changed. Of slices that are equally new, the one that was read the longest ago comes first, so that all get their turn.
A slice that would never fit beside those of today comes first on days on which these can wait.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TypeAlias

from seller_platform.contract import Dataset, Source, Window
from seller_platform.contract.window import read_month
from seller_platform.errors import BudgetTooSmallError, NotOfferedError, RequestsUsedUpError
from seller_platform.ingest.connections.request_budget import left_at
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.expectations import ExpectedLoad, expected_loads
from seller_platform.warehouse.loads.receipts import AccountDay, days_due, last_reads, pairs_read
from seller_platform.warehouse.loads.refusals import Refusal, keep_refusal, refusals
from seller_platform.warehouse.postgres.database import Database

_POSTPONED, _NOT_OFFERED = RequestsUsedUpError.__name__, NotOfferedError.__name__
_ROWS_A_DAY = 100
"""How many rows are expected of a day of a list of which none was ever loaded."""

_NEVER_SETTLED = -36_500
"""A lookback with which only days that were never read are due."""

Left: TypeAlias = RequestsUsedUpError | BudgetTooSmallError
"""Why a slice is left for later."""


@dataclass(frozen=True)
class DueSlice:
    """A slice that is to be read.

    Attributes:
        month: Of a dated dataset; None for a snapshot.
        window: The days to read of it.
        whole: Read the whole month, not only the days that may have changed.
        days_behind: How many days the newest of the days is before the account's today.
        is_background: All of its days were read before, and none is today.
        is_extra: It is read more often than daily, with requests that no other slice needs.
    """

    dataset: Dataset
    account: str
    month: Window | None
    window: Window
    whole: bool = False
    days_behind: int = 0
    is_background: bool = False
    is_extra: bool = False

    def __hash__(self) -> int:
        # The hash of all columns of the dataset would take most of the time of a division.
        return hash((self.dataset.name, self.account, self.window.start))

    @property
    def request(self) -> SliceRequest:
        """The slice as it is loaded."""
        return SliceRequest(self.dataset, self.account, self.month, self.whole)

    def __str__(self) -> str:
        return f"{self.dataset.name} of {self.account}" + (f", {self.month.start:%Y-%m}" if self.month else "")


@dataclass(frozen=True)
class Division:
    """The slices that a day's requests suffice for, and the others with the reason of each.

    Attributes:
        expected: What each of them is expected to take.
        left: The requests that each connection may still send today, before these slices; empty without a budget.
    """

    fitting: Sequence[DueSlice]
    later: Mapping[DueSlice, Left]
    expected: Mapping[DueSlice, ExpectedLoad]
    left: Mapping[str, int]

    @property
    def rows(self) -> float:
        """How many rows the fitting slices are expected to have."""
        return sum(
            _ROWS_A_DAY * each.window.days * each.dataset.is_divisible if rows is None else rows
            for each in self.fitting
            for rows in [self.expected[each].rows]
        )

    def in_order(self) -> list[DueSlice]:
        """Return the fitting slices in the order in which they are loaded: the newest months first, then snapshots."""
        return sorted(self.fitting, key=lambda each: each.month.start if each.month else date.min, reverse=True)


def due_slices(
    database: Database,
    datasets: Sequence[Dataset],
    days: Sequence[AccountDay],
    *,
    since: date,
    scheduled: bool = False,
    adaptive: bool = True,
    ranked: bool = False,
) -> list[DueSlice]:
    """Return the slices that were never read or may have changed, by dataset.

    Not every upstream offers the rows that upstreams compute. Where none were ever read, a schedule requests only the
    newest month. A month for which a day's requests did not suffice is due as a whole.

    Args:
        days: The local day of each account.
        since: The first day of interest of dated datasets.
        scheduled: A schedule plans, not a person: what was read on the account's local day is not read again.
        adaptive: Days are read again for as long as such days changed so far; otherwise for the dataset's lookback.
        ranked: Tell slices that are read in the background from the others; otherwise none counts as such.
    """
    changing = lookbacks(database, datasets, [day.account for day in days], adaptive=adaptive)
    due = days_due(database, datasets, days, since=since, again=not scheduled, lookbacks=changing)
    unread = _days_unread(database, datasets, days, since=since) if ranked else None
    computed = [dataset for dataset in datasets if dataset.is_computed]
    offered = pairs_read(database, computed) if scheduled else None
    refused = refusals(database)

    def slices_of(dataset: Dataset, day: AccountDay) -> Iterator[DueSlice]:
        pair = (dataset.name, day.account)
        if not dataset.is_dated:
            if pair in due:
                yield DueSlice(dataset, day.account, None, Window.day(day.today))
            return
        missing = None if unread is None else unread.get(pair, ())
        parts: dict[Window, list[Window]] = defaultdict(list)
        for window in due.get(pair, ()):
            for part in window.months():
                parts[Window.month_of(part.start)].append(part)
        newest_only = offered is not None and dataset.is_computed and pair not in offered
        whole = {month for month in _postponed(refused.get(pair, ())) if month.start <= day.today}
        months = sorted(parts)[-1:] if newest_only else sorted({*parts, *whole})
        for month in months:
            window = month.until(day.today + timedelta(days=1))
            if month not in whole and dataset.is_divisible:
                window = Window(parts[month][0].start, parts[month][-1].end)
            each = _slice_of(dataset, day, month, window, missing, whole=month in whole)
            # What the upstream does not offer may be requested in vain each day.
            is_offered = all(refusal.error != _NOT_OFFERED for refusal in refused.get(pair, ()))
            yield each if is_offered else replace(each, is_background=True)

    return [each for dataset in datasets for day in days for each in slices_of(dataset, day)]


def slices_of_months(
    database: Database,
    datasets: Sequence[Dataset],
    days: Sequence[AccountDay],
    months: Sequence[Window],
    *,
    ranked: bool = False,
) -> list[DueSlice]:
    """Return the slices of whole months, and today's snapshots, by dataset.

    Args:
        ranked: Tell slices that are read in the background from the others; otherwise none counts as such.
    """
    first = min((month.start for month in months), default=date.max)
    unread = _days_unread(database, datasets, days, since=first) if ranked else None
    return [
        _slice_of(dataset, day, month, month.until(day.today + timedelta(days=1)), missing, whole=True)
        if month is not None
        else DueSlice(dataset, day.account, None, Window.day(day.today), whole=True)
        for dataset in datasets
        for day in days
        for missing in [None if unread is None else unread.get((dataset.name, day.account), ())]
        for month in (months if dataset.is_dated else (None,))
    ]


def _slice_of(
    dataset: Dataset, day: AccountDay, month: Window, window: Window, missing: Iterable[Window] | None, *, whole: bool
) -> DueSlice:
    is_missing = missing is None or any(each.start < window.end and each.end > window.start for each in missing)
    behind = max(0, (day.today - max(window.start, window.last_day)).days)
    is_background = behind > 0 and not is_missing
    return DueSlice(dataset, day.account, month, window, whole, behind, is_background)


def _days_unread(
    database: Database, datasets: Sequence[Dataset], days: Sequence[AccountDay], *, since: date
) -> Mapping[tuple[str, str], Sequence[Window]]:
    """Return the days that were never read, by name of dataset and account."""
    never = {(dataset.name, day.account): _NEVER_SETTLED for dataset in datasets for day in days}
    return days_due(database, datasets, days, since=since, lookbacks=never)


def _postponed(refused: Iterable[Refusal]) -> Iterator[Window]:
    """Yield the months for which a day's requests did not suffice, even if they failed for another reason since."""
    waiting = (each for each in refused if each.month and (each.error == _POSTPONED or each.requests))
    return (Window.month_of(read_month(each.month)) for each in waiting)


def divide(database: Database, slices: Sequence[DueSlice], *, requests_per_day: int | None, now: datetime) -> Division:
    """Divide slices into those that the requests of today suffice for, and those for later.

    Args:
        slices: In the order in which they are to be returned.
        requests_per_day: How many requests each connection may send on one day; None for any number.
    """
    slices = list(dict.fromkeys(slices))
    windows = [(each.dataset, each.account, each.window) for each in slices]
    loads = expected_loads(database, windows, requests_per_day=requests_per_day)
    expected = dict(zip(slices, loads, strict=True))
    if requests_per_day is None:
        return Division(slices, {}, expected, {})
    connection_of = {each.key: each.connection for each in accounts(database)}
    budgets = {
        name: left_at(database, name, now, per_day=requests_per_day)
        for name in sorted({connection_of.get(each.account, each.account) for each in slices})
    }
    left = {name: requests for name, (requests, _) in budgets.items()}
    used_up = {
        name: RequestsUsedUpError(name, per_day=requests_per_day, renews_at=at) for name, (_, at) in budgets.items()
    }
    read_at = last_reads(database, [(each.dataset.name, each.account) for each in slices])

    def rank(each: DueSlice) -> tuple[object, ...]:
        last = read_at.get((each.dataset.name, each.account))
        is_lookup = each.dataset.source is Source.PRODUCT_LOOKUP
        if each.is_extra:
            return (True, last.timestamp() if last else 0.0, each.account, each.window.start)
        return (
            False,
            each.is_background,
            each.days_behind,
            is_lookup and last is not None,
            (last.date() if last else date.min) if each.days_behind == 0 else date.min,
            expected[each].requests,
            # The schedules of all areas must come to the same division, whatever the order of the slices.
            (each.dataset.name, each.account, each.window.start),
        )

    ranked = sorted(slices, key=rank)
    of_connection: dict[str, list[DueSlice]] = defaultdict(list)
    for each in ranked:
        of_connection[connection_of.get(each.account, each.account)].append(each)
    long_ago = now - timedelta(days=2)
    turns = {_first_turn(of_name, left[name], expected, read_at, long_ago) for name, of_name in of_connection.items()}
    later: dict[DueSlice, Left] = {}
    remaining = dict(left)
    for each in sorted(ranked, key=lambda each: each not in turns):
        name, needed = connection_of.get(each.account, each.account), expected[each].requests
        if needed > requests_per_day:
            later[each] = BudgetTooSmallError(name, per_day=requests_per_day, needed=needed)
        elif needed > remaining[name]:
            later[each] = used_up[name]
        else:
            remaining[name] -= needed
    return Division([each for each in slices if each not in later], later, expected, left)


def _first_turn(
    ranked: Sequence[DueSlice],
    left: int,
    expected: Mapping[DueSlice, ExpectedLoad],
    read_at: Mapping[tuple[str, str], datetime],
    long_ago: datetime,
) -> DueSlice | None:
    """Return the slice that comes before those of today, because it would never fit beside them.

    The slices of today that do not fit then must have been read since long ago. So each is one day late at most.

    Args:
        ranked: The slices of a connection, the first ones first.
    """
    of_today, others = list[DueSlice](), list[DueSlice]()
    for each in ranked:
        if not each.is_extra:
            (of_today if each.days_behind <= 0 and not each.is_background else others).append(each)
    needed_today = sum(expected[each].requests for each in of_today)
    others = [each for each in others if expected[each].requests <= left]
    unread = [each for each in others if not each.is_background]
    large = next((each for each in unread or others if expected[each].requests + needed_today > left), None)
    if large is None or needed_today > left:
        return None
    room = left - expected[large].requests
    for each in of_today:
        needed, last = expected[each].requests, read_at.get((each.dataset.name, each.account))
        if needed <= room:
            room -= needed
        elif last is None or last <= long_ago:
            return None
    return large


def postpone(database: Database, division: Division) -> None:
    """Store the whole months that are left for later, so that they are due from then on. Other slices are anyway."""
    for each, error in division.later.items():
        if each.whole and each.month is not None:
            keep_refusal(database, each.dataset, each.account, each.month, error, run_id=None)


def keep_too_large(database: Database, later: Mapping[DueSlice, Left]) -> None:
    """Store the slices that no day suffices for, so that `status` names them."""
    for each, error in later.items():
        if isinstance(error, BudgetTooSmallError):
            keep_refusal(database, each.dataset, each.account, each.month, error, run_id=None)
