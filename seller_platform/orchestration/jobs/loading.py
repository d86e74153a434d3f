"""The jobs `backfill_history` and `refresh_now`, which load as the schedules do.

A job executes the planned runs in its own process, one after the other. Each is a run of its own in the UI, with a
materialization and the checks of each partition; a partition that fails is shown as failed there.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date, datetime

import dagster as dg
from pydantic import Field, field_validator

from seller_platform.clocks import Clock, utc_now
from seller_platform.contract import DATASETS, Dataset
from seller_platform.contract.window import read_month
from seller_platform.errors import SlicesFailedError
from seller_platform.ingest.loads.requested_slices import LoadRequest
from seller_platform.ingest.workers.expectation import expected_rows, processes_for
from seller_platform.orchestration.automation.backfill import plan_load
from seller_platform.orchestration.automation.runs import PlannedRun, RunEnd, execute
from seller_platform.orchestration.failures import ACCOUNTS_FIELD, CheckedConfig, ForeseenError, foreseen
from seller_platform.orchestration.jobs.choices import RefreshedName, chosen_datasets
from seller_platform.orchestration.partitions import account_partitions, add_accounts
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import EXIT_CODE, REQUESTED_BY_TAG
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import accounts_named
from seller_platform.warehouse.loads.history_start import extend_history, keep_history_start, months_of_history
from seller_platform.warehouse.loads.receipts import receipts_of_run

_DATASETS_FIELD = "The datasets; empty for every list, and the costs."
_FAILURES_SHOWN = 200
_UNFINISHED = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]

AssetJob = Callable[[date], dg.JobDefinition]
"""Returns the job of all assets, with the partitions of a history that begins with a day."""


class BackfillHistory(CheckedConfig):
    """The months to load as a whole."""

    from_month: str = Field(description="The first month, as YYYY-MM. History then begins with it, or earlier.")
    to_month: str | None = Field(default=None, description="The last month, as YYYY-MM; by default the current one.")
    accounts: list[str] = Field(default=[], description=ACCOUNTS_FIELD)
    datasets: list[RefreshedName] = Field(default=[], description=_DATASETS_FIELD)

    @field_validator("from_month", "to_month")
    @classmethod
    def _is_a_month(cls, text: str | None) -> str | None:
        if text is not None:
            read_month(text)
        return text


class RefreshNow(CheckedConfig):
    """The accounts and datasets to refresh."""

    accounts: list[str] = Field(default=[], description=ACCOUNTS_FIELD)
    datasets: list[RefreshedName] = Field(default=[], description=_DATASETS_FIELD)


def loading_jobs(
    history_start: date,
    asset_job: AssetJob,
    placement: Placement = WHOLE,
    datasets: Collection[Dataset] = DATASETS,
    *,
    clock: Clock = utc_now,
) -> list[dg.JobDefinition]:
    """Return both jobs; they need the resource `warehouse`, and those of the assets.

    Args:
        history_start: The first day of history of the definitions.
        datasets: The datasets that have assets.
    """

    def readable(names: Sequence[RefreshedName]) -> list[Dataset]:
        return [dataset for dataset in chosen_datasets(names) if dataset in datasets]

    @dg.op(
        name=placement.name_of("load_months"),
        pool=placement.pool,
        tags=placement.tags,
        description="Loads whole months of accounts, newest first, and then today's snapshots of undated datasets.",
        out=dg.Out(dg.Nothing),
    )
    def load_months(context: dg.OpExecutionContext, config: BackfillHistory, warehouse: WarehouseResource) -> None:
        database = warehouse.database
        with foreseen():
            chosen = placement.chosen(accounts_named(database, config.accounts))
            since = keep_history_start(database, history_start)
            last = None if config.to_month is None else read_month(config.to_month)
            months = months_of_history(read_month(config.from_month), last, since)
        if months[0].start < since.replace(day=1):
            since = months[0].start
            extend_history(database, since)
            context.log.info(
                "History begins with %s now, for every account. *Reload* the code location to see these months.",
                f"{since:%Y-%m}",
            )
        request = LoadRequest(readable(config.datasets), [each.key for each in chosen], since, months)
        _load(context, warehouse, request, asset_job(since), placement, now=clock())

    @dg.op(
        name=placement.name_of("refresh"),
        pool=placement.pool,
        tags=placement.tags,
        description="Loads the days that are not stored yet or may have changed, as the daily refresh does.",
        out=dg.Out(dg.Nothing),
    )
    def refresh(context: dg.OpExecutionContext, config: RefreshNow, warehouse: WarehouseResource) -> None:
        with foreseen():
            chosen = placement.chosen(accounts_named(warehouse.database, config.accounts))
        since = keep_history_start(warehouse.database, history_start)
        keys = [each.key for each in chosen]
        request = LoadRequest(readable(config.datasets), keys, since, lookups_too=bool(config.datasets))
        _load(context, warehouse, request, asset_job(since), placement, now=clock())

    @dg.job(name=placement.name_of("backfill_history"), description=load_months.description)
    def backfill_history() -> None:
        load_months()

    @dg.job(name=placement.name_of("refresh_now"), description=refresh.description)
    def refresh_now() -> None:
        refresh()

    return [backfill_history, refresh_now]


def _load(
    context: dg.OpExecutionContext,
    warehouse: WarehouseResource,
    request: LoadRequest,
    asset_job: dg.JobDefinition,
    placement: Placement,
    *,
    now: datetime,
) -> None:
    """Execute the runs of a request, and report their loads.

    Raises:
        ForeseenError: Slices failed. All others are loaded.
    """
    database, instance = warehouse.database, context.instance
    end_abandoned_runs(instance, context.run.parent_run_id)
    add_accounts(instance, request.accounts, placement.accounts_name)
    listed = account_partitions(instance, placement.accounts_name)
    plan = plan_load(
        database,
        request,
        now=now,
        listed=listed,
        adaptive=warehouse.adapts_lookback,
        requests_per_day=warehouse.requests_per_day,
    )
    if not plan.runs and not plan.later:
        context.log.info("Nothing is due: every day that may have changed was read today.")
    keys, months = request.accounts, request.months
    rows = expected_rows(database, request.datasets, keys, now=now, since=request.since, months=months)
    with processes_for(rows, read_settings(), database.url):
        ends = list(_executed(context, plan.runs, asset_job, placement))
    receipts = [receipt for end in ends for receipt in receipts_of_run(database, end.run_id)]
    metadata = {
        "slices": len(receipts),
        "rows": sum(receipt.rows for receipt in receipts),
        "changed_slices": sum(receipt.changed for receipt in receipts),
        "runs": dg.MetadataValue.json([end.run_id for end in ends]),
    }
    failures = {name: problem for end in ends for name, problem in end.failures.items()}
    failures |= {name: str(error) for name, error in plan.later.items()}
    if failures:
        exit_code = max(each.exit_code for each in (*ends, *plan.later.values()))
        error = SlicesFailedError(failures, exit_code, any_loaded=bool(receipts))
        named = dict(list(failures.items())[:_FAILURES_SHOWN])
        raise ForeseenError(str(error), {**metadata, **named, EXIT_CODE: error.exit_code})
    context.add_output_metadata(metadata)


def end_abandoned_runs(instance: dg.DagsterInstance, parent: str | None) -> None:
    """Report the failure of runs that an earlier attempt began, whose process was killed."""
    if parent is None:
        return
    for run in instance.get_runs(dg.RunsFilter(tags={REQUESTED_BY_TAG: parent}, statuses=_UNFINISHED)):
        instance.report_run_failed(run, f"The process of run {parent}, which executed this run, has ended.")


def _executed(
    context: dg.OpExecutionContext, planned: Sequence[PlannedRun], asset_job: dg.JobDefinition, placement: Placement
) -> Iterator[RunEnd]:
    for number, run in enumerate(planned, start=1):
        names = ", ".join(dataset.name for dataset in run.datasets)
        context.log.info(
            "run %s of %s loads %s, %s slices from %s to %s: %s",
            number, len(planned), names, run.slices, run.first, run.last, run.run_id,
        )  # fmt: skip
        end = execute(run, asset_job, context.instance, placement, tags={REQUESTED_BY_TAG: context.run_id})
        for sentence in sorted(end.not_offered):
            context.log.warning("%s", sentence)
        yield end
