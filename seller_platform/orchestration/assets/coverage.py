"""The asset `platform/coverage`, which shows what is stored of every account, and the schedule that updates it."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import REFRESHED, Dataset
from seller_platform.orchestration.charts import heat_map
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.loads.receipts import newest_load
from seller_platform.warehouse.monitoring.slice_states import SliceState, SliceStates, slice_states

COVERAGE = dg.AssetKey(["platform", "coverage"])
_GROUP = "platform"

_DOC = """
What is stored of every account, by dataset and month, and how old it is.

The heat map of the last materialization has the accounts with most gaps first. Its numbers are plotted over time:
`slices_missing` should be 0, and `oldest_hours` at most 26.

**Repair:** backfill the failed and missing partitions of the dataset that has gaps; materialize those that are
mismatched. A held reading is published by the job `{accept_held}`. A sensor updates this asset within an hour after
loads; materialize it to see the state of now.
"""


def coverage_definitions(placement: Placement = WHOLE, datasets: Sequence[Dataset] = REFRESHED) -> dg.Definitions:
    """Return the asset of datasets that are refreshed, and its sensor; they need the resource `warehouse`."""
    key = placement.key(COVERAGE)
    description = _DOC.strip().format(accept_held=placement.name_of("accept_held"))

    @dg.asset(key=key, group_name=placement.group_of(_GROUP), description=description, kinds={"postgres"})
    def coverage(warehouse: WarehouseResource) -> dg.MaterializeResult[None]:
        return dg.MaterializeResult(metadata=_metadata(warehouse, placement, datasets))

    @placement.sensor(
        "coverage",
        f"Shows in {key.to_user_string()} what is stored, if anything was loaded since it was last shown.",
        seconds=3600,
        target=dg.AssetSelection.assets(key),
    )
    def follow(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.SensorResult | dg.SkipReason:
        shown = context.instance.get_latest_materialization_event(key)
        loaded_at = newest_load(warehouse.database)
        if loaded_at is None:
            return dg.SkipReason("nothing was ever loaded")
        if shown is not None and loaded_at.timestamp() < shown.timestamp:
            return dg.SkipReason("nothing was loaded since it was last shown")
        metadata = _metadata(warehouse, placement, datasets)
        return dg.SensorResult(asset_events=[dg.AssetMaterialization(key, metadata=metadata)])

    return dg.Definitions(assets=[coverage], sensors=[follow])


def _metadata(
    warehouse: WarehouseResource, placement: Placement, datasets: Sequence[Dataset]
) -> dict[str, dg.MetadataValue | int | float]:
    database, now = warehouse.database, utc_now()
    since, listed = history_start_in(database, warehouse.settings), placement.chosen(accounts(database))
    return metadata_of(slice_states(database, since=since, now=now, refreshed=datasets, listed=listed), now)


def metadata_of(states: SliceStates, now: datetime) -> dict[str, dg.MetadataValue | int | float]:
    """Return the heat map and the counts."""
    listed = {account.key for account in states.accounts}
    counts = Counter(
        state for dataset in states.datasets for account in listed for state in states.of_pair(dataset, account)
    )
    ages = [(now - moment).total_seconds() / 3600 for pair, moment in states.read_at.items() if pair[1] in listed]
    return {
        "heat_map": dg.MetadataValue.md(heat_map(states, now)),
        "accounts": len(states.accounts),
        "slices": sum(counts.values()),
        **{f"slices_{state}": counts[state] for state in SliceState},
        "oldest_hours": round(max(ages, default=0.0), 1),
    }
