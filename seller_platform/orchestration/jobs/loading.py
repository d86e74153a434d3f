"""The jobs `refresh_now` and `extend_history`, and the sensor that requests the runs of the first.

`refresh_now` checks its config, says what is due, and ends. The sensor `requested_loads` sees that it has ended, plans
as the schedules do, and requests the runs, which have the tag `seller_platform/requested_by_run`. `extend_history` lets
history begin earlier; backfills of Dagster, and the schedules, then load the months.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any

import dagster as dg
from pydantic import Field

from seller_platform.clocks import utc_now
from seller_platform.contract import DATASETS, REFRESHED, Dataset, dataset_named
from seller_platform.contract.window import read_month
from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.loads.planner import Division, Planner, postpone
from seller_platform.orchestration.automation.runs import plan_loads, run_requests
from seller_platform.orchestration.automation.schedules import reason_of
from seller_platform.orchestration.failures import ACCOUNTS_FIELD, CheckedConfig, Month, foreseen
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts, accounts_named
from seller_platform.warehouse.loads.history_start import (
    EARLIEST,
    extend_history,
    keep_history_start,
    months_of_history,
)

REQUESTED_BY_TAG = "seller_platform/requested_by_run"
"""The tag of a run that a job has asked for: the id of the job's run."""

# mypy knows only enumerations whose names are literals.
RefreshedName = Enum("RefreshedName", {each.name: each.name for each in REFRESHED})  # type: ignore[misc]
DatasetName = Enum("DatasetName", {each.name: each.name for each in DATASETS})  # type: ignore[misc]
"""The names of datasets as the Launchpad offers them."""

# The Launchpad refuses other values with this name: it lists those that are allowed, as for a `Literal`.
for _names in (RefreshedName, DatasetName):
    _names.__name__ = f"Literal{[name.value for name in _names]}"

_RUNS_AT_ONCE = 5
_A_YEAR = timedelta(days=365)


class RefreshNow(CheckedConfig):
    """The accounts and datasets to refresh."""

    accounts: list[str] = Field(default=[], description=ACCOUNTS_FIELD)
    datasets: list[RefreshedName] = Field(default=[], description="The datasets; empty for every list, and the costs.")


class ExtendHistory(CheckedConfig):
    """The first month of history."""

    first_month: Month | None = Field(
        default=None, description="The first month of history, as YYYY-MM; by default a year before the present one."
    )


def loading_definitions(
    history_start: date, placement: Placement = WHOLE, datasets: Collection[Dataset] = DATASETS
) -> dg.Definitions:
    """Return both jobs and the sensor, of datasets that have assets; they need the resource `warehouse`."""
    refreshed = [dataset for dataset in REFRESHED if dataset in datasets]

    def planned(config: RefreshNow, warehouse: WarehouseResource, now: datetime) -> tuple[Planner, Division]:
        named, database = [dataset_named(name.value) for name in config.datasets], warehouse.database
        chosen = placement.chosen(accounts_named(database, config.accounts))
        planner = Planner.of(warehouse.settings, database, chosen, history_start, now)
        read = [each for each in named or refreshed if each in refreshed]
        return planner, planner.divide(planner.requested(read, lookups_too=bool(named)))

    @placement.job(
        "refresh_now",
        "refresh",
        "Asks for runs that load what is not stored yet or may have changed, as the daily refresh does.",
        calls_api=False,
    )
    def refresh(context: dg.OpExecutionContext, config: RefreshNow, warehouse: WarehouseResource) -> None:
        with foreseen(placement):
            _, division = planned(config, warehouse, utc_now())
        if division.later:
            context.log.warning("%s. The schedules read it as the budget allows.", reason_of(division.later))
        elif not division.fitting:
            context.log.info("Nothing is due: every day that may have changed was read today.")
        context.add_output_metadata({"slices": len(division.fitting), "later": len(division.later)})

    @placement.sensor(
        "requested_loads",
        f"Requests the runs that the job {placement.name_of('refresh_now')} has asked for.",
        seconds=10,
        asset_selection=dg.AssetSelection.assets(*(placement.asset_key(dataset) for dataset in refreshed)),
    )
    def requested_loads(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> Iterator[dg.RunRequest | dg.SkipReason]:
        now = utc_now()
        since = datetime.fromisoformat(context.cursor) if context.cursor else now
        ended = dg.RunsFilter(
            job_name=placement.name_of("refresh_now"), statuses=[dg.DagsterRunStatus.SUCCESS], updated_after=since
        )
        records = context.instance.get_run_records(
            ended, limit=_RUNS_AT_ONCE, order_by="update_timestamp", ascending=True
        )
        listed, count = context.instance.get_dynamic_partitions(placement.accounts_name), 0
        for record in records:
            run = record.dagster_run
            config: Any = run.run_config
            of_op = config.get("ops", {}).get(placement.name_of("refresh"), {}).get("config", {})
            try:
                planner, division = planned(RefreshNow(**of_op), warehouse, now)
            except SellerPlatformError as error:  # an account may have another title since
                context.log.warning("Nothing is loaded for run %s: %s", run.run_id, error)
                continue
            postpone(planner.database, division)
            loads = plan_loads(division.fitting, listed=listed)
            count += len(loads)
            yield from run_requests(
                loads, placement, warehouse.names, key=run.run_id, tags={REQUESTED_BY_TAG: run.run_id}
            )
        context.update_cursor(max((record.update_timestamp for record in records), default=since).isoformat())
        if not count:
            yield dg.SkipReason("no run has asked for loads" if not records else "nothing is due")

    @placement.job(
        "extend_history",
        "extend",
        "Lets history begin earlier, for every account. Reload the code location afterwards, and backfill the missing "
        "partitions; the result says how many requests and days of the budget they take.",
        calls_api=False,
    )
    def extend(context: dg.OpExecutionContext, config: ExtendHistory, warehouse: WarehouseResource) -> None:
        with foreseen(placement):
            since = keep_history_start(warehouse.database, history_start)
            first = read_month(config.first_month) if config.first_month else max(EARLIEST, since - _A_YEAR)
            months = months_of_history(first.replace(day=1), None, since)
        earlier = [month for month in months if month.start < since.replace(day=1)]
        if not earlier:
            context.log.info("History begins with %s already.", f"{since:%Y-%m}")
            return
        listed = placement.chosen(accounts(warehouse.database))
        planner = Planner.of(warehouse.settings, warehouse.database, listed, earlier[0].start, utc_now())
        division = planner.divide(planner.requested([each for each in refreshed if each.is_dated], earlier))
        context.add_output_metadata({"months": len(earlier), **_cost_of(division, planner)})
        extend_history(warehouse.database, earlier[0].start)
        context.log.info(
            "History begins with %s now. *Reload* the code location, and backfill the missing partitions.", earlier[0]
        )

    return dg.Definitions(jobs=[refresh, extend], sensors=[requested_loads])


def _cost_of(division: Division, planner: Planner) -> dict[str, int]:
    """Return how many slices there are, their requests, and the days of the budget that these take."""
    connection_of, requests = {each.key: each.connection for each in planner.accounts}, Counter[str]()
    for each, load in division.expected.items():
        requests[connection_of[each.account]] += load.requests
    numbers = {"slices": len(division.expected), "requests": requests.total()}
    if planner.requests_per_day is None or not requests:
        return numbers
    return {**numbers, "days_of_the_budget": -(-max(requests.values()) // planner.requests_per_day)}
