"""Tests that loads are reported once, and that the newest result of a check is that of all slices as they are now.

Runs of checks alone judge what is stored, and load nothing.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.execution.api import create_execution_plan
from dagster._core.loader import LoadingContextForTest
from dagster._core.snap import snapshot_from_execution_plan
from sqlalchemy import text

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.datasets.costs import COST_PERIODS
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.ingest.loads.loading import SliceLoader, load_each
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.marts.assets import mart_asset
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.reporting import SENSOR, check_definitions, report, report_checks
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.orchestration.placement import WHOLE
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import HISTORY_START, KEYS, MONTHS, ROW_COUNT, Platform, lent_platform
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.ticks import tick
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.filterwarnings("ignore::dagster.PreviewWarning", "ignore::dagster.BetaWarning")

TRANSACTIONS, DAILY = dataset_named("transactions"), dataset_named("daily_product_sales")
PROFIT = mart_named("account_profit_daily")
JANUARY, FEBRUARY = (str(partition_key(KEYS[0], month)) for month in MONTHS[:2])


class CheckRuns:
    """All assets on Dagster's tables in PostgreSQL, the checks of some, and their sensor."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.instance = platform, platform.instance
        everything = SellerPlatformComponent(history_start=HISTORY_START).definitions()
        self.job = dg.Definitions(
            assets=everything.assets, asset_checks=everything.asset_checks, resources=platform.resources
        ).resolve_implicit_global_asset_job_def()
        self.checks = dg.Definitions.merge(
            check_definitions([ACCOUNTS, TRANSACTIONS, DAILY]),
            dg.Definitions(assets=list(platform.assets.values()), resources=platform.resources),
        )
        self.cursor: str | None = None

    def load(self, source: Dataset | Mart, partition: str = JANUARY) -> dg.ExecuteInProcessResult:
        """Load or build a partition in a run that plans no check."""
        job = self.job.get_subset(asset_selection={asset_key(source)}, asset_check_selection=set())
        return job.execute_in_process(instance=self.instance, partition_key=partition, raise_on_error=False)

    def execute(self, source: Dataset | Mart, *names: str) -> dict[str, dg.AssetCheckEvaluation]:
        """Execute checks of an asset without the asset, as the UI does, and return what they report, by name."""
        keys = {dg.AssetCheckKey(asset_key(source), name) for name in names}
        job = self.job.get_subset(asset_selection=set(), asset_check_selection=keys)
        result = job.execute_in_process(instance=self.instance)
        evaluations = {each.check_name: each for each in result.get_asset_check_evaluations()}
        assert not result.get_asset_materialization_events()
        assert set(evaluations) == set(names), "each check that was planned is evaluated"
        return evaluations

    def plan(self) -> dg.DagsterRun:
        """Request a run of the check of transactions, which plans it, and does not begin."""
        keys = {dg.AssetCheckKey(asset_key(TRANSACTIONS), ROW_COUNT)}
        job = self.job.get_subset(asset_selection=set(), asset_check_selection=keys)
        snapshot = snapshot_from_execution_plan(create_execution_plan(job), job.get_job_snapshot_id())
        absent = ("run_id", "status", "root_run_id", "parent_run_id", "step_keys_to_execute", "resolved_op_selection")
        facts: dict[str, Any] = dict.fromkeys((*absent, "op_selection", "remote_job_origin", "job_code_origin"))
        return self.instance.create_run(
            **facts,
            job_name=job.name,
            run_config={},
            tags={},
            execution_plan_snapshot=snapshot,
            job_snapshot=job.get_job_snapshot(),
            parent_job_snapshot=job.get_parent_job_snapshot(),
            asset_selection=frozenset(),
            asset_check_selection=frozenset(keys),
            asset_graph=job.asset_layer.asset_graph,
        )

    def tick(self) -> str:
        """Evaluate the sensor, and return why it requests nothing."""
        result = tick(self.checks, SENSOR, self.instance, self.cursor, self.platform.resources)
        self.cursor = result.cursor
        return str(result.skip_message)

    def newest(self, dataset: Dataset, name: str = ROW_COUNT) -> tuple[str, int]:
        """Return the state of a check as the UI shows it, and how many executions it has."""
        check = dg.AssetCheckKey(asset_key(dataset), name)
        history = self.instance.event_log_storage.get_asset_check_execution_history(check, limit=100)
        (newest,) = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([check]).values()
        return newest.status.value, len(history)

    def change(self, statement: str) -> None:
        with self.platform.database.begin() as connection:
            assert connection.execute(text(statement)).rowcount == 1


@pytest.fixture(scope="module")
def runs(dagster_databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckRuns]:
    """The tests share it: each begins with a load. The first expects that nothing was loaded before."""
    folder = tmp_path_factory.mktemp("checks")
    with lent_platform(dagster_databases, folder, instance_of=postgres_instance) as platform:
        platform.discover()
        yield CheckRuns(platform)


