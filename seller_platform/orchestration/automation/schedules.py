"""Schedules: a daily refresh, closed months weekly, and snapshots hourly if switched on.

A day ends at another hour in every zone. The daily refresh is due at 11:00 UTC. The last marketplace's yesterday has
ended then (Los Angeles has 03:00 or 04:00), and nearly all accounts are on the same day, from Honolulu (01:00) to
Sydney (21:00 or 22:00): partitions that follow one another are due together, which makes few runs of many accounts.
The days of every account are cut at its own midnight: today is the last, yesterday is complete.
Three later ticks request what the first did not bring, while the account is on the same local day, so that an
upstream that was away at eleven costs no day. Each schedule can be switched off in the UI.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from seller_platform.contract import REFRESHED, Dataset, Source, Window
from seller_platform.counts import count_of
from seller_platform.ingest.loads.due_slices import DueSlice, Left, divide, due_slices, keep_too_large
from seller_platform.orchestration.automation.due import plan_slices
from seller_platform.orchestration.automation.runs import PlannedRun
from seller_platform.orchestration.partitions import account_partitions
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import UNDER_WAY
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.receipts import AccountDay, pairs_read
from seller_platform.warehouse.postgres.database import Database

REFRESH_HOUR = 11
_REFRESH = f"0 {REFRESH_HOUR},12,14,18 * * *"
_HOURLY = "30 * * * *"
_WEEKLY = "0 13 * * 0"

# The daily refresh reads as far back as the lookback reaches, 30 days at most; a quarter is three times that.
CLOSED_MONTHS = 3
# Dagster stores an event for each slice when it makes a run, some milliseconds each: a tick requests so many at most,
# and the next tick requests the rest. Runs are small enough to be executed side by side.
_PARTITIONS_PER_RUN = 100
_RUNS_PER_TICK = 100
# A run that takes longer counts as lost, and no tick waits for it.
_LONGEST_RUN = timedelta(days=1)


@dataclass(frozen=True)
class _Scope:
    """What the schedules read: days from the start of history on, of datasets that share the requests of a day."""

    history_start: date
    datasets: Sequence[Dataset]
    placement: Placement


@dataclass(frozen=True)
class _Tick:
    """The moment of a schedule's tick, with the database and the partitions to plan from.

    Attributes:
        now: The moment for which the tick was scheduled.
        listed: Every account partition, in Dagster's order.
        adaptive: Days are read again for as long as such days changed so far.
        requests_per_day: How many requests each connection may send on one day; None for any number.
        scope: What all schedules read.
    """

    now: datetime
    database: Database
    listed: Sequence[str]
    adaptive: bool
    requests_per_day: int | None
    scope: _Scope

    def days(self, moment: datetime | None = None) -> list[AccountDay]:
        """Return the local day of each account that is not retired, at a moment."""
        at = moment or self.now
        return [
            AccountDay.at(at, each.key, each.zone_or_utc)
            for each in self.scope.placement.chosen(accounts(self.database))
        ]

    def due(self, datasets: Sequence[Dataset]) -> list[DueSlice]:
        """Return the slices that a daily refresh of these datasets reads.

        Only accounts that are on the same local day as at the first tick have any.
        """
        first_tick = min(self.now, self.now.replace(hour=REFRESH_HOUR, minute=0))
        today_at_first = {day.account: day.today for day in self.days(first_tick)}
        return due_slices(
            self.database,
            datasets,
            [day for day in self.days() if day.today == today_at_first.get(day.account)],
            since=self.scope.history_start,
            scheduled=True,
            adaptive=self.adaptive,
            ranked=self.requests_per_day is not None,
        )

    def planned(self, slices: Sequence[DueSlice], beside: Sequence[Dataset]) -> "_Plan":
        """Return the runs of the slices that the requests of today suffice for.

        Args:
            beside: Datasets whose due slices need requests, too.
        """
        fitting, later = slices, dict[DueSlice, Left]()
        if self.requests_per_day is not None:
            needed = [*self.due(beside), *slices]
            division = divide(self.database, needed, requests_per_day=self.requests_per_day, now=self.now)
            later = {each: division.later[each] for each in slices if each in division.later}
            fitting = [each for each in slices if each not in later]
        return _Plan(plan_slices(fitting, listed=self.listed, longest=_PARTITIONS_PER_RUN), later)


@dataclass(frozen=True)
class _Plan:
    """What a tick reads, and the slices that it leaves for later, with the reason of each."""

    runs: Sequence[PlannedRun]
    later: Mapping[DueSlice, Left]


def schedule_definitions(
    history_start: date,
    datasets: Sequence[Dataset] = REFRESHED,
    placement: Placement = WHOLE,
    *,
    running: bool = True,
) -> dg.Definitions:
    """Return the schedules of each area's assets; they need the resource `warehouse`.

    Args:
        history_start: The first day of interest: days from it on that were never read are due.
        datasets: The datasets that have assets. A sensor discovers the accounts, and a schedule of its own requests
            the reports.
        running: Whether the schedules are on when they are first loaded.
    """
    of_area: dict[str, list[Dataset]] = defaultdict(list)
    for dataset in datasets:
        of_area[dataset.area].append(dataset)
    scope = _Scope(history_start, datasets, placement)
    return dg.Definitions(
        schedules=[
            each for area, group in of_area.items() for each in _schedules_of(area, group, scope, running=running)
        ]
    )


def _schedules_of(
    area: str, datasets: Sequence[Dataset], scope: _Scope, *, running: bool
) -> Iterator[dg.ScheduleDefinition]:
    status = dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED
    snapshots = [dataset for dataset in datasets if not dataset.is_dated and dataset.source is Source.LIST]
    dated = [dataset for dataset in datasets if dataset.is_dated]
    yield _schedule(
        f"refresh_{area}",
        "Reads the days that may have changed and were not read yet on the account's local day, newest first.",
        datasets,
        lambda tick: _refresh(tick, datasets),
        scope,
        cron=_REFRESH,
        default_status=status,
    )
    if dated:
        yield _schedule(
            f"reread_{area}",
            f"Reads the last {CLOSED_MONTHS} closed months again as a whole, for corrections made after the lookback.",
            dated,
            lambda tick: _reread(tick, dated),
            scope,
            cron=_WEEKLY,
            default_status=status,
        )
    if snapshots:
        yield _schedule(
            f"snapshot_{area}_hourly",
            "Takes today's snapshot of every account again; a day keeps the last. Switch it on if hours matter.",
            snapshots,
            lambda tick: _snapshot(tick, snapshots),
            scope,
            cron=_HOURLY,
            default_status=dg.DefaultScheduleStatus.STOPPED,
        )


def _schedule(
    name: str,
    description: str,
    datasets: Sequence[Dataset],
    plan: Callable[[_Tick], _Plan],
    scope: _Scope,
    *,
    cron: str,
    default_status: dg.DefaultScheduleStatus,
) -> dg.ScheduleDefinition:
    placement = scope.placement
    schedule_name = placement.name_of(name)

    @dg.schedule(
        cron,
        name=schedule_name,
        target=dg.AssetSelection.assets(*(placement.asset_key(dataset) for dataset in datasets)),
        description=description,
        default_status=default_status,
        execution_timezone="UTC",
    )
    def evaluate(
        context: dg.ScheduleEvaluationContext, warehouse: WarehouseResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        now = context.scheduled_execution_time
        under_way = runs_under_way(context, schedule_name, longest=_LONGEST_RUN)
        if under_way:
            yield dg.SkipReason(
                f"under way: {count_of(under_way, 'run')} of an earlier tick; the next tick requests the rest"
            )
            return
        listed = account_partitions(context.instance, placement.accounts_name)
        tick = _Tick(now, warehouse.database, listed, warehouse.adapts_lookback, warehouse.requests_per_day, scope)
        plan_of_tick = plan(tick)
        planned = plan_of_tick.runs[:_RUNS_PER_TICK]
        keep_too_large(warehouse.database, plan_of_tick.later)
        reason = reason_of(plan_of_tick.later)
        known = accounts(warehouse.database)
        for run in planned:
            names = "+".join(dataset.name for dataset in run.datasets)
            yield dg.RunRequest(
                run_key=":".join([names, *filter(None, (run.first, run.last))]),
                asset_selection=[placement.asset_key(dataset) for dataset in run.datasets],
                asset_check_keys=[],  # the step reports them
                tags=run.tags_with(known),
            )
        if not planned:
            yield dg.SkipReason(reason or "nothing is due")
        elif reason:
            context.log.info(reason)

    return evaluate


def extra_for_later(
    slices: Sequence[DueSlice],
    warehouse: WarehouseResource,
    placement: Placement,
    datasets: Sequence[Dataset],
    now: datetime,
) -> Mapping[DueSlice, Left]:
    """Return which slices beyond the daily refresh have to wait, because it needs the requests of today.

    Args:
        datasets: Those that the daily refresh reads.
    """
    database, per_day = warehouse.database, warehouse.requests_per_day
    if per_day is None:
        return {}
    scope = _Scope(warehouse.first_day, datasets, placement)
    refresh = max(now, now.astimezone(UTC).replace(hour=REFRESH_HOUR, minute=0))
    due = _Tick(refresh, database, (), warehouse.adapts_lookback, per_day, scope).due(datasets)
    division = divide(database, [*due, *slices], requests_per_day=per_day, now=now)
    return {each: division.later[each] for each in slices if each in division.later}


def reason_of(later: Mapping[DueSlice, Left]) -> str:
    """Return how many slices are left for later, and why; empty if there are none."""
    by_error: dict[type[Left], list[DueSlice]] = defaultdict(list)
    for each, error in later.items():
        by_error[type(error)].append(each)
    return "; ".join(
        f"{count_of(len(slices), 'slice', 'waits')}, the first is {slices[0]}: {later[slices[0]]}"
        for slices in by_error.values()
    )


def runs_under_way(context: dg.ScheduleEvaluationContext, schedule: str, *, longest: timedelta) -> int:
    """Return how many runs of earlier ticks of a schedule have not ended.

    Args:
        longest: A run that was created longer ago counts as lost.
    """
    created_after = context.scheduled_execution_time - longest
    tags = {"dagster/schedule_name": schedule}
    return context.instance.get_runs_count(dg.RunsFilter(tags=tags, statuses=UNDER_WAY, created_after=created_after))


def _refresh(tick: _Tick, datasets: Sequence[Dataset]) -> _Plan:
    others = [each for each in tick.scope.datasets if each not in datasets]
    return tick.planned(tick.due(datasets), others)


def _snapshot(tick: _Tick, datasets: Sequence[Dataset]) -> _Plan:
    slices = [
        DueSlice(dataset, day.account, None, Window.day(day.today), whole=True, is_background=True)
        for dataset in datasets
        for day in tick.days()
    ]
    return tick.planned(slices, tick.scope.datasets)


def _reread(tick: _Tick, datasets: Sequence[Dataset]) -> _Plan:
    read_before = pairs_read(tick.database, datasets)
    slices = [
        DueSlice(dataset, day.account, month, month, True, (day.today - month.last_day).days, is_background=True)
        for dataset in datasets
        for day in tick.days()
        if (dataset.name, day.account) in read_before
        for month in _closed_months(day.today)
        if month.end > tick.scope.history_start
    ]
    return tick.planned(slices, tick.scope.datasets)


def _closed_months(today: date) -> Iterator[Window]:
    month = Window.month_of(today)
    for _ in range(CLOSED_MONTHS):
        month = Window.month_of(month.start - timedelta(days=1))
        yield month
