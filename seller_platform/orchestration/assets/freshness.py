"""The checks that each account is read as often as its schedule reads it, and the sensor that evaluates them.

Dagster's freshness policies are about an asset as a whole: an account that is not read leaves them green. These checks
belong to an asset of their own, because they are evaluated as time passes, and the checks of datasets after loads.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

import dagster as dg

from seller_platform.clocks import utc_now
from seller_platform.contract import REFRESHED, Dataset
from seller_platform.counts import count_of
from seller_platform.orchestration.assets.checks import judgement_of
from seller_platform.orchestration.assets.reporting import executed, report_judgements
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.receipts import offered_pairs
from seller_platform.warehouse.monitoring.problems import slice_problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.unread_slices import READ_WITHIN_HOURS, UNREAD_SLICES

FRESHNESS = dg.AssetKey(["platform", "freshness"])
SENSOR = "freshness_of_accounts"

_SECONDS_BETWEEN_TICKS = 300
_KINDS = {kind.name for kind in UNREAD_SLICES.kinds}


def freshness_definitions(placement: Placement = WHOLE, *, datasets: Sequence[Dataset] = REFRESHED) -> dg.Definitions:
    """Return the asset of freshness with its checks and their sensor, without the resource `warehouse`."""
    key = placement.key(FRESHNESS)
    spec = dg.AssetSpec(
        key,
        description="How old the newest reading of each dataset is, by account. It has checks only, one for each "
        "dataset; a sensor evaluates them.",
        group_name=placement.group_of("platform"),
    )
    specs = [dg.AssetCheckSpec(check_name_of(each), asset=key, description=_doc(each)) for each in datasets]

    @dg.multi_asset_check(name=placement.name_of("freshness"), specs=specs, can_subset=True)
    def freshness(
        context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource
    ) -> Iterator[dg.AssetCheckResult]:
        results = _results(warehouse.database, datasets, placement)
        yield from executed(context, key, (judgement for judgement, _ in results.values()))

    @dg.sensor(
        name=placement.name_of(SENSOR),
        description="Looks whether each account was read as often as its schedule reads it, and reports the checks "
        "when other accounts are late, and each hour.",
        target=dg.AssetSelection.checks_for_assets(key),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        # Without schedules, nothing is late.
        default_status=dg.DefaultSensorStatus.RUNNING if placement.schedules else dg.DefaultSensorStatus.STOPPED,
    )
    def freshness_of_accounts(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.SensorResult:
        results = _results(warehouse.database, datasets, placement)
        late = {name: accounts_late for name, (_, accounts_late) in results.items()}
        cursor = sha256(repr((f"{utc_now():%Y-%m-%d %H}", sorted(late.items()))).encode()).hexdigest()
        if cursor != context.cursor:
            report_judgements(context.instance, key, [judgement for judgement, _ in results.values()])
        number = count_of(sum(map(len, late.values())), "dataset", "is")
        return dg.SensorResult(skip_reason=f"{number} of accounts too old", cursor=cursor)

    return dg.Definitions(assets=[spec], asset_checks=[freshness], sensors=[freshness_of_accounts])


def check_name_of(dataset: Dataset) -> str:
    """Return the name of the check of a dataset's freshness."""
    return f"{dataset.name}_is_fresh"


def _doc(dataset: Dataset) -> str:
    return f"{dataset.table} of every account was read within {READ_WITHIN_HOURS} hours, with each day of its history."


_Results: TypeAlias = Mapping[str, tuple[dg.AssetCheckResult, Sequence[str]]]


def _results(database: Database, datasets: Sequence[Dataset], placement: Placement) -> _Results:
    """Return the result of each check, with the keys of the accounts that are late."""
    titles = {each.key: each.account.title for each in placement.chosen(accounts(database))}
    offered = [pair for pair in offered_pairs(database, datasets) if pair[1] in titles]
    found = slice_problems(database, [dataset.name for dataset in datasets], accounts=titles)
    results = {}
    for dataset in datasets:
        # The first of an account is that of its newest month.
        late = {
            each.account: each
            for each in reversed(found)
            if each.dataset == dataset.name and each.kind in _KINDS and each.severity != "note"
        }
        count = sum(name == dataset.name for name, _ in offered)
        name, numbers = check_name_of(dataset), {"accounts": count, "late_accounts": len(late)}
        checked = count_of(count, "account")
        results[name] = (
            judgement_of(name, _doc(dataset), checked, [*late.values()], numbers, titles=titles),
            sorted(late),
        )
    return results


def report_freshness(instance: dg.DagsterInstance, database: Database, datasets: Sequence[Dataset]) -> None:
    """Report the checks as the sensor does, before its first tick."""
    results = _results(database, datasets, WHOLE)
    report_judgements(instance, FRESHNESS, [judgement for judgement, _ in results.values()])
