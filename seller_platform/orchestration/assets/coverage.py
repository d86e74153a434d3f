"""The asset `platform/coverage`, which shows what is stored of every account, and the schedule that updates it."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import REFRESHED, Dataset
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.loads.receipts import newest_load
from seller_platform.warehouse.monitoring.slice_states import SliceState, SliceStates, slice_states

COVERAGE = dg.AssetKey(["platform", "coverage"])
_MOST_ACCOUNTS = 40

_DOC = """
What is stored of every account, by dataset and month, and how old it is.

The table of the last materialization has the accounts with most gaps. The other numbers are plotted over time:
`slices_missing` should be 0, and `oldest_hours` at most 26.

**Repair:** backfill the failed and missing partitions of the dataset that has gaps; materialize those that are
mismatched. A held reading is published by the job `{accept_held}`. A sensor updates this asset within an hour after
loads; materialize it to see the state of now.
"""


def coverage_definitions(placement: Placement = WHOLE, datasets: Sequence[Dataset] = REFRESHED) -> dg.Definitions:
    """Return the asset of datasets that are refreshed, and its sensor; they need the resource `warehouse`."""
    key = placement.key(COVERAGE)
    description = _DOC.strip().format(accept_held=placement.name_of("accept_held"))

    @dg.asset(key=key, group_name=placement.group_of("platform"), description=description, kinds={"postgres"})
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
    """Return how many slices are in each state, of all accounts, and as a table of those with most problems."""
    counts = {
        account.key: Counter(state for each in states.datasets for state in states.of_pair(each, account.key))
        for account in states.accounts
    }
    ages = [(now - moment).total_seconds() / 3600 for pair, moment in states.read_at.items() if pair[1] in counts]
    worst = sorted(states.accounts, key=lambda account: (-states.problems_of(account.key), account.key))
    rows = [
        dg.TableRecord(
            {"account": each.label or each.key, **{state.value: counts[each.key][state] for state in SliceState}}
        )
        for each in worst[:_MOST_ACCOUNTS]
    ]
    columns = [dg.TableColumn("account"), *(dg.TableColumn(state.value, "int") for state in SliceState)]
    total = sum(counts.values(), Counter[SliceState]())
    return {
        "worst_accounts": dg.MetadataValue.table(rows, dg.TableSchema(columns)),
        "accounts": len(counts),
        "slices": total.total(),
        **{f"slices_{state}": total[state] for state in SliceState},
        "oldest_hours": round(max(ages, default=0.0), 1),
    }
