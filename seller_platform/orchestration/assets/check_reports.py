"""Reports the results of checks: after each step that loads, by a sensor, and where *Execute* asks for them.

Dagster takes the newest of a check's executions for the current one, and an execution is as new as the planning of its
run. A result that is reported without a run is newer than all that were planned before. The sensor reports again what
other runs have planned since, so that a result is hidden for one tick at the longest.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeAlias

import dagster as dg
import msgspec

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.orchestration.assets.authorization import AUTHORIZED_CHECK, AUTHORIZED_DOC, judge_connections_again
from seller_platform.orchestration.assets.checks import Judgement, docs_of, judgements
from seller_platform.orchestration.assets.events import judged
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts, connections
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.marts import Mart
from seller_platform.warehouse.marts.builds import recheck
from seller_platform.warehouse.monitoring.doubtful_slices import changed_datasets
from seller_platform.warehouse.monitoring.repeated_ledgers import LEDGER, compare_ledgers
from seller_platform.warehouse.postgres.database import Database

SENSOR = "checks_of_slices"

_SECONDS_BETWEEN_TICKS = 30
_RUNS_AT_ONCE = 1_000


Source: TypeAlias = Dataset | Mart


def check_definitions(sources: Collection[Source], placement: Placement = WHOLE) -> dg.Definitions:
    """Return the checks of datasets and marts and their sensor, without the resource `warehouse`."""
    return dg.Definitions(
        asset_checks=[checks_for(source, placement) for source in sources],
        sensors=[_check_sensor(sources, placement)],
    )


def checks_for(source: Source, placement: Placement = WHOLE) -> dg.AssetChecksDefinition:
    """Return the checks of a dataset or a mart.

    If nothing is loaded in the same run, they look at the rows again, which another program may have changed.
    """
    key = placement.asset_key(source)
    docs = docs_of(source) | ({AUTHORIZED_CHECK: AUTHORIZED_DOC} if source == ACCOUNTS else {})
    specs = [dg.AssetCheckSpec(name, asset=key, description=doc) for name, doc in docs.items()]

    @dg.multi_asset_check(name=f"checks_of_{key.to_python_identifier()}", specs=specs, can_subset=True)
    def execute(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> Iterator[dg.AssetCheckResult]:
        database = warehouse.database
        if not context.run.asset_selection:
            if isinstance(source, Dataset):
                recount(database, source)
            else:
                recheck(database, source)
            if source == LEDGER:
                compare_ledgers(database)
        yield from executed(context, key, _all_judgements(context.instance, warehouse, placement, source))

    return execute


def _all_judgements(
    instance: dg.DagsterInstance, warehouse: WarehouseResource, placement: Placement, source: Source
) -> Iterator[tuple[str, Judgement]]:
    yield from judgements(warehouse.database, source, _keys(warehouse.database, placement, source))
    if source == ACCOUNTS:
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
    instance: dg.DagsterInstance, database: Database, placement: Placement, sources: Collection[Source]
) -> None:
    """Report the results of all checks of datasets or marts without a run, from what is stored now."""
    for source in sources:
        results = judgements(database, source, _keys(database, placement, source))
        report_judgements(instance, placement.asset_key(source), results)


def _keys(database: Database, placement: Placement, source: Source) -> Collection[str] | None:
    """Return the accounts or connections that a component reads; None for all, retired ones included."""
    if placement.is_whole:
        return None
    if source == ACCOUNTS:
        return {each.name for each in placement.chosen(connections(database))}
    return {each.key for each in placement.chosen(accounts(database, with_retired=True))}


def report_judgements(instance: dg.DagsterInstance, key: dg.AssetKey, results: Iterable[tuple[str, Judgement]]) -> None:
    """Report results of an asset's checks without a run, for its newest materialization."""
    target = judged(instance, key)
    for name, judgement in results:
        instance.report_runless_asset_event(judgement.evaluation(key, name, target))


def report_after_step(
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    database: Database,
    placement: Placement,
    *sources: Source,
) -> None:
    """Report the checks of what a step has loaded or built; without the warehouse that is left to the sensor."""
    try:
        report_checks(context.instance, database, placement, sources)
    except WarehouseUnavailableError as error:
        context.log.warning("The checks are reported later: %s", error)


class _Cursor(msgspec.Struct, frozen=True):
    """What the sensor has reported: the snapshot of the slices, and the newest change of a run."""

    snapshot: str = ""
    runs_to: str = ""


def _check_sensor(sources: Collection[Source], placement: Placement) -> dg.SensorDefinition:
    by_key = {placement.asset_key(source): source for source in sources}

    @dg.sensor(
        name=placement.name_of(SENSOR),
        description="Reports the checks of datasets whose slices changed, and of assets with runs that began or ended.",
        target=dg.AssetSelection.checks_for_assets(*by_key),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def checks_of_slices(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.SensorResult:
        cursor = _Cursor()
        with suppress(msgspec.DecodeError):
            cursor = msgspec.json.decode(context.cursor or "{}", type=_Cursor)
        changed, snapshot = changed_datasets(warehouse.database, cursor.snapshot)
        planned, runs_to = _planned(context.instance, cursor.runs_to)
        chosen = {
            key: source
            for key, source in by_key.items()
            if changed is None or key in planned or (isinstance(source, Dataset) and source.name in changed)
        }
        for key, source in chosen.items():
            report_judgements(context.instance, key, _all_judgements(context.instance, warehouse, placement, source))
        return dg.SensorResult(
            skip_reason=f"{count_of(len(chosen), 'asset', 'has')} changed",
            cursor=msgspec.json.encode(_Cursor(snapshot, runs_to)).decode(),
        )

    return checks_of_slices


def _planned(instance: dg.DagsterInstance, runs_to: str) -> tuple[frozenset[dg.AssetKey], str]:
    """Return the assets with checks in runs that began, ended or were requested since, and the newest such moment."""
    since = datetime.fromisoformat(runs_to) if runs_to else utc_now() - timedelta(hours=1)
    records = instance.get_run_records(
        dg.RunsFilter(updated_after=since), limit=_RUNS_AT_ONCE, order_by="update_timestamp", ascending=True
    )
    newest = max((record.update_timestamp for record in records), default=since)
    runs = [record.dagster_run for record in records]
    assets = {key for run in runs for key in run.asset_selection or ()}
    checked = {check.asset_key for run in runs for check in run.asset_check_selection or ()}
    return frozenset(assets | checked), newest.isoformat()
