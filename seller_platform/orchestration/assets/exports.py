"""Assets that write datasets to Parquet files, for DuckDB, Spark or a lakehouse.

They exist only if SELLER_PLATFORM_EXPORT_DIR names the folder. Every machine that runs them must have it mounted.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from seller_platform.contract import DATASETS, Dataset, Slicing
from seller_platform.errors import NotLoadedError
from seller_platform.orchestration.account_names import account_metadata
from seller_platform.orchestration.assets.events import (
    NO_VALUE,
    materialization_of_nothing,
    outputs,
    partition_tags,
    reason_nothing_is_stored,
    short_digest,
    table_schema,
)
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.run_titles import tag_with_title
from seller_platform.orchestration.automation.conditions import following_sensor, follows_inputs
from seller_platform.orchestration.partitions import asset_key, backfill_policy_of, partitions_for, read_partition_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.schema.tables import table_for

if TYPE_CHECKING:  # pyarrow takes a while to import, and only runs of these assets need it
    from seller_platform.warehouse.readers.parquet import Exported

GROUP = "export"
SENSOR = "exports_follow_their_inputs"

EXPORTED: tuple[Dataset, ...] = tuple(dataset for dataset in DATASETS if dataset.slicing is not Slicing.CONNECTION)
"""The datasets with files: all whose slices are of an account."""


def export_definitions(history_start: date, folder: Path | None) -> dg.Definitions:
    """Return the assets and the sensor of exports, without the resource `warehouse`.

    Args:
        folder: The folder for the files; None defines nothing.
    """
    if folder is None:
        return dg.Definitions()
    description = "Writes the Parquet files of slices that were loaded and have changed."
    return dg.Definitions(
        assets=[export_asset(dataset, history_start, folder) for dataset in EXPORTED],
        sensors=[following_sensor(SENSOR, group=GROUP, description=description)],
    )


def export_key(dataset: Dataset) -> dg.AssetKey:
    """Return the key of the asset that writes a dataset's files."""
    return dg.AssetKey([GROUP, dataset.name])


def export_asset(dataset: Dataset, history_start: date, folder: Path) -> dg.AssetsDefinition:
    """Return the asset that writes a dataset's slices as Parquet, partition by partition.

    A partition that fails does not stop the others, and is named at the end. One without a file is reported, too, if
    its input has nothing to store.
    """
    partitions = partitions_for(dataset, history_start)
    assert partitions is not None, f"{dataset.name} has no slices of accounts"
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
        partitions_def=partitions,
        backfill_policy=backfill_policy_of(partitions),
        automation_condition=follows_inputs(followed=followed, required=followed),
        dagster_type=NO_VALUE,
    )
    def export(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        tag_with_title(context, warehouse)
        # Its import takes a while.
        from seller_platform.warehouse.readers.parquet import export_month, export_snapshots

        def write(key: str) -> dg.AssetMaterialization:
            account, month = read_partition_key(key)
            try:
                if month is None:
                    exported = export_snapshots(warehouse.database, dataset, account, folder)
                else:
                    exported = (export_month(warehouse.database, dataset, account, month, folder),)
            except NotLoadedError:
                reason = reason_nothing_is_stored(context.instance, asset_key(dataset), key)
                if reason is None:
                    raise
                return materialization_of_nothing(export_key(dataset), key, reason)
            return materialization(dataset, key, folder, exported, warehouse.names.get(account))

        loop = PartitionLoop(context.log, f"{dataset.name} of ")
        for _, event in loop.attempt(context.partition_keys, write):
            yield event
        loop.fail_partitions(f"partitions of {dataset.name} were not exported")
        yield from outputs(context)

    return export


def materialization(
    dataset: Dataset, partition: str, folder: Path, exported: Sequence["Exported"], account: KnownAccount | None = None
) -> dg.AssetMaterialization:
    """Return the materialization of a partition whose files have the stored rows."""
    newest, version = exported[-1], exported[-1].digest
    if len(exported) > 1:
        digests = "\n".join(f"{file.path.parent.name} {file.digest}" for file in exported)
        version = sha256(digests.encode()).hexdigest()
    return dg.AssetMaterialization(
        asset_key=export_key(dataset),
        partition=partition,
        tags={"dagster/data_version": version, **partition_tags(partition)},
        metadata={
            **account_metadata(account),
            "dagster/partition_row_count": newest.rows,
            "dagster/uri": newest.path.as_uri(),
            "path": dg.MetadataValue.path(newest.path),
            "rows": newest.rows,
            "files": len(exported),
            "files_replaced": sum(file.replaced for file in exported),
            "load_ids": list(newest.load_ids),
            "digest": short_digest(newest.digest),
            "files_of_all": dg.MetadataValue.path(folder / dataset.name / "*" / "*" / "*.parquet"),
        },
    )
