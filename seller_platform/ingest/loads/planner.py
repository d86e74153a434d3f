"""Plans which slices are read: those that are due, as many as a connection's requests of today suffice for.

Newest days come first. Days that were never read, and today, come before days that are read again because they may have
changed. Days that are held, or whose total does not add up, are due each day until a reading is published. Of slices
of today, the one whose list was read the longest ago comes first; of others that are equally new, the one that takes
the fewest requests. A slice that would never fit beside those of today comes first on days on which these can wait.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property

from seller_platform.contract import Dataset, Source, Window
from seller_platform.contract.datasets.sales import DAILY_PRODUCT_SALES
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.errors import BudgetTooSmallError, NotOfferedError, RequestsUsedUpError
from seller_platform.ingest.connections.request_budget import left_at
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import KnownAccount, accounts
from seller_platform.warehouse.history.settledness import lookbacks
from seller_platform.warehouse.loads.days_due import AccountDay, days_due, last_reads
from seller_platform.warehouse.loads.expectations import ExpectedLoad, expected_loads
from seller_platform.warehouse.loads.refusals import keep_refusal, refusals
from seller_platform.warehouse.postgres.database import Database

_POSTPONED, _NOT_OFFERED = RequestsUsedUpError.__name__, NotOfferedError.__name__
_ROWS_A_DAY = 100
"""How many rows are expected of a day of a list of which none was ever loaded."""

_ALWAYS_SETTLED = -36_500
"""A lookback with which each day that was read counts as settled, so that only unread days are due."""


@dataclass(frozen=True)
class DueSlice:
    """A slice that is to be read.

    Attributes:
        month: Of a dated dataset; None for a snapshot.
        window: The days to read of it.
        whole: Read the whole month, not only the days that may have changed.
        days_behind: How many days the newest of the days is before the account's today.
        is_background: All of its days were read before, or are not offered, and none is today.
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
        return str(self.request)


@dataclass(frozen=True)
class Division:
    """The slices that a day's requests suffice for, and the others with the reason of each.

    Attributes:
        expected: What each of them is expected to take.
        left: The requests that each connection may still send today, before these slices; empty without a budget.
    """

    fitting: Sequence[DueSlice]
    later: Mapping[DueSlice, RequestsUsedUpError | BudgetTooSmallError] = field(default_factory=dict)
    expected: Mapping[DueSlice, ExpectedLoad] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> float:
        """How many rows the fitting slices are expected to have."""
        return sum(
            _ROWS_A_DAY * each.window.days * each.dataset.is_divisible if rows is None else rows
            for each in self.fitting
            for rows in [self.expected[each].rows]
        )

    def in_order(self) -> list[DueSlice]:
        """Return the fitting slices in the order in which `sync` loads them: the newest months, then snapshots."""
        return sorted(self.fitting, key=lambda each: each.month.start if each.month else date.min, reverse=True)


