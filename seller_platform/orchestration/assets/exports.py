"""Assets that write datasets and marts to Parquet files, for DuckDB, Spark or a lakehouse.

They exist only if SELLER_PLATFORM_EXPORT_DIR names the folder. Every machine that runs them must have it mounted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from seller_platform.contract import DATASETS, Dataset
from seller_platform.errors import NotLoadedError, SellerPlatformError, WarehouseUnavailableError
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
from seller_platform.warehouse.marts.due import EVERY_ACCOUNT, Derived, DerivedInput, keep_try, state_of
from seller_platform.warehouse.marts.tables import mart_table_for
from seller_platform.warehouse.readers.relations import SOURCES, Source, relation_of
from seller_platform.warehouse.schema.tables import table_for

if TYPE_CHECKING:  # pyarrow takes a while to import, and only runs of these assets need it
    from seller_platform.warehouse.readers.parquet import Exported

GROUP = "export"
_VERSION_DIGITS = 12


def export_definitions(
    history_start: date,
    folder: Path | None,
    placement: Placement = WHOLE,
    datasets: Collection[Dataset] = DATASETS,
) -> dg.Definitions:
    """Return the assets of exports, without the resource `warehouse`.

    Args:
        folder: The folder for the files; None defines nothing.
        datasets: The datasets that have assets.
    """
    if folder is None:
        return dg.Definitions()
    exported = exported_of(datasets)
    return dg.Definitions(assets=[export_asset(source, history_start, folder, placement) for source in exported])


def export_followers(
    folder: Path | None, placement: Placement = WHOLE, datasets: Collection[Dataset] = DATASETS
) -> list[Follower]:
    """Return the exports that the sensor writes."""
    if folder is None:
        return []
    return [
        Follower(
            placement.key(export_key(source)),
            source,
            files_of(source, folder),
            frozenset([placement.asset_key(source)]),
        )
        for source in exported_of(datasets)
    ]


def exported_of(datasets: Collection[Dataset]) -> list[Source]:
    """Return the tables that are exported where these datasets have assets."""
    return [source for source in SOURCES if source in (*datasets, *marts_of(datasets))]


def files_of(source: Source, folder: Path) -> Derived:
    """Return the files of a table, which follow its slices or builds."""
    relation = relation_of(source)
    return Derived(
        source.name,
        version_of(source),
        relation.is_monthly,
        (DerivedInput(source.name, is_monthly=relation.is_monthly),),
        folder=str(folder.absolute()),
        is_of_all=not relation.has_account_parts,
    )


def export_key(source: Source) -> dg.AssetKey:
    """Return the key of the asset that writes the files of a dataset or a mart."""
    return dg.AssetKey([GROUP, source.name])


def exported_partitions(
    source: Source, history_start: date, placement: Placement = WHOLE
) -> dg.PartitionsDefinition[str] | None:
    """Return the partitions of a dataset or a mart, which those of its files equal."""
    accounts = placement.account_partitions
    if isinstance(source, Dataset):
        return partitions_for(source, history_start, accounts)
    return account_months(history_start, accounts) if source.is_monthly else accounts


def export_asset(
    source: Source, history_start: date, folder: Path, placement: Placement = WHOLE
) -> dg.AssetsDefinition:
    """Return the asset that writes a dataset or a mart as Parquet, partition by partition.

    A partition that fails does not stop the others, and is named at the end. One without a file is reported, too, if
    its input has nothing to store.
    """
    partitions = exported_partitions(source, history_start, placement)
    asset, source_key = placement.key(export_key(source)), placement.key(dg.AssetKey(source.table.split(".")))
    files = files_of(source, folder)
    table = table_for(source) if isinstance(source, Dataset) else mart_table_for(source)
    pieces = "a single one" if partitions is None else "one for each slice"

    spec = dg.AssetSpec(
        asset,
        description=f"Parquet files of {source_key.to_user_string()}, {pieces}. {source.doc}",
        code_version=files.version,
        group_name=placement.group_of(GROUP),
        kinds={"parquet"},
        metadata={
            "dagster/column_schema": table_schema(table),
            "dagster/uri": (folder / source.name).absolute().as_uri(),
            "folder": dg.MetadataValue.path(folder / source.name),
            "files_of_all": dg.MetadataValue.path(folder / source.name / "**" / "*.parquet"),
        },
        deps=[source_key],
        partitions_def=partitions,
    )

    @event_asset(spec)
    def export(context: dg.AssetExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        tag_with_title(context, warehouse)
        # Its import takes a while.
        from seller_platform.warehouse.readers.parquet import export_partition

        keys: Sequence[str | None] = (None,) if partitions is None else context.partition_keys
        if isinstance(source, Dataset):
            accounts = None if partitions is None else {read_partition_key(key)[0] for key in context.partition_keys}
            report(context.instance, warehouse.database, placement, [source], accounts=accounts)
        versions = input_versions(context.instance, [source_key])

        def write(key: str | None) -> dg.AssetMaterialization:
            account, month = (None, None) if key is None else read_partition_key(key)
            before, run_id = newest_event(context.instance), context.run.run_id
            with warehouse.database.begin() as connection:
                state = state_of(connection, files, account or EVERY_ACCOUNT, month)
            try:
                exported = export_partition(warehouse.database, source, account, month, folder)
            except NotLoadedError:
                reason = None if key is None else reason_nothing_is_stored(context.instance, source_key, key)
                if key is None or reason is None:
                    raise
                tags = provenance_tags(NOTHING_STORED, files.version, versions, before)
                return materialization_of_nothing(asset, key, reason, tags=tags)
            except SellerPlatformError as error:
                with suppress(WarehouseUnavailableError), warehouse.database.begin() as connection:
                    keep_try(connection, files, state, run_id=run_id, error=error)
                raise
            digest = digest_of(exported)
            with warehouse.database.begin() as connection:
                keep_try(connection, files, state, run_id=run_id, digest=bytes.fromhex(digest))
            known = None if account is None else warehouse.names.get(account)
            tags = provenance_tags(digest, files.version, versions, before)
            return materialization(asset, key, exported, tags, known)

        loop = PartitionLoop(context.log, f"{source.name} of ")
        yield from (event for _, event in loop.attempt(keys, write))
        yield from outputs(context)
        loop.fail_partitions(source.name, "exported", len(keys))

    return export


def version_of(source: Source) -> str:
    """Return a digest of what decides the content of files: the columns."""
    columns = [(column.name, column.kind.name) for column in source.columns]
    return sha256(repr(columns).encode()).hexdigest()[:_VERSION_DIGITS]


def digest_of(exported: Sequence["Exported"]) -> str:
    """Return the digest of the rows of all files of a partition."""
    if len(exported) == 1:
        return exported[0].digest
    digests = "\n".join(f"{file.path.parent.name} {file.digest}" for file in exported)
    return sha256(digests.encode()).hexdigest()


def materialization(
    key: dg.AssetKey,
    partition: str | None,
    exported: Sequence["Exported"],
    tags: Mapping[str, str],
    account: KnownAccount | None = None,
) -> dg.AssetMaterialization:
    """Return the materialization of a partition whose files have the stored rows.

    Args:
        tags: What it was computed from, as `provenance_tags` returns it.
    """
    newest = exported[-1]
    return dg.AssetMaterialization(
        asset_key=key,
        partition=partition,
        tags={**tags, **partition_tags(partition)},
        metadata={
            **account_metadata(account),
            **({} if partition is None else {"dagster/partition_row_count": newest.rows}),
            # Within the folder of the account; a table of the Dagster UI does not break a longer path.
            "path": str(Path(*newest.path.parts[-2:])),
            "rows": newest.rows,
            "files": len(exported),
            "files_replaced": sum(file.replaced for file in exported),
            "load_ids": list(newest.load_ids),
            "digest": short_digest(newest.digest),
        },
    )
