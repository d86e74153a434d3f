"""The checks that each account is read as often as its schedule reads it, and the sensor that evaluates them.

Dagster's freshness policies are about an asset as a whole: an account that is not read leaves them green. These checks
belong to an asset of their own, because they are evaluated as time passes, and the checks of datasets after loads.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TypeAlias

import dagster as dg

from seller_platform.clocks import Clock, utc_now
from seller_platform.contract import REFRESHED, Dataset
from seller_platform.counts import count_of
from seller_platform.orchestration.assets.checks import Breach, judgement_of
from seller_platform.orchestration.assets.reporting import executed, report_judgements
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.monitoring.freshness import READ_WITHIN, LastReading, last_readings
from seller_platform.warehouse.postgres.database import Database

FRESHNESS = dg.AssetKey(["platform", "freshness"])
SENSOR = "freshness_of_accounts"

_SECONDS_BETWEEN_TICKS = 300


def freshness_definitions(
    placement: Placement = WHOLE,
    *,
    datasets: Sequence[Dataset] = REFRESHED,
    schedules: bool = True,
    clock: Clock = utc_now,
) -> dg.Definitions:
    """Return the asset of freshness with its checks and their sensor, without the resource `warehouse`.

    Args:
        schedules: Whether the schedules are on when they are first loaded; without them, nothing is late.
    """
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
        results = _results(warehouse.database, datasets, clock(), placement)
        yield from executed(context, key, (judgement for judgement, _ in results.values()))

    @dg.sensor(
        name=placement.name_of(SENSOR),
        description="Looks whether each account was read as often as its schedule reads it, and reports the checks "
        "when other accounts are late, and each hour.",
        target=dg.AssetSelection.checks_for_assets(key),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING if schedules else dg.DefaultSensorStatus.STOPPED,
    )
    def freshness_of_accounts(context: dg.SensorEvaluationContext, warehouse: WarehouseResource) -> dg.SensorResult:
        now = clock()
        results = _results(warehouse.database, datasets, now, placement)
        late = {name: accounts_late for name, (_, accounts_late) in results.items()}
        cursor = sha256(repr((f"{now:%Y-%m-%d %H}", sorted(late.items()))).encode()).hexdigest()
        if cursor != context.cursor:
            report_judgements(context.instance, key, [judgement for judgement, _ in results.values()])
        number = count_of(sum(map(len, late.values())), "dataset", "is")
        return dg.SensorResult(skip_reason=f"{number} of accounts too old", cursor=cursor)

    return dg.Definitions(assets=[spec], asset_checks=[freshness], sensors=[freshness_of_accounts])


def check_name_of(dataset: Dataset) -> str:
    """Return the name of the check of a dataset's freshness."""
    return f"{dataset.name}_is_fresh"


def _doc(dataset: Dataset) -> str:
    hours = count_of(READ_WITHIN // timedelta(hours=1), "hour")
    return f"{dataset.table} of every account was read within {hours}."


_Results: TypeAlias = Mapping[str, tuple[dg.AssetCheckResult, Sequence[str]]]


def _results(database: Database, datasets: Sequence[Dataset], now: datetime, placement: Placement) -> _Results:
    """Return the result of each check, with the keys of the accounts that are late."""
    listed = placement.chosen(accounts(database))
    titles = {each.key: each.account.title for each in listed}
    readings: dict[str, list[LastReading]] = {dataset.name: [] for dataset in datasets}
    for reading in last_readings(database, datasets, listed, now=now):
        readings[reading.dataset].append(reading)
    results = {}
    for dataset in datasets:
        of_dataset = readings[dataset.name]
        oldest = max((each.age_hours(now) for each in of_dataset), default=0.0)
        late = [each for each in of_dataset if each.age_hours(now) * timedelta(hours=1) > READ_WITHIN]
        broken = [_breach_of(each, titles[each.account], now) for each in late]
        numbers = {"accounts": len(of_dataset), "late_accounts": len(late), "oldest_hours": round(oldest, 1)}
        name, checked = check_name_of(dataset), count_of(len(of_dataset), "account")
        judgement = judgement_of(name, _doc(dataset), checked, broken, numbers)
        results[name] = judgement, [each.account for each in late]
    return results


def report_freshness(instance: dg.DagsterInstance, database: Database, datasets: Sequence[Dataset]) -> None:
    """Report the checks as the sensor does, before its first tick."""
    results = _results(database, datasets, utc_now(), WHOLE)
    report_judgements(instance, FRESHNESS, [judgement for judgement, _ in results.values()])


def _breach_of(reading: LastReading, title: str, now: datetime) -> Breach:
    since, hours = reading.read_at or reading.first_seen_at, count_of(round(reading.age_hours(now)), "hour")
    reason = f"it was last read at {since:%Y-%m-%d %H:%M} UTC, {hours} ago; the schedule reads it every day"
    if reading.read_at is None:
        reason = f"it was never read since the account was discovered, {hours} ago; the schedule reads it every day"
    step = (
        "Open the newest run of the account for the reason, and check that the schedules and the daemon run; then "
        f"launch the job refresh_now with the account {reading.account} and the dataset {reading.dataset}."
    )
    return Breach(reading.account, title, None, since, reason, step)
