"""The checks that each account is read as often as its schedule reads it, and the sensor that evaluates them.

Dagster's freshness policies are about an asset as a whole: an account that is not read leaves them green. Checks of an
asset have its partitions, which are months where a dataset is dated. Therefore these checks belong to an asset of their
own, with a partition for each account.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import dagster as dg

from seller_platform.clocks import Clock, utc_now
from seller_platform.contract import REFRESHED, Dataset
from seller_platform.counts import count_of
from seller_platform.orchestration.assets.check_runs import chosen_partitions, reported
from seller_platform.orchestration.assets.checks import Judgement
from seller_platform.orchestration.assets.events import outputs
from seller_platform.orchestration.instance.check_results import judged_partitions
from seller_platform.orchestration.partitions import account_partitions
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.monitoring.freshness import READ_WITHIN, LastReading, last_readings
from seller_platform.warehouse.postgres.database import Database

FRESHNESS = dg.AssetKey(["platform", "freshness"])
SENSOR = "freshness_of_accounts"

_SECONDS_BETWEEN_TICKS = 300
# A run that takes longer counts as lost.
_LONGEST_RUN = timedelta(hours=1)
_UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]


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
    spec = dg.AssetSpec(
        placement.key(FRESHNESS),
        description="How old the newest reading of each dataset is, by account. It has checks only, one for each "
        "dataset; a sensor evaluates them.",
        group_name=placement.group_of("platform"),
        partitions_def=placement.account_partitions,
    )
    return dg.Definitions(
        assets=[spec],
        asset_checks=[_freshness_checks(datasets, clock, placement)],
        sensors=[_freshness_sensor(datasets, clock, placement, schedules=schedules)],
    )


def check_name_of(dataset: Dataset) -> str:
    """Return the name of the check of a dataset's freshness."""
    return _check_name(dataset.name)


def judgement_of(reading: LastReading, now: datetime) -> Judgement:
    """Return whether an account was read as often as its schedule reads it."""
    age = reading.age_hours(now)
    metadata = {"age_hours": round(age, 1), "allowed_hours": READ_WITHIN / timedelta(hours=1)}
    if age * timedelta(hours=1) <= READ_WITHIN:
        return Judgement(passed=True, description=f"It was read at {_moment(reading)}.", metadata=metadata)
    was_read = f"was last read at {_moment(reading)}, {count_of(round(age), 'hour')} ago"
    if reading.read_at is None:
        was_read = f"was never read since the account was discovered, {count_of(round(age), 'hour')} ago"
    return Judgement(
        passed=False,
        description=f"{reading.dataset} of account {reading.account} {was_read}; the schedule reads it every day. "
        "Open the newest run of the account for the reason, and check that the schedules and the daemon run; then "
        f"launch the job refresh_now with the account {reading.account} and the dataset {reading.dataset}.",
        metadata=metadata,
    )


def _moment(reading: LastReading) -> str:
    return f"{reading.read_at or reading.first_seen_at:%Y-%m-%d %H:%M} UTC"


def _freshness_checks(datasets: Sequence[Dataset], clock: Clock, placement: Placement) -> dg.AssetChecksDefinition:
    key, partitions = placement.key(FRESHNESS), placement.account_partitions
    specs = [
        dg.AssetCheckSpec(
            check_name_of(dataset),
            asset=key,
            description=f"{dataset.table} of the account was read within "
            f"{count_of(READ_WITHIN // timedelta(hours=1), 'hour')}.",
            partitions_def=partitions,
        )
        for dataset in datasets
    ]

    @dg.multi_asset_check(name=placement.name_of("freshness"), specs=specs, can_subset=True)
    def freshness(context: dg.AssetCheckExecutionContext, warehouse: WarehouseResource) -> Iterator[object]:
        chosen = chosen_partitions(context)
        results = _results(context.instance, warehouse.database, datasets, clock(), placement)
        of_chosen = ((key, result) for key, result in results.items() if chosen is None or key in chosen)
        yield from reported(context, key, partitions, of_chosen, chosen=chosen, repeats_failures=False)
        yield from outputs(context)

    return freshness


def _results(
    instance: dg.DagsterInstance, database: Database, datasets: Sequence[Dataset], now: datetime, placement: Placement
) -> Mapping[str, Mapping[str, Judgement]]:
    """Return the results of each account, also of those that failed before and are not read any more."""
    listed = {each.key for each in placement.chosen(accounts(database))}
    listed &= set(account_partitions(instance, placement.accounts_name))
    checks = _checks(datasets, placement)
    results: dict[str, dict[str, Judgement]] = defaultdict(dict)
    for name, state in judged_partitions(instance, checks, placement.account_partitions).items():
        for account in state.failed:
            results[account][name] = _not_expected(account)
    for reading in last_readings(database, datasets, now=now):
        if reading.account in listed:
            results[reading.account][_check_name(reading.dataset)] = judgement_of(reading, now)
    return results


def _checks(datasets: Sequence[Dataset], placement: Placement) -> list[dg.AssetCheckKey]:
    return [dg.AssetCheckKey(placement.key(FRESHNESS), check_name_of(dataset)) for dataset in datasets]


def _check_name(dataset: str) -> str:
    return f"{dataset}_is_fresh"


def _not_expected(account: str) -> Judgement:
    return Judgement(
        passed=True,
        description=f"Account {account} is not read any more: it is retired, or cannot be read, which the check "
        "accounts_are_usable of seller/accounts reports.",
    )


def _freshness_sensor(
    datasets: Sequence[Dataset], clock: Clock, placement: Placement, *, schedules: bool
) -> dg.SensorDefinition:
    checks, name = _checks(datasets, placement), placement.name_of(SENSOR)

    @dg.sensor(
        name=name,
        description="Looks whether each account was read as often as its schedule reads it, and requests a run of the "
        "checks when a result changes.",
        target=dg.AssetSelection.checks_for_assets(placement.key(FRESHNESS)),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING if schedules else dg.DefaultSensorStatus.STOPPED,
    )
    def freshness_of_accounts(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        now, instance = clock(), context.instance
        of_sensor = dg.RunsFilter(
            tags={"dagster/sensor_name": name}, statuses=_UNDER_WAY, created_after=now - _LONGEST_RUN
        )
        if instance.get_runs_count(of_sensor):
            return dg.SkipReason("a run of the checks is under way")
        results = _results(instance, warehouse.database, datasets, now, placement)
        states = judged_partitions(instance, checks, placement.account_partitions)
        changed = {
            check
            for account, of_checks in results.items()
            for check, judgement in of_checks.items()
            if account not in (states[check].passed if judgement.passed else states[check].failed)
        }
        if changed:
            return dg.RunRequest(asset_selection=[], asset_check_keys=[key for key in checks if key.name in changed])
        late = sum(not judgement.passed for of_checks in results.values() for judgement in of_checks.values())
        return dg.SkipReason(f"no result has changed; {count_of(late, 'dataset')} of accounts are too old")

    return freshness_of_accounts
