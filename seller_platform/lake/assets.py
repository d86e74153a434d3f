"""Assets that write datasets and marts as Delta tables, for DuckDB, Spark or a lakehouse.

They exist only if SELLER_PLATFORM_EXPORT_DIR names the folder. Every machine that runs them must have it mounted, or
reach it in its object store.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg

from seller_platform.contract import Dataset
from seller_platform.errors import NotLoadedError, SellerPlatformError
from seller_platform.lake.derived import exported_to
from seller_platform.lake.settings import LakeSettings
from seller_platform.orchestration.assets.derived import Made, derived_asset, newest_event
from seller_platform.orchestration.assets.events import reason_nothing_is_stored, table_schema
from seller_platform.orchestration.automation.following import Follower
from seller_platform.orchestration.mounting import Contribution, Mounted
from seller_platform.orchestration.partitions import partitions_for, read_partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import NOTHING_STORED
from seller_platform.warehouse.derived.tables import mart_table_for
from seller_platform.warehouse.readers.relations import SOURCES, Source
from seller_platform.warehouse.schema.tables import table_for


def definitions(component: Mounted) -> Contribution:
    """Return the assets of the tables whose inputs a component has, if there is a folder for them."""
    folder, placement = component.settings.of(LakeSettings).export_dir, component.placement
    if folder is None:
        return Contribution()
    read = {*component.datasets}
    sources = [each for each in SOURCES if ({each} if isinstance(each, Dataset) else {*each.datasets}) <= read]
    assets = [export_asset(each, component.history_start, folder, placement) for each in sources]
    return Contribution(dg.Definitions(assets), [export_follower(each, folder, placement) for each in sources])


def export_follower(source: Source, folder: str, placement: Placement = WHOLE) -> Follower:
    """Return the export of a dataset or a mart as the sensor writes it."""
    inputs = frozenset([placement.asset_key(source)])
    return Follower(placement.key(export_key(source)), source, exported_to(source, folder), inputs)


def export_key(source: Source) -> dg.AssetKey:
    """Return the key of the asset that exports a dataset or a mart."""
    return dg.AssetKey(["export", source.name])


def export_asset(source: Source, history_start: date, folder: str, placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that writes a dataset or a mart as a Delta table, all partitions of a run in one commit.

    It needs the resource `warehouse`.

    A partition that was never loaded is reported, too, if its input has nothing to store.
    """
    source_key, url = placement.asset_key(source), f"{folder}/{source.name}"
    spec = dg.AssetSpec(
        placement.key(export_key(source)),
        description=f"Delta table of {source_key.to_user_string()}. {source.doc}",
        code_version=exported_to(source, folder).version,
        group_name=placement.group_of("exports"),
        kinds={"deltalake"},
        metadata={
            "dagster/column_schema": table_schema(
                table_for(source) if isinstance(source, Dataset) else mart_table_for(source)
            ),
            "dagster/uri": url if "://" in url else Path(url).as_uri(),
            "folder": dg.MetadataValue.path(url),
        },
        deps=[source_key],
        partitions_def=partitions_for(source, history_start, placement.account_partitions),
    )

    def exporter(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, keys: Sequence[str | None]
    ) -> Callable[[str | None], Made]:
        before = newest_event(context.instance)
        parts = {key: (None, None) if key is None else read_partition_key(key) for key in keys}
        results: Mapping[Any, Any]
        try:
            # Its import takes a while, and fails without the extra `lake`.
            from seller_platform.lake.partitions import export_partitions

            results = export_partitions(
                warehouse.database, source, [*parts.values()], folder, run_id=context.run.run_id
            )
        except SellerPlatformError as error:
            results = dict.fromkeys(parts.values(), error)

        def made(key: str | None) -> Made:
            result = results[parts[key]]
            if isinstance(result, NotLoadedError) and key is not None:
                reason = reason_nothing_is_stored(context.instance, source_key, key)
                if reason is not None:
                    return Made(key, 0, NOTHING_STORED, before, {NOTHING_STORED: reason})
            if isinstance(result, SellerPlatformError):
                raise result
            facts = {
                "months_replaced": result.replaced,
                "table_version": str(result.version),  # as text, for the UI plots every number
                "load_ids": list(result.load_ids),
            }
            return Made(key, result.rows, result.digest, before, facts)

        return made

    inputs = [source] if isinstance(source, Dataset) else []
    return derived_asset(spec, source, inputs, exporter, placement, done="exported")