def test_the_sensor_reports_what_changed_without_a_run_and_nothing_else(runs: CheckRuns) -> None:
    first = runs.tick()
    idle = [runs.tick(), runs.tick()]
    runs.load(TRANSACTIONS)
    by_the_step = runs.newest(TRANSACTIONS)
    after_a_run = [runs.tick(), runs.tick()]
    not_twice = runs.newest(TRANSACTIONS)
    runs.change(
        f"UPDATE platform.slices SET error = 'ContractViolationError', message = 'no' WHERE account = '{KEYS[0]}' "
        "AND dataset = 'transactions'"
    )
    after_a_failure = [runs.tick(), runs.tick()]

    assert first == "0 loads were reported, 3 assets have changed"
    assert idle == ["0 loads were reported, 0 assets have changed"] * 2
    assert after_a_run == after_a_failure == [first.replace("3 assets have", "1 asset has"), idle[0]]
    assert by_the_step == not_twice == ("SUCCEEDED", 2)
    assert runs.newest(TRANSACTIONS, "fields_are_known")[0] == "FAILED"


def test_no_run_planned_later_hides_a_failure_nor_a_repair(runs: CheckRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as wrong_totals:
        wrong_totals.setattr(runs.platform.upstream, "surplus", 1)
        runs.load(TRANSACTIONS)
    after_the_load = runs.newest(TRANSACTIONS)[0]
    runs.load(TRANSACTIONS, FEBRUARY)
    runs.tick()
    first, second, third = (runs.plan() for _ in range(3))
    while_planned = runs.newest(TRANSACTIONS)[0]
    runs.tick()
    one_tick_later = runs.newest(TRANSACTIONS)[0]
    for run in (second, first):
        runs.instance.report_run_failed(run)
        runs.tick()
    after_the_runs = runs.newest(TRANSACTIONS)[0]
    runs.load(TRANSACTIONS)
    runs.instance.report_run_failed(third)

    assert (after_the_load, while_planned) == ("FAILED", "PLANNED")
    assert (one_tick_later, after_the_runs, runs.newest(TRANSACTIONS)[0]) == ("FAILED", "FAILED", "SUCCEEDED")


class LateInstance:
    """The instance as another daemon uses it, which has computed results, and reports them only when it is released."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.event_log_storage, self.fetch_materializations = (
            instance.event_log_storage,
            instance.fetch_materializations,
        )
        self.has_computed, self.is_released = threading.Event(), threading.Event()
        self._instance = instance

    def report_runless_asset_event(self, evaluation: dg.AssetCheckEvaluation) -> None:
        self.has_computed.set()
        assert self.is_released.wait(PATIENCE_SECONDS)
        self._instance.report_runless_asset_event(evaluation)


def test_a_failure_computed_before_a_repair_is_not_reported_after_it(runs: CheckRuns) -> None:
    runs.load(TRANSACTIONS)
    runs.change(
        "UPDATE platform.slices SET error = 'ContractViolationError', message = 'no' WHERE dataset = 'transactions' "
        f"AND account = '{KEYS[0]}' AND month = '2026-01-01'"
    )
    late: Any = LateInstance(runs.instance)
    with ThreadPoolExecutor() as threads:
        reporting = threads.submit(report_checks, late, runs.platform.database, WHOLE, [TRANSACTIONS])
        assert late.has_computed.wait(PATIENCE_SECONDS)
        repair = threads.submit(runs.load, TRANSACTIONS)
        wait_for(lambda: repair.done() or runs.platform.is_waiting_for_a_lock())
        late.is_released.set()
        reporting.result()

        assert repair.result().success
    assert runs.newest(TRANSACTIONS, "fields_are_known")[0] == "SUCCEEDED"


def test_a_row_deleted_by_hand_fails_from_execute_to_the_next_load(runs: CheckRuns) -> None:
    runs.load(TRANSACTIONS)
    january = "seller.transactions WHERE local_day < '2026-02-01'"
    runs.change(f"DELETE FROM {january} AND ctid = (SELECT min(ctid) FROM {january})")
    runs.tick()
    unseen = runs.newest(TRANSACTIONS)[0]

    executed = runs.execute(TRANSACTIONS, ROW_COUNT)[ROW_COUNT]
    runs.tick()
    reported = runs.newest(TRANSACTIONS)[0]
    runs.load(TRANSACTIONS)

    assert (unseen, executed.passed, reported) == ("SUCCEEDED", False, "FAILED")
    assert "2 rows are stored, but the loads stored 3" in str(executed.description)
    assert runs.newest(TRANSACTIONS)[0] == "SUCCEEDED"


def test_a_mart_changed_by_hand_fails_its_checks_until_it_is_built(runs: CheckRuns) -> None:
    sums = "sums_agree_with_the_inputs"
    for source in (DAILY, TRANSACTIONS, PROFIT):
        assert runs.load(source).success

    before = runs.execute(PROFIT, sums)[sums]
    runs.change(
        "UPDATE marts.account_profit_daily SET units = units + 1 WHERE ctid = (SELECT min(ctid) FROM "
        "marts.account_profit_daily)"
    )
    after = runs.execute(PROFIT, sums)[sums]
    runs.load(PROFIT)

    assert (before.passed, after.passed, runs.execute(PROFIT, sums)[sums].passed) == (True, False, True)
    assert (after.partition, after.metadata["failed_partitions"].value) == (None, 1)
    assert f"{KEYS[0]}, 2026-01: " in str(after.description)


def test_every_check_is_executed_without_its_asset(runs: CheckRuns) -> None:
    graph = runs.job.asset_layer.asset_graph
    alone = {key for key in graph.asset_check_keys if graph.get_execution_set_asset_and_check_keys(key) == {key}}

    passed = runs.execute(ACCOUNTS, ROW_COUNT, "connection_authorized")
    runs.change("UPDATE platform.grants SET refused = 'invalid_grant'")
    refused = runs.execute(ACCOUNTS, ROW_COUNT, "connection_authorized")
    runs.change("UPDATE platform.grants SET refused = NULL")

    assert alone == graph.asset_check_keys
    assert {name: each.passed for name, each in passed.items()} == {ROW_COUNT: True, "connection_authorized": True}
    assert {name: each.passed for name, each in refused.items()} == {ROW_COUNT: True, "connection_authorized": False}


ORDERS = dataset_named("orders")


def _load(platform: Platform, run_id: str | None = None, dataset: Dataset = ORDERS) -> Sequence[int]:
    """Load the first month of both accounts as a command does, and return the numbers of the loads."""
    requests = [SliceRequest(dataset, key, MONTHS[0]) for key in KEYS]
    with dg.build_resources(platform.resources) as resources:
        loader = SliceLoader(platform.database, resources.seller_api.api, utc_now(), run_id)
        return [result.receipt.id for result in load_each(requests, loader) if result.receipt]


def _materializations(platform: Platform) -> list[tuple[str, str, str | None]]:
    records = platform.instance.fetch_materializations(asset_key(ORDERS), limit=100).records
    return [
        (record.run_id, str(event.metadata["load_id"].value), event.partition)
        for record in records
        if (event := record.asset_materialization)
    ]


def test_what_is_made_of_a_load_that_was_not_reported_is_not_outdated(platform: Platform) -> None:
    platform.discover()
    _load(platform, dataset=DAILY)
    assets = [*platform.assets.values(), asset_for(COST_PERIODS, MONTHS[0].start)]
    marts = dg.Definitions([mart_asset(each, MONTHS[0].start) for each in MARTS])
    definitions = dg.Definitions.merge(dg.Definitions(assets=assets, resources=platform.resources), marts)
    made, partition = asset_key(mart_named("cost_coverage")), partition_key(KEYS[0], MONTHS[0])

    job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={made})
    result = job.execute_in_process(instance=platform.instance, partition_key=partition)
    left = report(platform.instance, platform.database)

    loading = LoadingContextForTest(platform.instance)
    resolver = CachingStaleStatusResolver(platform.instance, definitions.resolve_asset_graph(), loading)
    status = resolver.get_status(made, str(partition))
    assert (result.success, left, status) == (True, len(KEYS) - 1, StaleStatus.FRESH)


def test_loads_of_a_run_are_left_to_it_until_it_ends_and_are_reported_once(platform: Platform) -> None:
    platform.discover()
    platform.instance.delete_dynamic_partition("accounts", KEYS[0])  # the sensor adds it
    run = dg.DagsterRun("killed", status=dg.DagsterRunStatus.STARTED)
    platform.instance.run_storage.add_run(run)
    loads = _load(platform, run.run_id)
    definitions = dg.Definitions.merge(
        check_definitions([ORDERS]), dg.Definitions([platform.assets["orders"]], resources=platform.resources)
    )

    while_it_runs = report(platform.instance, platform.database)
    platform.instance.report_run_failed(run)
    with ThreadPoolExecutor(2) as reporters:
        running = [reporters.submit(tick, definitions, SENSOR, platform.instance) for _ in range(2)]
        messages = sorted(str(each.result().skip_message).partition(",")[0] for each in running)
    reported = _materializations(platform)
    last, first = (str(partition_key(key, MONTHS[1])) for key in KEYS)  # as the partitions were added
    result = platform.run([ORDERS], first, last)

    assert (while_it_runs, messages) == (0, ["0 loads were reported", "2 loads were reported"])
    assert sorted(reported) == sorted(
        ("", str(load), str(partition_key(key, MONTHS[0]))) for load, key in zip(loads, KEYS, strict=True)
    )
    assert set(platform.instance.get_dynamic_partitions("accounts")) == set(KEYS)
    assert report(platform.instance, platform.database) == 0
    assert {run_id for run_id, _, _ in _materializations(platform)} == {"", result.run_id}
