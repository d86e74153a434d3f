"""Tests runs of checks alone: they judge what is stored, and load nothing."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import LISTS, dataset_named
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.orchestration.assets.cost_periods import cost_asset
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.marts import mart_asset, mart_followers
from seller_platform.orchestration.assets.reporting import checks_for
from seller_platform.orchestration.automation.following import following_definitions
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.warehouse.marts import mart_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform, open_platform
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.ticks import Ticks

DAILY, TRANSACTIONS = dataset_named("daily_product_sales"), dataset_named("transactions")
PROFIT = mart_named("account_profit_daily")
KEYS = sorted(independent_upstream.KEYS.values())
JANUARY, FEBRUARY = (str(partition_key(KEYS[0], month)) for month in MONTHS[:2])
ROW_COUNT = "row_count_matches_total"

Evaluations = Sequence[dg.AssetCheckEvaluation]


class CheckRuns:
    """Loaded datasets and a built mart, and runs of their checks."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.cursor: Any = None
        assets = [
            platform.assets["accounts"],
            cost_asset(),
            *(asset_for(dataset, HISTORY_START) for dataset in LISTS),
            mart_asset(PROFIT, HISTORY_START),
        ]
        following = [each for each in mart_followers() if each.mart is PROFIT]
        self.definitions = dg.Definitions.merge(
            dg.Definitions(
                assets=assets, asset_checks=[checks_for(ACCOUNTS), checks_for(PROFIT)], resources=platform.resources
            ),
            following_definitions(following, HISTORY_START),
        )
        self.ticks = Ticks(self.definitions, platform.instance, platform.database.url)
        self.job = self.definitions.resolve_implicit_global_asset_job_def()

    def load(self, *assets: dg.AssetKey, first: str = JANUARY, last: str | None = None) -> dg.ExecuteInProcessResult:
        last = last or str(partition_key(KEYS[-1], MONTHS[-1]))
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        chosen = self.job.get_subset(asset_selection=set(assets))
        return chosen.execute_in_process(instance=self.platform.instance, tags=tags, raise_on_error=False)

    def execute(self, asset: dg.AssetKey, names: Collection[str]) -> Evaluations:
        """Run the checks of an asset without the asset, as the UI does, and return what is reported."""
        chosen = {dg.AssetCheckKey(asset, name) for name in names}
        job = self.job.get_subset(asset_selection=set(), asset_check_selection=chosen)
        result = job.execute_in_process(instance=self.platform.instance)
        assert not [event for event in result.all_events if event.is_step_materialization]
        assert not self._planned_only(result)
        return result.get_asset_check_evaluations()

    def tick(self) -> set[str]:
        """Return the partitions of the mart that the sensor requests."""
        return self.ticks.tick().get("marts/account_profit_daily", set())

    def change(self, statement: str) -> None:
        with self.platform.database.begin() as connection:
            assert connection.execute(text(statement)).rowcount == 1

    def _planned_only(self, result: dg.ExecuteInProcessResult) -> list[dg.AssetCheckKey]:
        """Return the checks that a run planned and did not evaluate."""
        planned = [
            event.asset_check_planned_data
            for event in result.all_events
            if event.event_type_value == "ASSET_CHECK_EVALUATION_PLANNED"
        ]
        evaluated = {each.asset_check_key for each in result.get_asset_check_evaluations()}
        return [each.asset_check_key for each in planned if each.asset_check_key not in evaluated]


@pytest.fixture(scope="module")
def runs(
    postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CheckRuns]:
    home: Path = tmp_path_factory.mktemp("home")
    name = databases.lend()
    url = postgres.url(name)
    with pytest.MonkeyPatch.context() as patch, Database(url) as database:
        patch.setenv("SELLER_PLATFORM_HOME", str(home))
        patch.setenv("SELLER_PLATFORM_DATABASE_URL", url)
        with open_platform(database, url, home) as platform:
            platform.discover()
            opened = CheckRuns(platform)
            assert opened.load(asset_key(DAILY), asset_key(TRANSACTIONS), asset_key(PROFIT)).success
            yield opened
    databases.take_back(name)


def test_every_check_can_be_executed_without_its_asset(runs: CheckRuns) -> None:
    graph = runs.definitions.resolve_asset_graph()

    alone = {key for key in graph.asset_check_keys if graph.get_execution_set_asset_and_check_keys(key) == {key}}

    assert alone == graph.asset_check_keys


def test_a_mart_waits_until_the_check_of_its_input_passes(runs: CheckRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, honest = [asset_key(DAILY), asset_key(TRANSACTIONS)], independent_upstream._page

    def lying(*arguments: Any, **options: Any) -> dict[str, Any]:
        answer = honest(*arguments, **options)
        return {**answer, "total": str(int(answer["total"].replace(",", "")) + 1)}

    runs.tick()
    monkeypatch.setattr(independent_upstream, "_page", lying)
    runs.load(asset_key(TRANSACTIONS), last=JANUARY)
    monkeypatch.undo()
    blocked = runs.load(asset_key(PROFIT), last=FEBRUARY)
    requested_while_blocked = runs.tick()
    runs.load(*inputs, last=JANUARY)
    requested_after = runs.tick()
    free = runs.load(asset_key(PROFIT), last=JANUARY)

    failure = next(event for event in blocked.all_events if event.is_step_failure).step_failure_data
    assert failure.user_failure_data is not None
    metadata = {name: value.value for name, value in failure.user_failure_data.metadata.items()}
    assert set(metadata) == {JANUARY, "exit_code"}
    assert str(metadata[JANUARY]).startswith(
        f"not built: seller/transactions {JANUARY} is mismatched: transactions of {KEYS[0]}, 2026-01"
    )
    assert {event.partition for event in blocked.all_events if event.is_step_materialization} == {FEBRUARY}
    assert requested_while_blocked == set()
    assert requested_after == {JANUARY}
    assert free.success
    assert runs.tick() == set()


def test_a_mart_changed_by_hand_fails_its_checks_until_it_is_built(runs: CheckRuns) -> None:
    sums = "sums_agree_with_the_inputs"

    (before,) = runs.execute(asset_key(PROFIT), [sums])
    runs.change(
        "UPDATE marts.account_profit_daily SET units = units + 1 WHERE ctid = (SELECT min(ctid) FROM "
        f"marts.account_profit_daily WHERE account = '{KEYS[0]}' AND local_day < '2026-02-01')"
    )
    (after,) = runs.execute(asset_key(PROFIT), [sums])
    runs.load(asset_key(PROFIT), last=JANUARY)
    (built,) = runs.execute(asset_key(PROFIT), [sums])

    assert (before.passed, after.passed, built.passed) == (True, False, True)
    assert (after.partition, after.metadata["failed_partitions"].value) == (None, 1)
    assert f"{KEYS[0]}, 2026-01: " in str(after.description)


def test_the_checks_of_accounts_are_evaluated_from_the_registry(runs: CheckRuns) -> None:
    asset = asset_key(ACCOUNTS)
    names = [ROW_COUNT, "connection_authorized"]

    passed = runs.execute(asset, names)
    runs.change("UPDATE platform.grants SET refused = 'invalid_grant'")
    refused = runs.execute(asset, names)

    assert {each.check_name: each.passed for each in passed} == {ROW_COUNT: True, "connection_authorized": True}
    assert {each.check_name: each.passed for each in refused} == {ROW_COUNT: True, "connection_authorized": False}
