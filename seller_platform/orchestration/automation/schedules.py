"""Schedules: a daily refresh, closed months weekly, and snapshots hourly if switched on.

A day ends at another hour in every zone. The daily refresh is due at 11:00 UTC. The last marketplace's yesterday has
ended then (Los Angeles has 03:00 or 04:00), and nearly all accounts are on the same day, from Honolulu (01:00) to
Sydney (21:00 or 22:00): partitions that follow one another are due together, which makes few runs of many accounts.
The days of every account are cut at its own midnight: today is the last, yesterday is complete.
Three later ticks request what the first did not bring, while the account is on the same local day, so that an
upstream that was away at eleven costs no day. Each schedule can be switched off in the UI.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import dagster as dg

from seller_platform.contract import REFRESHED, Dataset, Source, Window
from seller_platform.counts import count_of
from seller_platform.orchestration.automation.due import accounts_by_month, grouped_by_plan, newest_month, plan_refresh
from seller_platform.orchestration.automation.runs import PlannedRun, plan_months, plan_snapshots
from seller_platform.orchestration.partitions import account_partitions
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
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
_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class _Tick:
    """The moment of a schedule's tick, with the database and the partitions to plan from.

    Attributes:
        now: The moment for which the tick was scheduled.
        listed: Every account partition, in Dagster's order.
        adaptive: Days are read again for as long as such days changed so far.
    """

    now: datetime
    database: Database
    listed: Sequence[str]
    adaptive: bool
    placement: Placement

    @property
    def accounts(self) -> list[str]:
        return [account.key for account in self.placement.chosen(accounts(self.database))]

    def days(self, moment: datetime | None = None) -> list[AccountDay]:
        """Return the local day of each account that is not retired, at a moment."""
        at = moment or self.now
        return [
            AccountDay.at(at, each.key, each.zone_or_utc) for each in self.placement.chosen(accounts(self.database))
        ]


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
    return dg.Definitions(
        schedules=[
            each
            for area, group in of_area.items()
            for each in _schedules_of(area, group, history_start, placement, running=running)
        ]
    )


def _schedules_of(
    area: str, datasets: Sequence[Dataset], history_start: date, placement: Placement, *, running: bool
) -> Iterator[dg.ScheduleDefinition]:
    status = dg.DefaultScheduleStatus.RUNNING if running else dg.DefaultScheduleStatus.STOPPED
    snapshots = [dataset for dataset in datasets if not dataset.is_dated and dataset.source is Source.LIST]
    dated = [dataset for dataset in datasets if dataset.is_dated]
    yield _schedule(
        f"refresh_{area}",
        "Reads the days that may have changed and were not read yet on the account's local day, newest first.",
        datasets,
        lambda tick: _refresh(tick, datasets, history_start),
        placement,
        cron=_REFRESH,
        default_status=status,
    )
    if dated:
        yield _schedule(
            f"reread_{area}",
            f"Reads the last {CLOSED_MONTHS} closed months again as a whole, for corrections made after the lookback.",
            dated,
            lambda tick: _reread(tick, dated, history_start),
            placement,
            cron=_WEEKLY,
            default_status=status,
        )
    if snapshots:
        yield _schedule(
            f"snapshot_{area}_hourly",
            "Takes today's snapshot of every account again; a day keeps the last. Switch it on if hours matter.",
            snapshots,
            lambda tick: plan_snapshots(
                snapshots, tick.accounts, listed=tick.listed, whole=True, longest=_PARTITIONS_PER_RUN
            ),
            placement,
            cron=_HOURLY,
            default_status=dg.DefaultScheduleStatus.STOPPED,
        )


def _schedule(
    name: str,
    description: str,
    datasets: Sequence[Dataset],
    plan: Callable[[_Tick], Iterable[PlannedRun]],
    placement: Placement,
    *,
    cron: str,
    default_status: dg.DefaultScheduleStatus,
) -> dg.ScheduleDefinition:
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
        under_way = context.instance.get_runs_count(
            dg.RunsFilter(
                tags={"dagster/schedule_name": schedule_name}, statuses=_UNDER_WAY, created_after=now - _LONGEST_RUN
            )
        )
        if under_way:
            yield dg.SkipReason(
                f"under way: {count_of(under_way, 'run')} of an earlier tick; the next tick requests the rest"
            )
            return
        listed = account_partitions(context.instance, placement.accounts_name)
        tick = _Tick(now, warehouse.database, listed, adaptive=warehouse.adapts_lookback, placement=placement)
        planned = sorted(plan(tick), key=newest_month, reverse=True)[:_RUNS_PER_TICK]
        known = accounts(warehouse.database)
        for run in planned:
            names = "+".join(dataset.name for dataset in run.datasets)
            yield dg.RunRequest(
                run_key=":".join([names, *filter(None, (run.first, run.last))]),
                asset_selection=[placement.asset_key(dataset) for dataset in run.datasets],
                tags=run.tags_with(known),
            )
        if not planned:
            yield dg.SkipReason("nothing is due")

    return evaluate


def _refresh(tick: _Tick, datasets: Sequence[Dataset], history_start: date) -> Iterator[PlannedRun]:
    first_tick = min(tick.now, tick.now.replace(hour=REFRESH_HOUR, minute=0))
    today_at_first = {day.account: day.today for day in tick.days(first_tick)}
    days = [day for day in tick.days() if day.today == today_at_first.get(day.account)]
    yield from plan_refresh(
        tick.database,
        datasets,
        days,
        listed=tick.listed,
        since=history_start,
        longest=_PARTITIONS_PER_RUN,
        scheduled=True,
        adaptive=tick.adaptive,
    )


def _reread(tick: _Tick, datasets: Sequence[Dataset], history_start: date) -> Iterator[PlannedRun]:
    read_before, days = pairs_read(tick.database, datasets), tick.days()

    def closed_months(today: date) -> Iterator[Window]:
        month = Window.month_of(today)
        for _ in range(CLOSED_MONTHS):
            month = Window.month_of(month.start - timedelta(days=1))
            yield month

    def months_of(dataset: Dataset) -> Mapping[Window, frozenset[str]]:
        return accounts_by_month(
            (month, day.account)
            for day in days
            if (dataset.name, day.account) in read_before
            for month in closed_months(day.today)
            if month.end > history_start
        )

    for group, months in grouped_by_plan((dataset, months_of(dataset)) for dataset in datasets):
        yield from plan_months(group, months, listed=tick.listed, whole=True, longest=_PARTITIONS_PER_RUN)
