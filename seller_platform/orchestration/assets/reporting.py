"""Reports to Dagster without a run: loads that no step has reported, and the results of checks.

A sensor does both, commands do at their end, and steps report their checks. `platform.slices` says of each slice which
load Dagster knows. The loads of a run that has not ended are left to its step. A load is reported twice if a process is
killed between its report and the mark; that does no harm, because both say the same.

Dagster takes the newest of a check's executions for the current one, and an execution is as new as the planning of its
run. A result that is reported without a run is newer than all that were planned before. The sensor reports it again if
another run has planned the check since, so that a result is hidden for one tick at the longest.
"""

import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TypeAlias

import dagster as dg
import msgspec

from seller_platform.clocks import utc_now
from seller_platform.contract import DATASETS, Dataset
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import WarehouseUnavailableError
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.orchestration.assets.checks import checks_of, judgements, problem_name
from seller_platform.orchestration.assets.events import load_event
from seller_platform.orchestration.dagster_internals import AssetCheckEvaluationTargetMaterializationData
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.orchestration.tags import under_way
from seller_platform.warehouse.connections.accounts import accounts as known_accounts
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.derived.builds import recheck
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.loads.receipts import keep_reported, unreported_loads
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.monitoring.metrics import changed_datasets
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database

SENSOR = "checks_of_slices"

# Dagster ends an evaluation after 60 s.
_LOADS_SECONDS = 25.0
_LOADS_AT_ONCE = 100
_RUNS_AT_ONCE = 1_000


Source: TypeAlias = Dataset | Mart


