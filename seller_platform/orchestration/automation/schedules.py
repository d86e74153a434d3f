"""Schedules: a daily refresh, closed months weekly, snapshots hourly if switched on, and what is done once a day.

A day ends at another hour in every zone. The daily refresh is due at 11:00 UTC. The last marketplace's yesterday has
ended then (Los Angeles has 03:00 or 04:00), and nearly all accounts are on the same day, from Honolulu (01:00) to
Sydney (21:00 or 22:00): partitions that follow one another are due together, which makes few runs of many accounts.
The days of every account are cut at its own midnight: today is the last, yesterday is complete.
Three later ticks request what the first did not bring, while the account is on the same local day, so that an
upstream that was away at eleven costs no day. Each schedule can be switched off in the UI.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, TypeAlias

import dagster as dg

from seller_platform.contract import REFRESHED, Dataset, Source, Window
from seller_platform.counts import count_of
from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.loads.planner import DueSlice, Planner, postpone
from seller_platform.orchestration.automation.runs import plan_loads, run_requests
from seller_platform.orchestration.failures import ForeseenError
from seller_platform.orchestration.placement import REFRESH_CRON, WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import under_way
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.days_due import last_reads

_HOURLY = "30 * * * *"
_WEEKLY = "0 13 * * 0"
# No marketplace has its midnight within half an hour of this.
_DAILY = "30 12 * * *"
# Dagster's job of all assets: its runs may be of assets with different partitions.
_ASSET_JOB = "__ASSET_JOB"

Plan: TypeAlias = Callable[[Planner, Sequence[Dataset]], Sequence[DueSlice]]

# The daily refresh reads as far back as the lookback reaches, 30 days at most; a quarter is three times that.
CLOSED_MONTHS = 3
# Dagster stores an event for each slice when it makes a run, some milliseconds each: a tick requests so many at most,
# and the next tick requests the rest. Runs are small enough to be executed side by side.
_PARTITIONS_PER_RUN = 100
_RUNS_PER_TICK = 100


def schedule_definitions(
    history_start: date, datasets: Sequence[Dataset] = REFRESHED, placement: Placement = WHOLE
) -> dg.Definitions:
    """Return the schedules of datasets that have assets; they need the resource `warehouse`.

    Days from the start of history on that were never read are due. A sensor discovers the accounts.
    """

    def schedule(
        name: str, description: str, read: Sequence[Dataset], slices: Plan | None = None, **when: Any
    ) -> dg.ScheduleDefinition:
        """Return the schedule that reads slices of datasets, by default those of the daily refresh."""
        chosen = placement.read_by(name, read)

        @dg.schedule(job_name=_ASSET_JOB, description=description, **placement.schedule(name, **when))
        def evaluate(
            context: dg.ScheduleEvaluationContext, warehouse: WarehouseResource
        ) -> Iterator[dg.RunRequest | dg.SkipReason]:
            of_name = {"dagster/schedule_name": placement.name_of(name)}
            if count := context.instance.get_runs_count(under_way(tags=of_name)):
                reason = f"under way: {count_of(count, 'run')} of an earlier tick; the next tick requests the rest"
                yield dg.SkipReason(reason)
                return
            database, now = warehouse.database, context.scheduled_execution_time
            of_schedule, at = placement.accounts_of(name, accounts(database)), placement.refresh_at(now)
            planner = Planner.of(warehouse.settings, database, of_schedule, history_start, now, refresh_at=at)
            division = (
                planner.of_refresh(chosen)
                if slices is None
                else planner.beside_refresh(lambda each: slices(each, chosen), datasets)
            )
            postpone(database, division)
            reason = reason_of(division.later)
            listed = context.instance.get_dynamic_partitions(placement.accounts_name)
            planned = plan_loads(division.fitting, listed=listed, longest=_PARTITIONS_PER_RUN)[:_RUNS_PER_TICK]
            yield from run_requests(planned, placement, warehouse.names)
            if not planned:
                yield dg.SkipReason(reason or "nothing is due")
            elif reason:
                context.log.info(reason)

        return evaluate

    refresh = schedule(
        "refresh",
        "Reads the days that may have changed and were not read yet on the account's local day, newest first.",
        datasets,
        cron=REFRESH_CRON,
    )
    reread = schedule(
        "reread",
        f"Reads the last {CLOSED_MONTHS} closed months again as a whole, for corrections made after the lookback.",
        [dataset for dataset in datasets if dataset.is_dated],
        _closed_months,
        cron=_WEEKLY,
    )
    snapshot = schedule(
        "snapshot",
        "Takes today's snapshot of every account again; a day keeps the last. Switch it on if hours matter.",
        [each for each in datasets if not each.is_dated and each.source is Source.LIST],
        lambda planner, chosen: [
            DueSlice(dataset, day.account, None, Window.day(day.today), whole=True, is_background=True)
            for dataset in chosen
            for day in planner.days
        ],
        cron=_HOURLY,
        is_on=False,
    )
    return dg.Definitions(schedules=[refresh, reread, snapshot])


def daily_definitions(steps: Sequence[dg.OpDefinition], placement: Placement = WHOLE) -> dg.Definitions:
    """Return the job of what is done once a day, and its schedule; nothing without a step."""
    if not steps:
        return dg.Definitions()
    description = " ".join(str(each.description) for each in steps)
    job = dg.GraphDefinition(placement.name_of("daily"), description=description, node_defs=steps).to_job()
    schedule = dg.ScheduleDefinition(job=job, description=description, **placement.schedule("daily", _DAILY))
    return dg.Definitions(jobs=[job], schedules=[schedule])


@WHOLE.op(
    "delete_old",
    "Deletes old snapshots except one a month, receipts that nothing refers to, and events, runs and executions of "
    "checks that are older than SELLER_PLATFORM_DAGSTER_RETENTION_DAYS. Every partition keeps its state. Exported "
    "tables are compacted, and their files are deleted a week after they were replaced.",
    calls_api=False,
)
def delete_old(context: dg.OpExecutionContext, warehouse: WarehouseResource) -> None:
    # It imports dagster-postgres and Alembic, which the definitions do without.
    from seller_platform.orchestration.instance import retention

    old = retention.delete_old(warehouse.database, context.instance, warehouse.settings, dry=False)
    pruned, dagster, files, error = old
    counts = {**pruned.rows, "receipts": pruned.receipts, **dagster}
    counts |= {} if files is None else {"exported files": files}
    metadata = {name.replace(" ", "_"): count for name, count in counts.items()}
    if error is not None:
        raise ForeseenError(str(error), metadata)
    context.add_output_metadata(metadata)


PRUNE = WHOLE.job_of("prune", delete_old)
"""The job; it needs the resource `warehouse`."""


def _closed_months(planner: Planner, datasets: Sequence[Dataset]) -> list[DueSlice]:
    read_before = last_reads(planner.database, datasets)

    def closed(today: date) -> list[Window]:
        return [*Window(today - timedelta(days=31 * (CLOSED_MONTHS + 1)), today.replace(day=1)).months()]

    return [
        DueSlice(dataset, day.account, month, month, True, (day.today - month.last_day).days, is_background=True)
        for dataset in datasets
        for day in planner.days
        if (dataset.name, day.account) in read_before
        for month in closed(day.today)[-CLOSED_MONTHS:]
        if month.end > planner.since
    ]


def reason_of(later: Mapping[DueSlice, SellerPlatformError]) -> str:
    """Return how many slices are left for later, and why; empty if there are none."""
    by_error: dict[type[SellerPlatformError], list[DueSlice]] = defaultdict(list)
    for each, error in later.items():
        by_error[type(error)].append(each)
    return "; ".join(
        f"{count_of(len(slices), 'slice', 'waits')}, the first is {slices[0]}: {later[slices[0]]}"
        for slices in by_error.values()
    )
