"""Assets that write datasets and marts as Delta tables, for DuckDB, Spark or a lakehouse.

They exist only if SELLER_PLATFORM_EXPORT_DIR names the folder. Every machine that runs them must have it mounted, or
reach it in its object store.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from seller_platform.contract import DATASETS, Dataset
from seller_platform.errors import NotLoadedError, SellerPlatformError
from seller_platform.orchestration.account_names import account_metadata
from seller_platform.orchestration.assets.events import (
    event_asset,
    materialization_of_nothing,
    outputs,
    partition_tags,
    reason_nothing_is_stored,
    short_digest,
    table_schema,
)
from seller_platform.orchestration.assets.marts import marts_of
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.reporting import report
from seller_platform.orchestration.assets.run_titles import tag_with_title
from seller_platform.orchestration.automation.following import Follower
from seller_platform.orchestration.automation.provenance import input_versions, newest_event, provenance_tags
from seller_platform.orchestration.partitions import (
    account_months,
    partitions_for,
    read_partition_key,
)
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import NOTHING_STORED
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.marts.tables import mart_table_for
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.relations import SOURCES, Source, exported_to
from seller_platform.warehouse.schema.tables import table_for

if TYPE_CHECKING:  # pyarrow takes a while to import, and only runs of these assets need it
    from seller_platform.warehouse.exports.partitions import Exported, Partition

GROUP = "export"


def export_definitions(
    history_start: date,
    folder: str | None,
    placement: Placement = WHOLE,
    datasets: Collection[Dataset] = DATASETS,
) -> dg.Definitions:
    """Return the assets of exports, without the resource `warehouse`.

    Args:
        folder: That of the tables, as SELLER_PLATFORM_EXPORT_DIR names it; None defines nothing.
        datasets: The datasets that have assets.
    """
    if folder is None:
        return dg.Definitions()
    exported = exported_of(datasets)
    return dg.Definitions(assets=[export_asset(source, history_start, folder, placement) for source in exported])


def export_followers(
    folder: str | None, placement: Placement = WHOLE, datasets: Collection[Dataset] = DATASETS
) -> list[Follower]:
    """Return the exports that the sensor writes."""
    if folder is None:
        return []
    return [
        Follower(
            placement.key(export_key(source)),
            source,
            exported_to(source, folder),
            frozenset([placement.asset_key(source)]),
        )
        for source in exported_of(datasets)
    ]


def exported_of(datasets: Collection[Dataset]) -> list[Source]:
    """Return the tables that are exported where these datasets have assets."""
    exported = (*datasets, *marts_of(datasets))
    return [source for source in SOURCES if source in exported]


def export_key(source: Source) -> dg.AssetKey:
    """Return the key of the asset that exports a dataset or a mart."""
    return dg.AssetKey([GROUP, source.name])


def exported_partitions(
    source: Source, history_start: date, placement: Placement = WHOLE
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of a dataset or a mart, which those of its export equal."""
    accounts = placement.account_partitions
    if isinstance(source, Dataset):
        return partitions_for(source, history_start, accounts)
    return account_months(history_start, accounts) if source.is_monthly else accounts


def export_asset(source: Source, history_start: date, folder: str, placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that writes a dataset or a mart as a Delta table, all partitions of a run in one commit.

    A partition that fails does not stop the others, and is named at the end. One that was never loaded is reported,
    too, if its input has nothing to store.
    """
    partitions = exported_partitions(source, history_start, placement)
    asset, source_key = placement.key(export_key(source)), placement.key(dg.AssetKey(source.table.split(".")))
    version, url = exported_to(source, folder).version, f"{folder}/{source.name}"
    table = table_for(source) if isinstance(source, Dataset) else mart_table_for(source)

    spec = dg.AssetSpec(
        asset,
        description=f"Delta table of {source_key.to_user_string()}. {source.doc}",
        code_version=version,
        group_name=placement.group_of(GROUP),
        kinds={"deltalake"},
        metadata={
            "dagster/column_schema": table_schema(table),
            "dagster/uri": url if "://" in url else Path(url).as_uri(),
            "folder": dg.MetadataValue.path(url),
        },
        deps=[source_key],
        partitions_def=partitions,
    )

    @event_asset(spec)
    def export(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        tag_with_title(context, warehouse)
        keys: Sequence[str | None] = (None,) if partitions is None else context.partition_keys
        if isinstance(source, Dataset):
            accounts = None if partitions is None else {read_partition_key(key)[0] for key in context.partition_keys}
            report(context.instance, warehouse.database, placement, [source], accounts=accounts)
        versions, before = input_versions(context.instance, [source_key]), newest_event(context.instance)
        parts = {key: (None, None) if key is None else read_partition_key(key) for key in keys}
        results = _export(warehouse.database, source, [*parts.values()], folder, context.run.run_id)

        def materialize(key: str | None) -> dg.AssetMaterialization:
            account, _ = parts[key]
            result = results[parts[key]]
            if isinstance(result, NotLoadedError) and key is not None:
                reason = reason_nothing_is_stored(context.instance, source_key, key)
                if reason is not None:
                    tags = provenance_tags(NOTHING_STORED, version, versions, before)
                    return materialization_of_nothing(asset, key, reason, tags=tags)
            if isinstance(result, SellerPlatformError):
                raise result
            known = None if account is None else warehouse.names.get(account)
            tags = provenance_tags(result.digest, version, versions, before)
            return materialization(asset, key, result, tags, known)

        loop = PartitionLoop(context.log, f"{source.name} of ")
        yield from (event for _, event in loop.attempt(keys, materialize))
        yield from outputs(context)
        loop.fail_partitions(source.name, "exported", len(keys))

    return export


def _export(
    database: Database, source: Source, partitions: Sequence["Partition"], folder: str, run_id: str
) -> Mapping["Partition", "Exported | SellerPlatformError"]:
    try:
        # Its import takes a while, and fails without the extra `lake`.
        from seller_platform.warehouse.exports.partitions import export_partitions

        return export_partitions(database, source, partitions, folder, run_id=run_id)
    except SellerPlatformError as error:
        return dict.fromkeys(partitions, error)


def materialization(
    key: dg.AssetKey,
    partition: str | None,
    exported: "Exported",
    tags: Mapping[str, str],
    account: KnownAccount | None = None,
) -> dg.AssetMaterialization:
    """Return the materialization of a partition that the table has as it is stored.

    Args:
        tags: What it was computed from, as `provenance_tags` returns it.
    """
    return dg.AssetMaterialization(
        asset_key=key,
        partition=partition,
        tags={**tags, **partition_tags(partition)},
        metadata={
            **account_metadata(account),
            **({} if partition is None else {"dagster/partition_row_count": exported.rows}),
            "rows": exported.rows,
            "months_replaced": exported.replaced,
            "table_version": str(exported.version),  # as text, for the UI plots every number
            "load_ids": list(exported.load_ids),
            "digest": short_digest(exported.digest),
        },
    )
