"""One asset per dataset, all from one factory."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime

import dagster as dg

from seller_platform.contract import Dataset, Slicing
from seller_platform.errors import NotOfferedError
from seller_platform.ingest.loads.slices import SliceRequest, SliceResult, load_each, load_wanted
from seller_platform.orchestration.assets.checks import check_outputs, check_specs, evaluations, evaluations_of_failure
from seller_platform.orchestration.assets.events import definition_metadata, materialization
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.partitions import asset_key, partition_key, partitions_for, read_partition_key
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.orchestration.tags import CHANGED, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.connections.accounts import account_of
from seller_platform.warehouse.loads.slices import Receipt

# Dagster's time for a run grows faster than its partitions; these sizes keep it in proportion.
_PARTITIONS_PER_RUN = {Slicing.MONTH: 36, Slicing.SNAPSHOT: 100}


def asset_for(dataset: Dataset, history_start: date) -> dg.AssetsDefinition:
    """Return the asset that lands a list in its table, one slice per partition.

    A run may ask for any number of partitions. Each is reported by itself; those that fail are named at the end
    and do not stop the others.
    """
    partitions = partitions_for(dataset, history_start)

    @dg.asset(
        key=asset_key(dataset),
        description=dataset.doc,
        group_name=dataset.area,
        kinds={"postgres"},
        metadata=definition_metadata(dataset),
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.multi_run(_PARTITIONS_PER_RUN[dataset.slicing]),
        # For Dagster's own storage going away: what failed by itself is told by a Failure that forbids it.
        retry_policy=dg.RetryPolicy(max_retries=2, delay=5),
        check_specs=check_specs(dataset, partitions),
        output_required=False,
    )
    def land(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        wanted = _newest_first(SliceRequest(dataset, *read_partition_key(key)) for key in context.partition_keys)
        yield from report_outcomes(context, dataset, seller_api, _outcomes(context, warehouse, seller_api, wanted))

    return land


def _newest_first(wanted: Iterable[SliceRequest]) -> list[SliceRequest]:
    """Return the slices in the order of their use: Dagster hands over the oldest months first."""
    return sorted(wanted, key=lambda each: each.month.start if each.month else date.max, reverse=True)


def _outcomes(
    context: dg.AssetExecutionContext,
    warehouse: WarehouseResource,
    seller_api: SellerApiResource,
    wanted: Sequence[SliceRequest],
) -> Iterator[SliceResult]:
    whole = context.run.tags.get(REFRESH_TAG) != CHANGED
    now, database, run_id = datetime.now(UTC), warehouse.database, context.run.run_id

    def load(each: SliceRequest) -> Receipt | None:
        known = account_of(database, each.account)
        api = seller_api.api(known.connection)
        return load_wanted(api, database, known, each, now=now, whole=whole, run_id=run_id)

    return load_each(wanted, load)


def report_outcomes(
    context: dg.AssetExecutionContext, dataset: Dataset, seller_api: SellerApiResource, outcomes: Iterator[SliceResult]
) -> Iterator[object]:
    """Yield what Dagster is told of slices that were loaded: each by itself, and at the end those that failed.

    Raises:
        dagster.Failure: Some failed.
    """
    loop = PartitionLoop(context.log)
    for outcome in outcomes:
        key = partition_key(outcome.wanted.account, outcome.wanted.month)
        if isinstance(outcome.error, NotOfferedError):
            context.log.warning("%s", outcome.error)
            metadata = {NOT_OFFERED: str(outcome.error)}
            yield dg.AssetObservation(asset_key(dataset), partition=key, metadata=metadata)
        elif outcome.error is not None:
            loop.add(str(key), outcome.error, subject=str(outcome.wanted))
            yield from evaluations_of_failure(dataset, outcome.error, key)
        elif outcome.receipt is not None:
            yield from _events(context, dataset, seller_api, outcome.receipt, key)
    yield from check_outputs(context, dataset)
    loop.fail_partitions(f"partitions of {dataset.name} were not loaded")


def _events(
    context: dg.AssetExecutionContext,
    dataset: Dataset,
    seller_api: SellerApiResource,
    receipt: Receipt,
    partition: str | None,
) -> Iterator[object]:
    yield materialization(
        dataset,
        receipt,
        partition=partition,
        endpoint_url=seller_api.url_of(receipt.account, dataset.path),
        table_uri=seller_api.warehouse.database.uri_of(dataset.table),
    )
    yield from evaluations(context.instance, dataset, receipt, partition)
