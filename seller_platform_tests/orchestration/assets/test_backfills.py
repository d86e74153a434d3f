"""Tests a backfill in another project, of two accounts of which the upstream does not answer one month."""

import logging
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration

from seller_platform import SellerPlatformComponent
from seller_platform.contract import Window, dataset_named
from seller_platform.dagster import seller_month_partitions
from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import open_platform
from seller_platform_tests.support.raw_server import Fault, Request, status
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.ticks import store_backfill, tick

_RUNS_HERE = """
telemetry:
  enabled: false
run_launcher:
  module: dagster._core.launcher.sync_in_memory_run_launcher
  class: SyncInMemoryRunLauncher
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
_MOST_ITERATIONS = 30
_LOG = logging.getLogger("backfills")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Property .ScheduleDefinition.environment_vars"),
    pytest.mark.filterwarnings("ignore:coroutine .BaseEventLoop.shutdown_asyncgens. was never awaited"),
]

SELLERS, KEYS = ("S0", "S1"), ("at-100", "at-101")
MONTHS = [Window.month_of(datetime.now(UTC).date())]
while len(MONTHS) < 3:
    MONTHS.insert(0, Window.month_of(MONTHS[0].start - timedelta(days=1)))
BAD_MONTH = MONTHS[-2]
BAD = str(partition_key(KEYS[-1], BAD_MONTH))
EVERYTHING = {str(partition_key(key, month)) for key in KEYS for month in MONTHS}

PREFIX = "market"
_READ = ("daily_product_sales", "transactions", "inventory", "cost_periods")
_DATASETS = {name: dataset_named(name) for name in _READ[:2]}
_KEY_OF = Placement((PREFIX,)).asset_key
SALES, TRANSACTIONS = map(_KEY_OF, _DATASETS.values())
OF_TRANSACTIONS = [
    _KEY_OF(mart_named(name))
    for name in ("account_profit_daily", "profit_bridge_monthly", "product_performance_monthly")
]
COVERAGE = _KEY_OF(mart_named("cost_coverage"))
OWN = dg.AssetKey(["shop", "margin"])


@dg.definitions
def location() -> dg.Definitions:
    """Return what another project defines, which mounts our component and has an asset of its own."""

    @dg.asset(
        key=OWN,
        deps=[OF_TRANSACTIONS[0]],
        partitions_def=seller_month_partitions(),
        backfill_policy=dg.BackfillPolicy.multi_run(60),
    )
    def margin() -> None:
        """What the project computes of the profit of a month."""

    component = SellerPlatformComponent(key_prefix=[PREFIX], group=PREFIX, datasets=_READ)
    executor = dg.in_process_executor.configured({"step_dependency_config": {"require_upstream_step_success": False}})
    return dg.Definitions.merge(component.definitions(), dg.Definitions([margin], executor=executor))


@dataclass
class Shop:
    """A project that mounts the component, and an upstream that may not answer a month.

    Attributes:
        is_bad: Whether it does not.
    """

    instance: dg.DagsterInstance
    workspace: WorkspaceProcessContext
    is_bad: bool = True

    def backfill(
        self, keys: Collection[dg.AssetKey], partitions: Sequence[str] | None = None
    ) -> tuple[str, dict[str, set[str]]]:
        """Launch a backfill, of all partitions by default, and iterate as the daemon does until it ends.

        Returns:
            Dagster's status, and the partitions that did not get a materialization, by the name of their asset.
        """
        graph = self.workspace.create_request_context().asset_graph
        backfill: PartitionBackfill | None = store_backfill(self.instance, graph, keys, partitions)
        for _ in range(_MOST_ITERATIONS):
            assert backfill is not None
            if backfill.status is not BulkActionStatus.REQUESTED:
                break
            errors = [error for error in execute_backfill_iteration(self.workspace, _LOG) if error]
            assert not errors, errors
            backfill = self.instance.get_backfill(backfill.backfill_id)
        assert backfill is not None
        failed: dict[str, set[str]] = defaultdict(set)
        subset = backfill.get_asset_backfill_data(graph).failed_and_downstream_subset
        for each in subset.iterate_asset_partitions():
            failed[each.asset_key.to_user_string()].add(str(each.partition_key))
        return backfill.status.value, dict(failed)

    def red(self, *keys: dg.AssetKey) -> set[str]:
        """Return the partitions that are not materialized in each of these assets; they have the same."""
        (missing,) = {frozenset(EVERYTHING - self.instance.get_materialized_partitions(key)) for key in keys}
        return set(missing)

    def runs(self, key: dg.AssetKey) -> dict[str, str]:
        """Return the run that materialized each partition."""
        records = self.instance.fetch_materializations(key, limit=1_000).records
        return {str(record.partition_key): record.run_id for record in records}


@pytest.fixture
def shop(database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for name, value in {
        "SELLER_PLATFORM_HOME": str(tmp_path),
        "SELLER_PLATFORM_DATABASE_URL": database_url,
        "SELLER_PLATFORM_HISTORY_START": MONTHS[0].start.isoformat(),
        "SELLER_API_CLIENT_ID": independent_upstream.CLIENT_ID,
        "SELLER_API_CLIENT_SECRET": independent_upstream.CLIENT_SECRET,
    }.items():
        monkeypatch.setenv(name, value)
    origin = LoadableTargetOrigin(executable_path=sys.executable, module_name=__name__, attribute="location")
    target = InProcessWorkspaceLoadTarget(InProcessCodeLocationOrigin(origin))
    with (
        postgres_instance(database_url, tmp_path, _RUNS_HERE) as instance,
        WorkspaceProcessContext(instance, target) as workspace,
        open_platform(database, database_url, tmp_path, instance) as platform,
    ):
        opened, upstream = Shop(instance, workspace), platform.upstream
        upstream.issue_lasting_tokens()
        upstream.accounts = independent_upstream.shops(SELLERS)

        def plan(asked: Request) -> Fault | None:
            bad = _DATASETS["transactions"].path, SELLERS[-1], str(BAD_MONTH.start)
            query = asked.query
            is_bad = (asked.path.removeprefix("/api"), query.get("seller_id"), query.get("start_date")) == bad
            return status(404) if opened.is_bad and is_bad else None

        upstream.server.plan = plan
        platform.discover()
        add_accounts(instance, KEYS)
        for name in _READ[2:]:
            opened.backfill([_KEY_OF(dataset_named(name))])
        yield opened


def test_one_bad_month_is_red_alone_until_it_is_repaired(shop: Shop) -> None:
    result = shop.backfill([SALES, TRANSACTIONS, *OF_TRANSACTIONS, COVERAGE, OWN])
    red = shop.red(TRANSACTIONS, *OF_TRANSACTIONS, OWN)
    green = shop.red(SALES, COVERAGE)
    loaded, built = shop.runs(TRANSACTIONS), [shop.runs(key) for key in OF_TRANSACTIONS]
    followed_by = tick(location(), f"{PREFIX}_marts_and_exports", shop.instance).run_requests or ()

    shop.is_bad = False
    shop.backfill([TRANSACTIONS], [BAD])
    shop.backfill([*OF_TRANSACTIONS, OWN], [BAD])
    still_red = shop.red(SALES, TRANSACTIONS, *OF_TRANSACTIONS, COVERAGE, OWN)

    failed = [key.to_user_string() for key in (TRANSACTIONS, *OF_TRANSACTIONS, OWN)]
    assert result == ("COMPLETED_FAILED", {name: {BAD} for name in failed})
    assert (red, green, still_red) == ({BAD}, set(), set())
    assert [each == loaded for each in built] == [True] * 3, "marts of good months are built in the run that loads them"
    assert len(set(loaded.values())) == len(KEYS), "each account has a run of its own"
    requested = {key for request in followed_by for key in request.asset_selection or ()}
    assert requested.isdisjoint({*OF_TRANSACTIONS, COVERAGE}), "all was built, or waits for the bad month"
