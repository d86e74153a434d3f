"""Parquet in Dagster: one asset for each dataset, which writes its slices to files and follows what is loaded.

For those who live in DuckDB, Spark or a lakehouse. There are such assets only where SELLER_PLATFORM_EXPORT_DIR names
the folder; it may be one that is mounted on every machine that runs them.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from seller_platform.contract import DATASETS, Dataset, Slicing
from seller_platform.orchestration.assets.events import partition_tags, table_schema
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.automation.conditions import following_sensor, follows_inputs
from seller_platform.orchestration.partitions import asset_key, partitions_for, read_partition_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for

if TYPE_CHECKING:  # pyarrow takes a while to import, and only runs of these assets need it
    from seller_platform.warehouse.readers.parquet import Exported

GROUP = "export"
SENSOR = "exports_follow_their_inputs"

EXPORTED: tuple[Dataset, ...] = tuple(dataset for dataset in DATASETS if dataset.slicing is not Slicing.CONNECTION)
"""The datasets that have files: all that have accounts."""

_PARTITIONS_PER_RUN = {Slicing.MONTH: 36, Slicing.SNAPSHOT: 100}


def export_definitions(history_start: date, folder: Path | None) -> dg.Definitions:
    """Return an asset for each dataset and the sensor that requests them, without the resource `warehouse`.

    Args:
        folder: Where the files go; without one there is nothing to define.
    """
    if folder is None:
        return dg.Definitions()
    return dg.Definitions(
        assets=[export_asset(dataset, history_start, folder) for dataset in EXPORTED],
        sensors=[
            following_sensor(
                SENSOR,
                group=GROUP,
                description="Writes the Parquet files of slices that were loaded and are not what they were.",
            )
        ],
    )


def export_key(dataset: Dataset) -> dg.AssetKey:
    """Return the key of the asset that writes a dataset's files."""
    return dg.AssetKey([GROUP, dataset.name])


def export_asset(dataset: Dataset, history_start: date, folder: Path) -> dg.AssetsDefinition:
    """Return the asset that writes a dataset's slices as Parquet, partition by partition.

    A run may ask for any number of partitions. Each is reported by itself; those that fail are named at the end
    and do not stop the others.
    """
    followed = dg.AssetSelection.assets(asset_key(dataset))

    @dg.asset(
        key=export_key(dataset),
        description=f"Parquet files of {asset_key(dataset).to_user_string()}, one for each slice. {dataset.doc}",
        group_name=GROUP,
        kinds={"parquet"},
        metadata={
            "dagster/column_schema": table_schema(table_for(dataset)),
            "folder": dg.MetadataValue.path(folder / dataset.name),
        },
        deps=[asset_key(dataset)],
        partitions_def=partitions_for(dataset, history_start),
        backfill_policy=dg.BackfillPolicy.multi_run(_PARTITIONS_PER_RUN[dataset.slicing]),
        automation_condition=follows_inputs(followed=followed, required=followed),
        output_required=False,
    )
    def export(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        def write(key: str) -> Sequence["Exported"]:
            return _export(warehouse.database, dataset, key, folder)

        loop = PartitionLoop(context.log, f"{dataset.name} of ")
        for key, exported in loop.attempt(context.partition_keys, write):
            yield materialization(dataset, key, folder, exported)
        loop.fail_partitions(f"partitions of {dataset.name} were not exported")

    return export


def materialization(
    dataset: Dataset, partition: str, folder: Path, exported: Sequence["Exported"]
) -> dg.AssetMaterialization:
    """Return the event that the files of a partition are what is stored."""
    version = exported[0].digest if len(exported) == 1 else _digest_of(exported)
    newest = exported[-1]
    return dg.AssetMaterialization(
        asset_key=export_key(dataset),
        partition=partition,
        tags={"dagster/data_version": version, **partition_tags(partition)},
        metadata={
            "dagster/partition_row_count": newest.rows,
            "dagster/uri": newest.path.as_uri(),
            "path": dg.MetadataValue.path(newest.path),
            "rows": newest.rows,
            "files": len(exported),
            "files_replaced": sum(each.replaced for each in exported),
            "load_ids": list(newest.load_ids),
            "digest": newest.digest,
            "files_of_all": dg.MetadataValue.path(folder / dataset.name / "*" / "*" / "*.parquet"),
        },
    )


def _export(database: Database, dataset: Dataset, key: str, folder: Path) -> Sequence["Exported"]:
    # Its import takes a while.
    from seller_platform.warehouse.readers.parquet import export_month, export_snapshots

    account, month = read_partition_key(key)
    if month is None:
        return export_snapshots(database, dataset, account, folder)
    return (export_month(database, dataset, account, month, folder),)


def _digest_of(exported: Sequence["Exported"]) -> str:
    told = "\n".join(f"{each.path.parent.name} {each.digest}" for each in exported)
    return sha256(told.encode()).hexdigest()