@dataclass(frozen=True)
class Planner:
    """Plans what is read of some accounts at a moment.

    Attributes:
        since: The first day of interest of dated datasets.
        refresh_at: The time (UTC) of the first refresh of a day.
        products: How many products accounts have, by key, of which no list is stored.
    """

    database: Database
    accounts: Sequence[KnownAccount]
    since: date
    now: datetime
    adaptive: bool = True
    requests_per_day: int | None = None
    refresh_at: time = time(11)
    products: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        chosen: Sequence[KnownAccount],
        since: date,
        now: datetime,
        *,
        refresh_at: time = time(11),
    ) -> "Planner":
        """Return what plans with the lookback and the budget of the settings."""
        return cls(database, chosen, since, now, settings.is_adaptive, settings.requests_per_day, refresh_at)

    @cached_property
    def days(self) -> Sequence[AccountDay]:
        """The local day of each account. The loads of an account without a zone fail by name."""
        return [AccountDay.at(self.now, each.key, each.zone_or_utc) for each in self.accounts]

    @property
    def _first_refresh(self) -> datetime:
        return datetime.combine(self.now.astimezone(UTC).date(), self.refresh_at, UTC)

    def requested(
        self, datasets: Sequence[Dataset], months: Sequence[Window] | None = None, *, lookups_too: bool = True
    ) -> list[DueSlice]:
        """Return the slices that a person asks for, by dataset.

        Args:
            months: The months to read as a whole, with today's snapshots; None for what may have changed.
            lookups_too: Datasets that take a request for each product are read again, even if they were read today.
        """
        daily = [each for each in datasets if each.source is Source.PRODUCT_LOOKUP and not lookups_too]
        others = [each for each in datasets if each not in daily]
        if months is None:
            slices = self.due(others)
        else:
            unread = self._unread(others, min((month.start for month in months), default=date.max))
            slices = [
                _slice_of(dataset, day, month, month.until(day.today + timedelta(days=1)), unread, whole=True)
                if month is not None
                else DueSlice(dataset, day.account, None, Window.day(day.today), whole=True)
                for dataset in others
                for day in self.days
                for month in (months if dataset.is_dated else (None,))
            ]
        # Last, because the products are those of the inventory. Like a schedule it reads nothing twice on a day.
        return [*slices, *self.due(daily, scheduled=True)]

    def refreshed(self, datasets: Sequence[Dataset]) -> list[DueSlice]:
        """Return the slices that the daily refresh of these datasets reads.

        Only accounts that are on the same local day as at `refresh_at` have any.
        """
        first = replace(self, now=min(self.now, self._first_refresh))
        days = zip(self.accounts, self.days, first.days, strict=True)
        of_day = [account for account, day, at_first in days if day.today == at_first.today]
        return replace(self, accounts=of_day).due(datasets, scheduled=True)

    def due(self, datasets: Sequence[Dataset], *, scheduled: bool = False) -> list[DueSlice]:
        """Return the slices that were never read or may have changed, by dataset.

        Not every upstream offers the rows that upstreams compute. Where none were ever read, a schedule requests only
        the newest month. A month for which a day's requests did not suffice is due as a whole.

        Args:
            scheduled: A schedule plans, not a person: what was read on the account's local day is not read again.
        """
        database, days = self.database, self.days
        changing = lookbacks(database, datasets, [day.account for day in days], adaptive=self.adaptive)
        due = days_due(database, datasets, days, since=self.since, again=not scheduled, lookbacks=changing)
        unread = self._unread(datasets, self.since)
        computed = [dataset for dataset in datasets if dataset.is_computed]
        offered = last_reads(database, computed) if scheduled else None
        refused = refusals(database)

        def slices_of(dataset: Dataset, day: AccountDay) -> Iterator[DueSlice]:
            pair = (dataset.name, day.account)
            if not dataset.is_dated:
                if pair in due:
                    yield DueSlice(dataset, day.account, None, Window.day(day.today))
                return
            parts: dict[Window, list[Window]] = defaultdict(list)
            for window in due.get(pair, ()):
                for part in window.months():
                    parts[Window.month_of(part.start)].append(part)
            newest_only = offered is not None and dataset.is_computed and pair not in offered
            # Months for which a day's requests did not suffice, even if they failed for another reason since.
            postponed = {
                Window.month_of(each.month)
                for each in refused.get(pair, ())
                if each.month and (each.error == _POSTPONED or each.requests_in_vain)
            }
            whole = {month for month in postponed if month.start <= day.today}
            months = sorted(parts)[-1:] if newest_only else sorted({*parts, *whole})
            for month in months:
                window = month.until(day.today + timedelta(days=1))
                if month not in whole and dataset.is_divisible:
                    window = Window(parts[month][0].start, parts[month][-1].end)
                each = _slice_of(dataset, day, month, window, unread, whole=month in whole)
                # What the upstream does not offer may be requested in vain each day.
                is_offered = all(refusal.error != _NOT_OFFERED for refusal in refused.get(pair, ()))
                yield each if is_offered else replace(each, is_background=True)

        return [each for dataset in datasets for day in days for each in slices_of(dataset, day)]

    def _unread(self, datasets: Sequence[Dataset], since: date) -> Mapping[tuple[str, str], Sequence[Window]] | None:
        """Return the days that were never read, by name of dataset and account; None where no budget needs a rank."""
        if self.requests_per_day is None:
            return None
        never = {(dataset.name, day.account): _ALWAYS_SETTLED for dataset in datasets for day in self.days}
        return days_due(self.database, datasets, self.days, since=since, lookbacks=never)

    def of_refresh(self, datasets: Sequence[Dataset]) -> Division:
        """Divide the slices of the daily refresh of these datasets.

        A dataset that takes a request for each product waits until one of the lists with the products was loaded.
        """
        slices = self.refreshed(datasets)
        lookups = {each for each in slices if each.dataset.source is Source.PRODUCT_LOOKUP}
        listing = [dataset for dataset in datasets if dataset in (INVENTORY, DAILY_PRODUCT_SALES)]
        if lookups and listing:
            known = {account for _, account in last_reads(self.database, listing)}
            slices = [each for each in slices if each not in lookups or each.account in known]
        return Division(slices) if self.requests_per_day is None else self.divide(slices)

    def beside_refresh(self, plan: Callable[["Planner"], Sequence[DueSlice]], datasets: Sequence[Dataset]) -> Division:
        """Divide slices that are planned beside the daily refresh of these datasets, of which they may be a part."""
        if self.requests_per_day is None:
            return Division(plan(self))
        slices = plan(self)
        at_refresh = max(self.now, self._first_refresh)
        division = self.divide([*replace(self, now=at_refresh).refreshed(datasets), *slices])
        later = {each: division.later[each] for each in slices if each in division.later}
        return replace(division, fitting=[each for each in slices if each not in later], later=later)

    def divide(self, slices: Sequence[DueSlice]) -> Division:
        """Divide slices, in the given order, into those that the requests of today suffice for, and those for later."""
        database, now, per_day = self.database, self.now, self.requests_per_day
        slices = list(dict.fromkeys(slices))
        windows = [(each.dataset, each.account, each.window) for each in slices]
        loads = expected_loads(database, windows, requests_per_day=per_day, products=self.products)
        expected = dict(zip(slices, loads, strict=True))
        if per_day is None:
            return Division(slices, expected=expected)
        connection_of = {each.key: each.connection for each in accounts(database)}
        names = sorted({connection_of.get(each.account, each.account) for each in slices})
        budgets = {name: left_at(database, name, now, per_day=per_day) for name in names}
        left = {name: requests for name, (requests, _) in budgets.items()}
        used_up = {name: RequestsUsedUpError(name, per_day=per_day, renews_at=at) for name, (_, at) in budgets.items()}
        read_at = last_reads(database, list({each.dataset for each in slices}))

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
                # All schedules must come to the same division, whatever the order of the slices.
                (each.dataset.name, each.account, each.window.start),
            )

        ranked = sorted(slices, key=rank)
        of_connection: dict[str, list[DueSlice]] = defaultdict(list)
        for each in ranked:
            of_connection[connection_of.get(each.account, each.account)].append(each)
        long_ago = now - timedelta(days=2)
        facts = (expected, read_at, long_ago)
        turns = {_first_turn(of_name, left[name], *facts) for name, of_name in of_connection.items()}
        later: dict[DueSlice, RequestsUsedUpError | BudgetTooSmallError] = {}
        remaining = dict(left)
        for each in sorted(ranked, key=lambda each: each not in turns):
            name, needed = connection_of.get(each.account, each.account), expected[each].requests
            if needed > per_day:
                later[each] = BudgetTooSmallError(name, per_day=per_day, needed=needed)
            elif needed > remaining[name]:
                later[each] = used_up[name]
            else:
                remaining[name] -= needed
        return Division([each for each in slices if each not in later], later, expected, left)


