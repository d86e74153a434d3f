"""Assets that report their partitions by events, and the materializations of loads.

A run over many partitions yields events for each of them: results returned from the function would give every
partition the same metadata.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import dagster as dg
from sqlalchemy import Column, Table
from sqlalchemy.dialects import postgresql

from seller_platform.contract import Dataset, Slicing, Source, Window, dataset_named
from seller_platform.orchestration.account_names import AccountNames, account_metadata
from seller_platform.orchestration.assets.descriptions import describe_dataset
from seller_platform.orchestration.dagster_internals import SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION
from seller_platform.orchestration.partitions import backfill_policy_of, partition_key, partitions_for
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.tags import NOTHING_STORED
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.schema.tables import table_for
from seller_platform.warehouse.schema.unread_slices import READ_WITHIN_HOURS

ROW_COUNT_CHECK = "row_count_matches_total"

# When an asset gets a warning and when it fails: a refresh a day, and two hours for its runs; then a second day.
_DAILY = (timedelta(hours=READ_WITHIN_HOURS), timedelta(hours=READ_WITHIN_HOURS + 24))
# Discovery asks every connection each hour; without it for half a day no new accounts are added.
_DISCOVERY = (timedelta(hours=3), timedelta(hours=12))


def table_schema(table: Table) -> dg.TableSchema:
    """Return the columns of a table, with their comments."""

    def describe(column: Column[Any]) -> dg.TableColumn:
        kind = column.type.compile(postgresql.dialect()).lower()  # type: ignore[no-untyped-call]  # SQLAlchemy's
        constraints = dg.TableColumnConstraints(nullable=bool(column.nullable))
        return dg.TableColumn(column.name, kind, column.comment, constraints=constraints)

    return dg.TableSchema([describe(column) for column in table.columns])


def dataset_asset(
    dataset: Dataset, history_start: date, placement: Placement = WHOLE, *, deps: Sequence[dg.AssetKey] = ()
) -> Callable[[Callable[..., Iterator[object]]], dg.AssetsDefinition]:
    """Return the decorator of a dataset's asset, whose function yields events and then `outputs`."""
    spec = dg.AssetSpec(
        placement.asset_key(dataset),
        deps=deps,
        description=describe_dataset(dataset, placement),
        group_name=placement.group_of("lists"),
        kinds={"postgres"},
        tags={
            "seller_platform/slicing": dataset.slicing.name.lower(),
            "seller_platform/source": dataset.source.name.lower(),
        },
        freshness_policy=freshness_for(dataset),
        metadata={
            "dagster/column_schema": table_schema(table_for(dataset)),
            "dagster/table_name": dataset.table,
            "endpoint": dataset.path,
        },
        partitions_def=partitions_for(dataset, history_start, placement.account_partitions),
    )
    return event_asset(spec, pool=placement.pool, op_tags=placement.tags)


def freshness_for(dataset: Dataset) -> dg.FreshnessPolicy | None:
    """Return how old the newest rows of a dataset may become; None for any age.

    Dagster's daemon evaluates the policy. It is of an asset as a whole: an account that is not read does not make the
    asset stale, its failures report that.
    """
    if (windows := late_after(dataset)) is None:
        return None
    warn, fail = windows
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)


def late_after(dataset: Dataset) -> tuple[timedelta, timedelta] | None:
    """Return the ages at which the newest rows of a dataset deserve a warning and an error.

    Reports have none: an upstream may take days to write one, or fail.
    """
    if dataset.source is Source.REPORT:
        return None
    return _DISCOVERY if dataset.slicing is Slicing.CONNECTION else _DAILY


def event_asset(spec: dg.AssetSpec, **options: Any) -> Callable[[Callable[..., Iterator[object]]], dg.AssetsDefinition]:
    """Return the decorator of an asset whose function yields the events of its partitions and then `outputs`.

    Args:
        options: Further arguments of `dagster.multi_asset`.
    """
    partitions = spec.partitions_def
    return dg.multi_asset(
        name=spec.key.to_python_identifier(),
        specs=[spec],
        can_subset=True,
        backfill_policy=None if partitions is None else backfill_policy_of(partitions),
        **options,
    )


def outputs(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
    """Yield the outputs of a step that has reported its partitions by events.

    Later steps of the run wait for them. With this metadata Dagster makes no events of the partitions from an output.
    """
    for name in sorted(context.op_execution_context.selected_output_names):
        yield dg.Output(None, output_name=name, metadata={SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True})


def load_event(receipt: Receipt, placement: Placement, names: AccountNames) -> dg.AssetMaterialization:
    """Return the materialization of a load, with the facts of its receipt."""
    dataset = dataset_named(receipt.dataset)
    month = Window.month_of(receipt.window.start) if dataset.is_dated else None
    partition = None if dataset.slicing is Slicing.CONNECTION else partition_key(receipt.account, month)
    return dg.AssetMaterialization(
        asset_key=placement.asset_key(dataset),
        partition=partition,
        tags={"dagster/data_version": receipt.digest.hex(), **partition_tags(partition)},
        metadata={
            **account_metadata(names.get(receipt.account)),
            "dagster/partition_row_count" if partition else "dagster/row_count": receipt.rows,
            "dagster/table_name": dataset.table,
            "dagster/uri": names.database.uri,
            "rows": receipt.rows,
            "announced_total": receipt.announced,
            "verdict": receipt.verdict.value,
            "window": str(receipt.window),
            "changed": receipt.changed,
            "restatement": receipt.restatement,
            "notes": receipt.notes,
            "pages": receipt.pages,
            "requests": receipt.requests,
            "bytes": receipt.body_bytes,
            "seconds": round(receipt.seconds, 3),
            "load_id": str(receipt.id),  # as text, for the UI plots every number
            "receipt": f"row {receipt.id} of platform.loads",
            "upstream": names.base_url_of(receipt.account),
        },
    )


def materialization_of_nothing(
    key: dg.AssetKey, partition: str, reason: str, **metadata: str
) -> dg.AssetMaterialization:
    """Return the materialization of a partition for which there is nothing to store, with the reason."""
    return dg.AssetMaterialization(
        asset_key=key,
        partition=partition,
        tags={"dagster/data_version": NOTHING_STORED, **partition_tags(partition)},
        metadata={"dagster/partition_row_count": 0, "rows": 0, NOTHING_STORED: reason, **metadata},
    )


def reason_nothing_is_stored(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> str | None:
    """Return the reason of the newest materialization of a partition if it is one of nothing."""
    newest = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    )
    event = newest.records[0].asset_materialization if newest.records else None
    reason = event.metadata.get(NOTHING_STORED) if event else None
    return None if reason is None else str(reason.value)


def partition_tags(partition: str | None) -> dict[str, str]:
    """Return the tags that give Dagster the dimensions of a materialization's partition."""
    if isinstance(partition, dg.MultiPartitionKey):
        return {f"dagster/partition/{name}": key for name, key in partition.keys_by_dimension.items()}
    return {}
