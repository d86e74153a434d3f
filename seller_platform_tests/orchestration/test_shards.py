"""Tests components that share the accounts of one warehouse: each account is read, checked and alerted by one."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import Account, dataset_named
from seller_platform.errors import UpstreamUnavailableError
from seller_platform.orchestration.alerting.sensors import alert_definitions
from seller_platform.orchestration.assets.exports import export_followers, export_key
from seller_platform.orchestration.assets.reporting import report
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.jobs.acceptance import accept_job
from seller_platform.orchestration.partitions import account_partitions, add_accounts, partition_key
from seller_platform.orchestration.placement import Placement, Shard
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.settings import read_settings
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform, hold_february, newest_checks
from seller_platform_tests.support.receipts import store_receipt
from seller_platform_tests.support.stored_rows import connect_accounts

IN_THIRD, IN_FIRST = sorted(independent_upstream.KEYS.values())
FIRST, THIRD = (Placement(key_prefix=(f"shard_{number}",), shard=Shard(number, 3)) for number in (1, 3))
ACCOUNTS, ORDERS = dataset_named("accounts"), dataset_named("orders")
AT = datetime(2026, 3, 20, 11, tzinfo=UTC)
_KEYS = [f"A{number:03}.US" for number in range(60)]
_MONTHS = ["2026-01-01", "2026-02-01", "2026-03-01"]
_ACCOUNT = Account(1, "Shop", "DE", "EUR", "Europe/Berlin", "DE", "S")


def _definitions(placement: Placement, datasets: Sequence[str] | None = None) -> dg.Definitions:
    assert placement.shard is not None
    component = SellerPlatformComponent(
        key_prefix=placement.key_prefix, shard=placement.shard.number, shards=placement.shard.count, datasets=datasets
    )
    return component.definitions(read_settings(), HISTORY_START)


def _of_shards(keys: Collection[str], count: int) -> dict[str, list[int]]:
    return {key: [number for number in range(1, count + 1) if Shard(number, count).has(key)] for key in keys}


def test_every_account_belongs_to_one_shard_which_never_changes() -> None:
    keys = [f"A{number:013}.US" for number in range(5_000)]
    of_five, of_six = _of_shards(keys, 5), _of_shards(keys, 6)

    assert {len(numbers) for numbers in (*of_five.values(), *of_six.values())} == {1}
    sizes = Counter(number for (number,) in of_five.values())
    assert all(900 < size < 1_100 for size in sizes.values()), sizes
    assert {of_six[key][0] for key in keys if of_six[key] != of_five[key]} == {6}
    # Users have these numbers in their projects.
    assert [_of_shards([key], 5)[key] for key in ("A1B2C3.US", IN_THIRD, IN_FIRST)] == [[1], [3], [5]]


def test_only_the_first_shard_reports_what_concerns_the_instance() -> None:
    components = {each.key_prefix[0]: _definitions(each) for each in (FIRST, THIRD)}

    names = {each.name for each in dg.Definitions.merge(*components.values()).get_repository_def().sensor_defs}

    of_first, of_third = (
        {name.removeprefix(f"{prefix}_") for name in names if name.startswith(prefix)} for prefix in components
    )
    assert of_third < of_first
    assert of_first - of_third == {"run_failures", "check_failures", "security_events"}


def _discover(platform: Platform, placement: Placement, cursor: str | None = None) -> dg.SensorResult:
    """Evaluate the sensor of discovery, and add the partitions that it requests."""
    definitions = _definitions(placement)
    sensor = definitions.resolve_sensor_def(placement.name_of("discover_accounts"))
    with dg.build_sensor_context(
        platform.instance, cursor=cursor, resources=platform.resources, definitions=definitions
    ) as context:
        result = sensor(context)
    assert isinstance(result, dg.SensorResult)
    for request in result.dynamic_partitions_requests or ():
        assert isinstance(request, dg.AddDynamicPartitionsRequest)
        platform.instance.add_dynamic_partitions(request.partitions_def_name, request.partition_keys)
    return result


def test_one_shard_asks_for_accounts_and_each_adds_its_own(platform: Platform) -> None:
    before, of_first, new_load = (_discover(platform, each) for each in (THIRD, FIRST, THIRD))
    with platform.database.begin() as connection:  # the clock of PostgreSQL may be ahead of Dagster's
        connection.execute(text("UPDATE platform.loads SET finished_at = finished_at + interval '1 hour'"))
    after = _discover(platform, THIRD, new_load.cursor)

    reasons = [each.skip_reason for each in (before, of_first, new_load, after)]
    new = ["1 of 1 connection was asked, 0 gave no answer; 1 account is new"] * 2
    none = "0 of 1 connection was asked, 0 gave no answer; 0 accounts are new"
    assert [reason and reason.skip_message for reason in reasons] == [none, *new, none]
    with platform.database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM platform.loads")).scalar_one() == 1
    for placement, key in ((FIRST, IN_FIRST), (THIRD, IN_THIRD)):
        assert account_partitions(platform.instance, placement.accounts_name) == [key]
        assert len(platform.instance.fetch_materializations(placement.asset_key(ACCOUNTS), limit=9).records) == 1
        assert newest_checks(platform.instance, ACCOUNTS, placement)["connection_authorized"].passed


def _run(platform: Platform, placement: Placement, key: str, partition: str | None) -> dg.ExecuteInProcessResult:
    definitions = _definitions(placement)
    return dg.materialize(
        [each for each in definitions.assets or () if isinstance(each, dg.AssetsDefinition)],
        selection=dg.AssetSelection.assets(placement.key(dg.AssetKey(key.split("/")))),
        instance=platform.instance,
        resources=platform.resources,
        partition_key=partition,
        raise_on_error=False,
    )


def test_loads_of_commands_are_reported_by_the_shard_of_their_account(platform: Platform) -> None:
    assert all(_run(platform, each, "seller/accounts", None).success for each in (FIRST, THIRD))
    for key in (IN_FIRST, IN_THIRD):
        store_receipt(platform.database, ORDERS, key, MONTHS[1])

    counts = [report(platform.instance, platform.database, each, [ORDERS]) for each in (FIRST, FIRST, THIRD)]

    assert counts == [1, 0, 1]
    for placement, key in ((FIRST, IN_FIRST), (THIRD, IN_THIRD)):
        asset = placement.asset_key(ORDERS)
        assert platform.instance.get_materialized_partitions(asset) == {partition_key(key, MONTHS[1])}
        check = newest_checks(platform.instance, ORDERS, placement)["row_count_matches_total"]
        assert check.metadata["slices"].value == 1


def _accept(platform: Platform, placement: Placement, load: int) -> str:
    """Accept a held reading, and return the error of the step; nothing without one."""
    result = accept_job(placement).execute_in_process(
        instance=platform.instance,
        resources=platform.resources,
        run_config={"ops": {placement.name_of("accept"): {"config": {"load": load}}}},
        raise_on_error=False,
    )
    return "".join(str(event.step_failure_data.error) for event in result.all_events if event.is_step_failure)


def test_a_held_reading_is_accepted_by_the_component_of_its_account(platform: Platform) -> None:
    platform.discover()
    hold_february(platform, IN_THIRD)
    (held,) = open_holds(platform.database)

    of_first, of_third = (_accept(platform, each, held.id) for each in (FIRST, THIRD))

    assert f"load {held.id} is of {IN_THIRD}, which this component does not read" in of_first
    assert (of_third, open_holds(platform.database)) == ("", ())


def test_only_the_first_shard_accepts_and_exports_the_list_of_accounts(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_EXPORT_DIR", str(tmp_path))
    load = store_receipt(platform.database, ACCOUNTS, "default", MONTHS[1])

    of_first, of_third = (_accept(platform, each, load) for each in (FIRST, THIRD))
    exports = {key for each in (FIRST, THIRD) for key in _definitions(each).resolve_asset_graph().get_all_asset_keys()}

    assert f"the reading of load {load} is not held" in of_first
    assert f"load {load} is of default, which this component does not read" in of_third
    assert FIRST.key(export_key(ACCOUNTS)) in exports
    assert THIRD.key(export_key(ACCOUNTS)) not in exports
    assert THIRD.key(export_key(ORDERS)) in exports
    followers = {each.source.name for each in export_followers(str(tmp_path), THIRD)}
    assert ("accounts" in followers, "orders" in followers) == (False, True)


def test_a_shard_alerts_its_accounts_and_the_first_one_also_grants(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    connect_accounts(database, [(key, _ACCOUNT) for key in (IN_FIRST, IN_THIRD)])
    for key in (IN_FIRST, IN_THIRD):
        keep_refusal(database, ORDERS, key, MONTHS[0], UpstreamUnavailableError("GET /", "away", attempts=1), run_id="")

    def alerted(placement: Placement) -> str:
        caplog.clear()
        definitions = alert_definitions(placement=placement, expected=())
        sensor = definitions.resolve_sensor_def(placement.name_of("problems"))
        with (
            dg.DagsterInstance.ephemeral() as instance,
            dg.build_sensor_context(instance, resources=dict(definitions.resources or {})) as context,
        ):
            sensor.evaluate_tick(context)
        return caplog.text

    first, third = alerted(FIRST), alerted(THIRD)

    assert (IN_FIRST in first, IN_THIRD in first, "there is no grant" in first) == (True, False, True)
    assert (IN_FIRST in third, IN_THIRD in third, "there is no grant" in third) == (False, True, False)
    assert "shard_3/seller/orders" in third


def _requested(instance: dg.DagsterInstance, database_url: str, placement: Placement) -> list[str]:
    """Return the partitions that the daily refresh of orders requests."""
    schedule = _definitions(placement, ["orders"]).resolve_schedule_def(placement.name_of("refresh_sales"))
    warehouse = WarehouseResource(database_url=database_url)
    with dg.build_schedule_context(
        instance, scheduled_execution_time=AT, resources={"warehouse": warehouse}
    ) as context:
        requests = schedule.evaluate_tick(context).run_requests or []
    listed = account_partitions(instance, placement.accounts_name)
    partitions = []
    for request in requests:
        ends = [request.tags[f"dagster/asset_partition_range_{end}"].split("|") for end in ("start", "end")]
        (first, first_month), (last, last_month) = ends
        accounts = listed[listed.index(first) : listed.index(last) + 1]
        months = [month for month in _MONTHS if first_month <= month <= last_month]
        partitions += [f"{account}|{month}" for account in accounts for month in months]
    return partitions


@pytest.mark.dagster_tables
def test_schedules_of_shards_request_each_slice_once_and_share_a_budget(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    connect_accounts(database, [(key, _ACCOUNT) for key in _KEYS])
    shards = [Placement(key_prefix=(f"shard_{number}",), shard=Shard(number, 3)) for number in (1, 2, 3)]

    with postgres_instance(database_url, tmp_path) as instance:
        for placement in shards:
            own = placement.chosen(accounts(database))
            add_accounts(instance, [each.key for each in own], placement.accounts_name)
        unbounded = [key for each in shards for key in _requested(instance, database_url, each)]
        monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "60")
        of_shards = [_requested(instance, database_url, each) for each in shards]
        within = [key for of_shard in of_shards for key in of_shard]

    assert sorted(unbounded) == sorted(f"{account}|{month}" for account in _KEYS for month in _MONTHS)
    assert all(of_shards)
    # The newest slices of all shards come first; each takes at least one request.
    assert {key.split("|")[1] for key in within} == {_MONTHS[-1]}
    assert len(_KEYS) / 4 < len(within) == len(set(within)) <= len(_KEYS)