def check_definitions(sources: Collection[Source], placement: Placement = WHOLE) -> dg.Definitions:
    """Return the checks of datasets and marts and their sensor, without the resource `warehouse`."""
    by_key = {placement.asset_key(source): source for source in sources}
    datasets = [source for source in sources if isinstance(source, Dataset)]

    @placement.sensor(
        SENSOR,
        "Reports loads of commands and of killed runs as materializations without a run, the checks of "
        "datasets whose slices changed, those of assets with runs that began or ended, and each hour all.",
    )
    def checks_of_slices(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.SensorResult:
        cursor = _Cursor()
        with suppress(msgspec.DecodeError):
            cursor = msgspec.json.decode(context.cursor or "{}", type=_Cursor)
        loads = report(context.instance, warehouse.database, placement, datasets, seconds=_LOADS_SECONDS)
        changed, snapshot = changed_datasets(warehouse.database, cursor.snapshot)
        planned, runs_to = _planned(context.instance, cursor.runs_to)
        hour = f"{utc_now():%Y-%m-%d %H}"  # slices become late as time passes
        chosen = [
            source
            for key, source in by_key.items()
            if (changed is None or hour != cursor.hour or key in planned)
            or (isinstance(source, Dataset) and source.name in changed)
        ]
        report_checks(context.instance, warehouse.database, placement, chosen)
        return dg.SensorResult(
            skip_reason=f"{count_of(loads, 'load', 'was')} reported, {count_of(len(chosen), 'asset', 'has')} changed",
            cursor=msgspec.json.encode(_Cursor(snapshot, runs_to, hour)).decode(),
        )

    checks = [checks_for(source, placement) for source in sources]
    return dg.Definitions(asset_checks=checks, sensors=[checks_of_slices])


def checks_for(source: Source, placement: Placement = WHOLE) -> dg.AssetChecksDefinition:
    """Return the checks of a dataset or a mart.

    If nothing is loaded in the same run, they look at the rows again, which another program may have changed.
    """
    key = placement.asset_key(source)
    specs = [dg.AssetCheckSpec(each.name, asset=key, description=each.doc) for each in checks_of(source)]

    @dg.multi_asset_check(name=f"checks_of_{key.to_python_identifier()}", specs=specs, can_subset=True)
    def execute(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> Iterator[dg.AssetCheckResult]:
        database = warehouse.database
        is_run_of_checks_alone = not context.run.asset_selection
        if is_run_of_checks_alone:
            if isinstance(source, Dataset):
                recount(database, source)
                for rule in checks_of(source):
                    if rule.recount is not None:
                        rule.recount(database)
            else:
                recheck(database, source)
        chosen = {check.name for check in context.selected_asset_check_keys}
        for each in judgements(database, source, owners_read(database, placement), placement):
            if each.check_name in chosen:
                yield each._replace(asset_key=key)

    return execute


def report(
    instance: dg.DagsterInstance,
    database: Database,
    placement: Placement = WHOLE,
    datasets: Collection[Dataset] = DATASETS,
    *,
    accounts: Collection[str] | None = None,
    seconds: float = float("inf"),
) -> int:
    """Report the newest load of each slice that Dagster does not know yet, and then the checks of their datasets.

    A step that computes something of the slices calls it before it reads them: a load that is reported later would make
    its partitions outdated.

    Args:
        datasets: Those that have assets.
        accounts: The accounts whose loads are reported; None for all.
        seconds: After how many seconds no more loads are begun; the next call reports the rest.

    Returns:
        How many loads were reported.
    """
    of_component = owners_read(database, placement)
    if of_component is not None:
        accounts = of_component if accounts is None else of_component & set(accounts)
    names = AccountNames(database)
    after, count, deadline, changed = 0, 0, time.monotonic() + seconds, set[str]()
    while time.monotonic() < deadline:
        with unreported_loads(database, datasets, accounts=accounts, limit=_LOADS_AT_ONCE, after=after) as loads:
            if not loads:
                break
            run_ids = sorted({each.run_id for each in loads if each.run_id})
            runs = instance.get_runs(under_way(run_ids=run_ids)) if run_ids else ()
            unfinished = {run.run_id for run in runs}
            chosen = [each for each in loads if each.run_id not in unfinished]
            of_accounts = {each.account for each in chosen if each.dataset != ACCOUNTS.name}
            if of_accounts:
                add_accounts(instance, of_accounts, placement.accounts_name)
            for each in chosen:
                instance.report_runless_asset_event(load_event(each, placement, names))
            keep_reported(database, [each.id for each in chosen])
            changed |= {each.dataset for each in chosen}
            count, after = count + len(chosen), loads[-1].id
    report_checks(instance, database, placement, [each for each in datasets if each.name in changed])
    return count


def report_checks(
    instance: dg.DagsterInstance, database: Database, placement: Placement, sources: Collection[Source]
) -> None:
    """Report the results of all checks of datasets or marts without a run, from what is stored now."""
    if not sources:
        return
    owners, by_key = owners_read(database, placement), {placement.asset_key(source): source for source in sources}
    with database.begin() as connection:
        # Another process would report its results later, though it had computed them earlier.
        for name in sorted(key.to_user_string() for key in by_key):
            lock(connection, f"checks|{name}")
        problems = slice_problems(database, [*map(problem_name, sources)], accounts=owners)
        for key, source in by_key.items():
            report_judgements(instance, key, judgements(database, source, owners, placement, problems))


def owners_read(database: Database, placement: Placement) -> set[str] | None:
    """Return the accounts, retired ones included, and the connections whose slices a component reads; None for all."""
    if placement.is_whole:
        return None
    names = {each.name for each in placement.chosen(connections(database))}
    return names | {each.key for each in placement.chosen(known_accounts(database, with_retired=True))}


def report_judgements(instance: dg.DagsterInstance, key: dg.AssetKey, results: Iterable[dg.AssetCheckResult]) -> None:
    """Report results of an asset's checks without a run, for its newest materialization.

    A result is left out if the newest execution of its check has the same: a step has just reported it.
    """
    judged = [
        AssetCheckEvaluationTargetMaterializationData(
            storage_id=each.storage_id, run_id=each.run_id, timestamp=each.timestamp
        )
        for each in instance.fetch_materializations(key, limit=1).records
    ]
    evaluations = [
        dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=str(each.check_name),
            passed=each.passed,
            severity=each.severity,
            description=each.description,
            metadata=each.metadata,
            target_materialization_data=judged[0] if judged else None,
        )
        for each in results
    ]
    newest = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [each.asset_check_key for each in evaluations]
    )
    for evaluation in evaluations:
        execution = newest.get(evaluation.asset_check_key)
        if execution is None or execution.evaluation != evaluation:
            instance.report_runless_asset_event(evaluation)


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
    """What the sensor has reported: the snapshot of the slices, the newest change of a run, and the hour."""

    snapshot: str = ""
    runs_to: str = ""
    hour: str = ""


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