def _slice_of(
    dataset: Dataset,
    day: AccountDay,
    month: Window,
    window: Window,
    unread: Mapping[tuple[str, str], Sequence[Window]] | None,
    *,
    whole: bool,
) -> DueSlice:
    """Return the slice of a month; where the unread days are not given, none counts as read in the background."""
    parts = None if unread is None else unread.get((dataset.name, day.account), ())
    is_missing = parts is None or any(each.start < window.end and each.end > window.start for each in parts)
    behind = max(0, (day.today - max(window.start, window.last_day)).days)
    return DueSlice(dataset, day.account, month, window, whole, behind, is_background=behind > 0 and not is_missing)


def _first_turn(
    ranked: Sequence[DueSlice],
    left: int,
    expected: Mapping[DueSlice, ExpectedLoad],
    read_at: Mapping[tuple[str, str], datetime],
    long_ago: datetime,
) -> DueSlice | None:
    """Return the slice that is loaded before those of today, because it would never fit beside them.

    Each slice of today that no longer fits must have been read after `long_ago`: so each is one day late at most.
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
    """Store the whole months that are left for later, so that they are due from then on; other slices are anyway.

    Slices that no day suffices for are stored, too: they are problems.
    """
    for each, error in division.later.items():
        if (each.whole and each.month is not None) or isinstance(error, BudgetTooSmallError):
            keep_refusal(database, each.dataset, each.account, each.month, error, run_id=None)
