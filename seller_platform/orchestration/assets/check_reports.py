"""Reports the results of checks: after each step that loads, by a sensor, and where *Execute* asks for them.

Dagster takes the newest of a check's executions for the current one, and an execution is as new as the planning of its
run. A result that is reported without a run is newer than all that were planned before. The sensor reports again what
other runs have planned since, so that a result is hidden for one tick at the longest.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import dagster as dg
import msgspec

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, Slicing
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.orchestration.assets.authorization import AUTHORIZED_CHECK, AUTHORIZED_DOC, judge_connections_again
from seller_platform.orchestration.assets.checks import Judgement, checks_of, judgements
from seller_platform.orchestration.assets.events import judged
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts, connections
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.monitoring.doubtful_slices import changed_datasets
from seller_platform.warehouse.monitoring.repeated_ledgers import LEDGER, compare_ledgers
from seller_platform.warehouse.postgres.database import Database

SENSOR = "checks_of_slices"

_SECONDS_BETWEEN_TICKS = 30
_RUNS_AT_ONCE = 1_000


def check_definitions(datasets: Collection[Dataset], placement: Placement = WHOLE) -> dg.Definitions:
    """Return the checks of datasets and their sensor, without the resource `warehouse`."""
    return dg.Definitions(
        asset_checks=[checks_for(dataset, placement) for dataset in datasets],
        sensors=[_check_sensor(datasets, placement)],
    )


def checks_for(dataset: Dataset, placement: Placement = WHOLE) -> dg.AssetChecksDefinition:
    """Return the checks of a dataset, which count the stored rows again if nothing is loaded in the same run."""
    key = placement.asset_key(dataset)
    docs = {rule.name: rule.doc for rule in checks_of(dataset)}
    if dataset == ACCOUNTS:
        docs[AUTHORIZED_CHECK] = AUTHORIZED_DOC
    specs = [dg.AssetCheckSpec(name, asset=key, description=doc) for name, doc in docs.items()]

    @dg.multi_asset_check(name=f"checks_of_{key.to_python_identifier()}", specs=specs, can_subset=True)
    def execute(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> Iterator[dg.AssetCheckResult]:
        database = warehouse.database
        if not context.run.asset_selection:
            recount(database, dataset)
            if dataset == LEDGER:
                compare_ledgers(database)
        yield from executed(context, key, _all_judgements(context.instance, warehouse, placement, dataset))

    return execute


def _all_judgements(
    instance: dg.DagsterInstance, warehouse: WarehouseResource, placement: Placement, dataset: Dataset
) -> Iterator[tuple[str, Judgement]]:
    yield from judgements(warehouse.database, dataset, _keys(warehouse.database, placement, dataset))
    if dataset == ACCOUNTS:
        yield AUTHORIZED_CHECK, judge_connections_again(instance, warehouse, placement)


def executed(
    context: dg.AssetCheckExecutionContext, key: dg.AssetKey, results: Iterable[tuple[str, Judgement]]
) -> Iterator[dg.AssetCheckResult]:
    """Yield the results of the checks that a run has chosen."""
    chosen = {check.name for check in context.selected_asset_check_keys}
    for name, judgement in results:
        if name in chosen:
            evaluation = judgement.evaluation(key, name, None)
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=name,
                passed=evaluation.passed,
                severity=evaluation.severity,
                description=evaluation.description,
                metadata=evaluation.metadata,
            )


def report_checks(
    instance: dg.DagsterInstance, database: Database, placement: Placement, datasets: Collection[Dataset]
) -> None:
    """Report the results of all checks of datasets without a run, from their slices as they are now."""
    for dataset in datasets:
        results = judgements(database, dataset, _keys(database, placement, dataset))
        report_judgements(instance, placement.asset_key(dataset), results)


def _keys(database: Database, placement: Placement, dataset: Dataset) -> Collection[str] | None:
    """Return the accounts or connections that a component reads; None for all, retired ones included."""
    if placement.is_whole:
        return None
    if dataset.slicing is Slicing.CONNECTION:
        return {each.name for each in placement.chosen(connections(database))}
    return {each.key for each in placement.chosen(accounts(database, with_retired=True))}


def report_judgements(instance: dg.DagsterInstance, key: dg.AssetKey, results: Iterable[tuple[str, Judgement]]) -> None:
    """Report results of an asset's checks without a run, for its newest materialization."""
    target = judged(instance, key, None)
    for name, judgement in results:
        instance.report_runless_asset_event(judgement.evaluation(key, name, target))


def report_after_step(
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    database: Database,
    placement: Placement,
    *datasets: Dataset,
) -> None:
    """Report the checks of what a step has loaded; without the warehouse that is left to the sensor."""
    try:
        report_checks(context.instance, database, placement, datasets)
    except WarehouseUnavailableError as error:
        context.log.warning("The checks are reported later: %s", error)


class _Cursor(msgspec.Struct, frozen=True):
    """What the sensor has reported: the snapshot of the slices, and the newest change of a run."""

    snapshot: str = ""
    runs_to: str = ""


def _check_sensor(datasets: Collection[Dataset], placement: Placement) -> dg.SensorDefinition:
    by_name = {dataset.name: dataset for dataset in datasets}
    names_by_key = {placement.asset_key(dataset): dataset.name for dataset in datasets}

    @dg.sensor(
        name=placement.name_of(SENSOR),
        description="Reports the checks of datasets whose slices changed, or of which runs were planned or ended.",
        target=dg.AssetSelection.checks_for_assets(*names_by_key),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def checks_of_slices(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.SensorResult:
        cursor = _Cursor()
        with suppress(msgspec.DecodeError):
            cursor = msgspec.json.decode(context.cursor or "{}", type=_Cursor)
        changed, snapshot = changed_datasets(warehouse.database, cursor.snapshot)
        planned, runs_to = _planned(context.instance, names_by_key, cursor.runs_to)
        names = by_name.keys() if changed is None else (changed | planned) & by_name.keys()
        for dataset in (by_name[name] for name in sorted(names)):
            results = _all_judgements(context.instance, warehouse, placement, dataset)
            report_judgements(context.instance, placement.asset_key(dataset), results)
        return dg.SensorResult(
            skip_reason=f"{count_of(len(names), 'dataset', 'has')} changed",
            cursor=msgspec.json.encode(_Cursor(snapshot, runs_to)).decode(),
        )

    return checks_of_slices


def _planned(instance: dg.DagsterInstance, names: dict[dg.AssetKey, str], runs_to: str) -> tuple[frozenset[str], str]:
    """Return the datasets with checks in runs that began, ended or were requested since, and the newest such moment."""
    since = datetime.fromisoformat(runs_to) if runs_to else utc_now() - timedelta(hours=1)
    records = instance.get_run_records(
        dg.RunsFilter(updated_after=since), limit=_RUNS_AT_ONCE, order_by="update_timestamp", ascending=True
    )
    newest = max((record.update_timestamp for record in records), default=since)
    checks = {
        key
        for record in records
        for key in (
            *(record.dagster_run.asset_selection or ()),
            *(check.asset_key for check in record.dagster_run.asset_check_selection or ()),
        )
    }
    return frozenset(names[key] for key in checks if key in names), newest.isoformat()
