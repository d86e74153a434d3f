"""The assets of lists, one for each dataset, and their freshness policies."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Slicing, Source, Window, dataset_named
from seller_platform.contract.datasets.inventory import INVENTORY
from seller_platform.errors import (
    NotOfferedError,
    SellerPlatformError,
    WarehouseUnavailableError,
)
from seller_platform.ingest.loads.loading import SliceLoader, SliceResult, load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.orchestration.assets.check_runs import check_run_of
from seller_platform.orchestration.assets.checks import (
    LEDGERS_DO_NOT_REPEAT,
    check_specs,
    checks_of,
    evaluations,
    evaluations_of_failure,
    evaluations_of_nothing,
    evaluations_of_repeats,
)
from seller_platform.orchestration.assets.events import (
    dataset_asset,
    materialization,
    materialization_of_nothing,
    outputs,
)
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.run_titles import tag_with_title
from seller_platform.orchestration.assets.waits import WaitReports
from seller_platform.orchestration.charts.history import with_history_charts
from seller_platform.orchestration.partitions import asset_key, partition_key, partitions_for, read_partition_key
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.orchestration.tags import CHANGED, NOT_OFFERED, REFRESH_TAG
from seller_platform.warehouse.connections.accounts import account_of, connections
from seller_platform.warehouse.loads.receipts import (
    newest_receipt,
    open_hold,
    was_loaded,
)
from seller_platform.warehouse.loads.slices import Receipt, held_error
from seller_platform.warehouse.monitoring.freshness import READ_WITHIN
from seller_platform.warehouse.postgres.database import Database

# When an asset gets a warning and when it fails: a refresh a day, and two hours for its runs; then a second day.
_DAILY = (READ_WITHIN, READ_WITHIN + timedelta(days=1))
# Discovery asks every connection each hour; without it for half a day no new accounts are added.
_DISCOVERY = (timedelta(hours=3), timedelta(hours=12))


def asset_for(dataset: Dataset, history_start: date, placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that loads a list into its table, one slice for each partition.

    A run may have any number of partitions. Each has events of its own. A partition that fails does not stop the
    others, and is named at the end.
    """
    partitions = partitions_for(dataset, history_start, placement.account_partitions)
    assert partitions is not None, f"{dataset.name} has no slices of accounts"

    # The products that are looked up are those of the inventory.
    deps = [placement.asset_key(INVENTORY)] if dataset.source is Source.PRODUCT_LOOKUP else []

    @dataset_asset(
        dataset,
        partitions,
        placement,
        deps=deps,
        # For outages of Dagster's storage; slices that failed end in a Failure that forbids retries.
        retry_policy=dg.RetryPolicy(max_retries=2, delay=5),
        check_specs=check_specs(dataset, partitions, placement),
        execute_checks=check_run_of(dataset, partitions),
    )
    def land(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        database, run = warehouse.database, context.run
        tag_with_title(context, warehouse)
        whole = run.tags.get(REFRESH_TAG) != CHANGED
        requests = [SliceRequest(dataset, *read_partition_key(key), whole=whole) for key in context.partition_keys]
        # Newest months first, for they are used most; Dagster lists the oldest first.
        requests.sort(key=lambda request: request.month.start if request.month else date.max, reverse=True)
        loader = SliceLoader(
            database,
            seller_api.api,
            utc_now(),
            run.run_id,
            warehouse.adapts_lookback,
            WaitReports(context, dataset).add,
        )
        pause = warehouse.second_reading_seconds
        results = load_each(requests, loader, processes=seller_api.processes, second_reading_seconds=pause)
        results = with_history_charts(results, context, dataset, database, warehouse.names)
        yield from report_results(context, dataset, seller_api, results)

    return land


def freshness_for(dataset: Dataset) -> dg.FreshnessPolicy | None:
    """Return how old the newest rows of a dataset may become; None for any age.

    Dagster's daemon evaluates the policy. It is of an asset as a whole: an account that is not read does not make the
    asset stale, its failures report that. Reports have no policy: an upstream may take days to write one, or fail.
    """
    if dataset.source is Source.REPORT:
        return None
    warn, fail = _DISCOVERY if dataset.slicing is Slicing.CONNECTION else _DAILY
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)


