"""The jobs `backfill_history` and `refresh_now`, which request runs as the schedules do.

A job adds the planned runs to the queue of the instance, and ends. The queue, the pools and the limits of accounts
decide when each run begins. The runs have the tag `seller_platform/requested_by_run`, by which the UI lists them.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import date
from enum import Enum

import dagster as dg
from pydantic import Field

from seller_platform.clocks import utc_now
from seller_platform.contract import DATASETS, REFRESHED, Dataset, dataset_named
from seller_platform.contract.window import read_month
from seller_platform.counts import count_of
from seller_platform.ingest.loads.planner import Division, DueSlice, Planner, postpone
from seller_platform.orchestration.automation.runs import plan_loads, submit
from seller_platform.orchestration.failures import ACCOUNTS_FIELD, CheckedConfig, ForeseenError, Month, foreseen
from seller_platform.orchestration.partitions import account_partitions, add_accounts
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import EXIT_CODE
from seller_platform.warehouse.connections.accounts import accounts_named
from seller_platform.warehouse.loads.history_start import extend_history, keep_history_start, months_of_history

REQUESTED_BY_TAG = "seller_platform/requested_by_run"
"""The tag of a run that a job has requested: the id of the job's run."""

# mypy knows only enumerations whose names are literals.
RefreshedName = Enum("RefreshedName", {each.name: each.name for each in REFRESHED})  # type: ignore[misc]
DatasetName = Enum("DatasetName", {each.name: each.name for each in DATASETS})  # type: ignore[misc]
"""The names of datasets as the Launchpad offers them."""

# The Launchpad refuses other values with this name: it lists those that are allowed, as for a `Literal`.
for _names in (RefreshedName, DatasetName):
    _names.__name__ = f"Literal{[name.value for name in _names]}"

_REASONS_SHOWN = 200

AssetJob = Callable[[date], dg.JobDefinition]
"""Returns the job of all assets, with the partitions of a history that begins with a day."""


class RefreshNow(CheckedConfig):
    """The accounts and datasets to refresh."""

    accounts: list[str] = Field(default=[], description=ACCOUNTS_FIELD)
    datasets: list[RefreshedName] = Field(default=[], description="The datasets; empty for every list, and the costs.")


class BackfillHistory(RefreshNow):
    """The months to load as a whole."""

    from_month: Month = Field(description="The first month, as YYYY-MM. History then begins with it, or earlier.")
    to_month: Month | None = Field(default=None, description="The last month, as YYYY-MM; by default the current one.")


def loading_jobs(
    history_start: date, asset_job: AssetJob, placement: Placement = WHOLE, datasets: Collection[Dataset] = DATASETS
) -> list[dg.JobDefinition]:
    """Return both jobs; they need the resource `warehouse`, and those of the assets.

    Args:
        history_start: The first day of history of the definitions.
        datasets: The datasets that have assets.
    """

    def readable(names: Sequence[RefreshedName]) -> list[Dataset]:
        chosen = [dataset_named(name.value) for name in names] or REFRESHED
        return [dataset for dataset in chosen if dataset in datasets]

    def request(context: dg.OpExecutionContext, planner: Planner, slices: Sequence[DueSlice]) -> None:
        """Add the runs of the slices that the requests of today suffice for to the queue.

        Raises:
            ForeseenError: The runs cannot be queued, or the requests of today do not suffice for all slices.
        """
        database, instance, job = planner.database, context.instance, asset_job(planner.since)
        add_accounts(instance, (each.key for each in planner.accounts), placement.accounts_name)
        division = planner.divide(slices) if planner.requests_per_day else Division(slices)
        postpone(database, division)
        if not slices:
            context.log.info("Nothing is due: every day that may have changed was read today.")
        run_ids = []
        planned = plan_loads(division.fitting, listed=account_partitions(instance, placement.accounts_name))
        for run in planned:
            tags = {**run.tags, REQUESTED_BY_TAG: context.run_id}
            run_ids.append(submit(run, job, instance, context.run, placement, tags=tags))
            names = ", ".join(dataset.name for dataset in run.datasets)
            context.log.info("Run %s loads %s from %s to %s.", run_ids[-1], names, run.first, run.last)
        metadata = {"slices": sum(run.slices for run in planned), "runs": dg.MetadataValue.json(run_ids)}
        if division.later:
            reasons = {str(each): str(error) for each, error in list(division.later.items())[:_REASONS_SHOWN]}
            exit_code = max(each.exit_code for each in division.later.values())
            message = (
                f"The requests of today do not suffice for {count_of(len(division.later), 'slice')}; runs of all "
                "others are requested. The schedules read the rest as the budget of each day allows. Or raise "
                "SELLER_API_REQUESTS_PER_DAY, and launch the job again."
            )
            raise ForeseenError(message, {**metadata, **reasons, EXIT_CODE: exit_code})
        context.add_output_metadata(metadata)

    @placement.job(
        "backfill_history",
        "load_months",
        "Requests runs that load whole months of accounts, newest first, and today's undated datasets.",
        calls_api=False,
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
        planner = warehouse.planner(chosen, since, utc_now())
        request(context, planner, planner.requested(readable(config.datasets), months))

    @placement.job(
        "refresh_now",
        "refresh",
        "Requests runs that load what is not stored yet or may have changed, as the daily refresh does.",
        calls_api=False,
    )
    def refresh(context: dg.OpExecutionContext, config: RefreshNow, warehouse: WarehouseResource) -> None:
        with foreseen():
            chosen = placement.chosen(accounts_named(warehouse.database, config.accounts))
        since = keep_history_start(warehouse.database, history_start)
        planner = warehouse.planner(chosen, since, utc_now())
        slices = planner.requested(readable(config.datasets), lookups_too=bool(config.datasets))
        request(context, planner, slices)

    return [load_months, refresh]
