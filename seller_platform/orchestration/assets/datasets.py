"""The assets of lists, one for each dataset."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from typing import TypeAlias

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Source
from seller_platform.contract.datasets.stock import INVENTORY
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import NotOfferedError, WarehouseUnavailableError
from seller_platform.ingest.loads.loading import load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.account_names import tag_with_account
from seller_platform.orchestration.assets.events import dataset_asset, load_event, materialization_of_nothing, outputs
from seller_platform.orchestration.assets.reporting import report_after_step
from seller_platform.orchestration.failures import PartitionLoop
from seller_platform.orchestration.partitions import partition_key, read_partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.orchestration.tags import CHANGED, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.loads.receipts import keep_reported, was_loaded

Execute: TypeAlias = Callable[
    [dg.AssetExecutionContext, Dataset, WarehouseResource, SellerApiResource], Iterator[object]
]
"""Loads the partitions of a step, and yields its events and outputs."""


def asset_for(
    dataset: Dataset, history_start: date, placement: Placement = WHOLE, execute: Execute | None = None
) -> dg.AssetsDefinition:
    """Return the asset that loads a list into its table, one slice for each partition."""
    # The products that are looked up are those of the inventory.
    deps = [placement.asset_key(INVENTORY)] if dataset.source is Source.PRODUCT_LOOKUP else []
    execute = execute or partial(load_partitions, placement)

    # Without a retry policy: Dagster would also start a load again that was terminated.
    @dataset_asset(dataset, history_start, placement, deps=deps)
    def land(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        yield from execute(context, dataset, warehouse, seller_api)

    return land


def load_partitions(
    placement: Placement,
    context: dg.AssetExecutionContext,
    dataset: Dataset,
    warehouse: WarehouseResource,
    seller_api: SellerApiResource,
) -> Iterator[object]:
    """Load the partitions of a step, yield events for each of them, and report the checks at the end.

    A run may have any number of partitions. A partition that fails does not stop the others, and is named at the end.
    Of a slice that the upstream does not offer, and before the first day of a month, there is nothing to store.

    Raises:
        dagster.Failure: Some slices failed.
    """
    names, database, asset = warehouse.names, warehouse.database, placement.asset_key(dataset)
    tag_with_account(context, names)
    whole = context.run.tags.get(REFRESH_TAG) != CHANGED
    requests = [SliceRequest(dataset, *read_partition_key(key), whole=whole) for key in context.partition_keys]
    # Newest months first, for they are used most; Dagster lists the oldest first.
    requests.sort(key=lambda request: request.month.start if request.month else date.max, reverse=True)
    loader, pause = seller_api.loader(context, utc_now()), warehouse.settings.second_reading_seconds
    loop = PartitionLoop(context.log, placement)
    loads: list[int] = []
    for result in load_each(requests, loader, second_reading_seconds=pause):
        request = result.request
        key = partition_key(request.account, request.month)
        if isinstance(result.error, NotOfferedError):
            reason = str(result.error)
            context.log.warning("%s", reason)
            yield materialization_of_nothing(asset, key, reason, **{NOT_OFFERED: reason})
        elif result.error is not None:
            loop.add(str(key), result.error, subject=str(request))
        elif result.receipt is not None:
            if result.receipt.verdict is CountVerdict.MISMATCH:
                context.log.warning("%s: stored, but the total that was announced does not add up", request)
            yield load_event(result.receipt, placement, names)
            loads.append(result.receipt.id)
        elif not was_loaded(database, dataset, request.account, request.month):
            reason = f"{request}: the month has not begun in the account's time zone."
            yield materialization_of_nothing(asset, key, reason)
    with suppress(WarehouseUnavailableError):  # they are reported again
        keep_reported(database, loads)
    yield from outputs(context)
    report_after_step(context, database, placement, dataset)
    loop.fail_partitions(dataset.name, "loaded", len(context.partition_keys))