def report_results(
    context: dg.AssetExecutionContext, dataset: Dataset, seller_api: SellerApiResource, results: Iterator[SliceResult]
) -> Iterator[object]:
    """Yield the events of each slice, and fail the step if slices failed.

    Of a slice that the upstream does not offer, and before the first day of a month, there is nothing to store.

    Raises:
        dagster.Failure: Some slices failed.
    """
    loop, database = PartitionLoop(context.log), seller_api.warehouse.database
    stored: dict[str, Receipt] = {}

    def failed(request: SliceRequest, error: SellerPlatformError) -> Iterator[object]:
        key = partition_key(request.account, request.month)
        loop.add(str(key), error, subject=str(request))
        published = None
        with suppress(WarehouseUnavailableError):
            published = newest_receipt(database, dataset, request.account, request.month)
        if published is not None:
            stored[key] = replace(published, changed=False)
        yield from evaluations_of_failure(context.instance, dataset, error, published, key)

    for result in results:
        key = partition_key(result.request.account, result.request.month)
        if isinstance(result.error, NotOfferedError):
            reason = str(result.error)
            context.log.warning("%s", reason)
            yield materialization_of_nothing(asset_key(dataset), key, reason, metadata={NOT_OFFERED: reason})
            yield from evaluations_of_nothing(context.instance, dataset, key, reason)
        elif result.error is not None:
            yield from failed(result.request, result.error)
        elif result.receipt is not None:
            stored[key] = result.receipt
            yield from load_events(context.instance, dataset, seller_api, result.receipt, key)
        elif not was_loaded(database, dataset, result.request.account, result.request.month):
            reason = f"{result.request}: the month has not begun in the account's time zone."
            yield materialization_of_nothing(asset_key(dataset), key, reason)
            yield from evaluations_of_nothing(context.instance, dataset, key, reason)
    if stored and LEDGERS_DO_NOT_REPEAT in checks_of(dataset):
        try:
            yield from evaluations_of_repeats(context.instance, database, stored)
        except WarehouseUnavailableError as error:
            context.log.warning("The accounts of a seller are not compared: %s", error)
    yield from outputs(context)
    loop.fail_partitions(dataset.name, "loaded")


def report_load(instance: dg.DagsterInstance, database: Database, receipt: Receipt) -> None:
    """Report a load that no run made: its materialization and its checks. A revert has no reading to check."""
    for event in load_reports(instance, database, receipt):
        if not (receipt.is_revert and isinstance(event, dg.AssetCheckEvaluation)):
            instance.report_runless_asset_event(event)


def load_reports(
    instance: dg.DagsterInstance, database: Database, receipt: Receipt
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Yield the materialization of any load, and then the evaluations of its checks."""
    dataset = dataset_named(receipt.dataset)
    by_name = {connection.name: connection for connection in connections(database)}
    partition = None
    if dataset.slicing is Slicing.CONNECTION:
        base_url = by_name[receipt.account].base_url
    else:
        base_url = by_name[account_of(database, receipt.account).connection].base_url
        month = Window.month_of(receipt.window.start) if dataset.is_dated else None
        partition = partition_key(receipt.account, month)
    names = AccountNames(database)
    yield from _events(instance, database, names, dataset, receipt, partition, base_url + dataset.path)
    if partition is not None and LEDGERS_DO_NOT_REPEAT in checks_of(dataset):
        yield from evaluations_of_repeats(instance, database, {partition: receipt})


def load_events(
    instance: dg.DagsterInstance, dataset: Dataset, seller_api: SellerApiResource, receipt: Receipt, partition: str
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Yield the materialization of a load, and then the evaluations of its checks."""
    endpoint_url = seller_api.url_of(receipt.account, dataset.path)
    warehouse = seller_api.warehouse
    yield from _events(instance, warehouse.database, warehouse.names, dataset, receipt, partition, endpoint_url)


def _events(  # noqa: PLR0917  # seven facts, each of another type
    instance: dg.DagsterInstance,
    database: Database,
    names: AccountNames,
    dataset: Dataset,
    receipt: Receipt,
    partition: str | None,
    endpoint_url: str,
) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    database_uri = database.uri
    yield materialization(
        dataset,
        receipt,
        partition=partition,
        endpoint_url=endpoint_url,
        database_uri=database_uri,
        account=names.get(receipt.account) if partition else None,
    )
    # A load of some days says nothing of other days of its partition, of which a reading may still be held.
    month = Window.month_of(receipt.window.start) if dataset.is_dated else None
    held = None if partition is None else open_hold(database, dataset, receipt.account, month)
    if held is None:
        yield from evaluations(instance, dataset, receipt, partition)
    else:
        yield from evaluations_of_failure(instance, dataset, held_error(held), receipt, partition)
