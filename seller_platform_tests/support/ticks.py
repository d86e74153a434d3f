"""Ticks of the sensor of marts and exports, and the partitions that they request."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
from dagster._core.definitions.assets.graph.base_asset_graph import BaseAssetGraph
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.execution.backfill import PartitionBackfill
from dagster._core.utils import make_new_backfill_id

from seller_platform.clocks import utc_now
from seller_platform.contract import LISTS
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.orchestration.assets.accounts import accounts_asset
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.automation.following import SENSOR, Follower, following_definitions
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform_tests.support.platform import HISTORY_START


def tick(
    definitions: dg.Definitions,
    sensor: str,
    instance: dg.DagsterInstance,
    cursor: str | None = None,
    resources: Mapping[str, Any] | None = None,
) -> SensorExecutionData:
    """Evaluate a sensor as the daemon does; its resources are by default those of the definitions."""
    opened = dict(definitions.resources or {}) if resources is None else dict(resources)
    with (
        dg.partition_loading_context(dynamic_partitions_store=instance),
        dg.build_sensor_context(instance, cursor=cursor, definitions=definitions, resources=opened) as context,
    ):
        return definitions.resolve_sensor_def(sensor).evaluate_tick(context)


def store_backfill(
    instance: dg.DagsterInstance,
    graph: BaseAssetGraph[Any],
    keys: Collection[dg.AssetKey],
    partitions: Sequence[str] | None = None,
) -> PartitionBackfill:
    """Store a backfill of assets, by default of all their partitions, whose runs are yet to be requested."""
    absent: dict[str, Any] = dict.fromkeys(("title", "description", "run_config"))
    backfill = PartitionBackfill.from_asset_partitions(
        **absent,
        backfill_id=make_new_backfill_id(),
        asset_graph=graph,
        partition_names=partitions,
        asset_selection=sorted(keys),
        backfill_timestamp=utc_now().timestamp(),
        tags={},
        dynamic_partitions_store=instance,
        all_partitions=partitions is None,
    )
    instance.add_backfill(backfill)
    return backfill


@dataclass
class Ticks:
    """The sensor of a code location, which keeps its cursor.

    Attributes:
        message: Why the last tick requested nothing.
        run_keys: Those of all requests; Dagster makes one run of requests with the same key.
    """

    definitions: dg.Definitions
    instance: dg.DagsterInstance
    database_url: str
    cursor: str | None = None
    message: str | None = None
    run_keys: list[str | None] = field(default_factory=list)

    def tick(self) -> dict[str, set[str]]:
        """Evaluate the sensor, and return the partitions that it requests, by asset."""
        warehouse = {"warehouse": WarehouseResource(database_url=self.database_url)}
        result = tick(self.definitions, SENSOR, self.instance, self.cursor, warehouse)
        self.cursor, self.message = result.cursor, result.skip_message
        requested: dict[str, set[str]] = defaultdict(set)
        for request in result.run_requests or ():
            self.run_keys.append(request.run_key)
            for key in request.asset_selection or ():
                requested[key.to_user_string()] |= self._partitions(request.tags)
        return dict(requested)

    def _partitions(self, tags: Mapping[str, str]) -> set[str]:
        """Return the partitions of a range: every account between its ends, in every month between them."""
        if "dagster/asset_partition_range_start" not in tags:
            return {"all"}
        (first, _, since), (last, _, until) = (
            tags[f"dagster/asset_partition_range_{end}"].partition("|") for end in ("start", "end")
        )
        listed = [*self.instance.get_dynamic_partitions("accounts")]
        accounts = listed[listed.index(first) : listed.index(last) + 1]
        months = [f"{year}-{month:02d}-01" for year in range(2020, 2050) for month in range(1, 13)]
        between = [month for month in months if since <= month <= until]
        return {f"{account}|{month}" for account in accounts for month in between} or {*accounts}


def definitions_of_marts(database_url: str, followers: Sequence[Follower]) -> dg.Definitions:
    """Return every dataset and mart, which read a warehouse and no upstream, and the sensor of some marts."""
    from seller_platform.marts.assets import mart_asset  # the other functions work without marts

    inputs = [accounts_asset(), *(asset_for(each, HISTORY_START) for each in (*LISTS, COST_PERIODS))]
    marts = [mart_asset(mart, HISTORY_START) for mart in MARTS]
    resources = {
        "warehouse": WarehouseResource(database_url=database_url),
        "seller_api": dg.ResourceDefinition.none_resource(),
    }
    return dg.Definitions.merge(
        dg.Definitions(assets=[*inputs, *marts], resources=resources), following_definitions(followers, HISTORY_START)
    )
