"""Tests that a mart is requested once for each state of its inputs, whoever builds it and in whatever order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from hypothesis import given, settings
from hypothesis import strategies as st

from seller_platform.contract import LISTS, Window, dataset_named
from seller_platform.contract.datasets.user import ACCOUNTS as LISTED
from seller_platform.orchestration.assets.accounts import accounts_asset
from seller_platform.orchestration.assets.cost_periods import cost_asset
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.events import partition_tags
from seller_platform.orchestration.assets.exports import export_definitions, export_key
from seller_platform.orchestration.assets.marts import mart_definitions, mart_key
from seller_platform.orchestration.automation.conditions import follows_inputs
from seller_platform.orchestration.automation.provenance import newest_event, provenance_tags
from seller_platform.orchestration.component import EXECUTOR
from seller_platform.orchestration.partitions import add_accounts, asset_key, partition_key
from seller_platform.warehouse.marts import mart_named
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.ticks import evaluate_conditions

PROFIT = mart_named("account_profit_daily")
INPUTS = ("daily_product_sales", "transactions", "cost_periods")
ACCOUNT, MONTH = "S1.US", Window.month_of(date(2026, 2, 1))
PARTITION = partition_key(ACCOUNT, MONTH)
_NOON = datetime(2026, 4, 10, 12, tzinfo=UTC)
_SECONDS = count()  # Dagster caches the partitions of a moment for all instances


@pytest.fixture(scope="module")
def definitions(
    postgres: EmbeddedServer, databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dg.Definitions]:
    name = databases.lend()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SELLER_PLATFORM_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("SELLER_PLATFORM_DATABASE_URL", postgres.url(name))
        yield _definitions()
    databases.take_back(name)


def _definitions() -> dg.Definitions:
    inputs = [accounts_asset(LISTED), cost_asset(), *(asset_for(dataset, HISTORY_START) for dataset in LISTS)]
    resources = dict.fromkeys(("warehouse", "seller_api"), dg.ResourceDefinition.none_resource())
    return dg.Definitions.merge(dg.Definitions(assets=inputs, resources=resources), mart_definitions(HISTORY_START))


@dataclass
class History:
    """Loads and builds of one partition of a mart, and what its condition requests.

    Attributes:
        state: The newest version of each input.
        built: The states that were read by builds that have ended.
        under_way: The builds that have begun: the newest event before each, and the state it read.
    """

    instance: dg.DagsterInstance
    definitions: dg.Definitions
    state: dict[str, int] = field(default_factory=dict)
    built: list[dict[str, int]] = field(default_factory=list)
    under_way: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    cursor: Any = None

    def load(self, name: str, *, changes: bool = True) -> None:
        """Report a load of an input."""
        self.state[name] = self.state.get(name, 0) + (changes or name not in self.state)
        key = ACCOUNT if name == "cost_periods" else PARTITION
        tags = {"dagster/data_version": str(self.state[name]), **partition_tags(key)}
        self._report(dg.AssetMaterialization(asset_key(dataset_named(name)), partition=key, tags=tags))

    def begin(self) -> None:
        """Begin a build, which reads its inputs now."""
        self.under_way.append((newest_event(self.instance), dict(self.state)))

    def end(self) -> None:
        """Report the build that began first."""
        before, state = self.under_way.pop(0)
        self.built.append(state)
        versions = {asset_key(each.dataset): "" for each in PROFIT.inputs}
        tags = {**provenance_tags(str(state), PROFIT.version, versions, before), **partition_tags(PARTITION)}
        self._report(dg.AssetMaterialization(mart_key(PROFIT), partition=PARTITION, tags=tags))

    def is_requested(self) -> bool:
        """Evaluate the condition as the sensor does."""
        result = evaluate_conditions(
            self.definitions,
            self.instance,
            dg.AssetSelection.assets(mart_key(PROFIT)),
            cursor=self.cursor,
            at=_NOON + timedelta(seconds=next(_SECONDS)),
        )
        self.cursor = result.cursor
        return str(PARTITION) in set(map(str, result.get_requested_partitions(mart_key(PROFIT))))

    @property
    def is_current(self) -> bool:
        """Whether the newest build read the inputs as they are now."""
        return bool(self.built) and self.built[-1] == self.state

    def _report(self, event: dg.AssetMaterialization) -> None:
        self.instance.report_runless_asset_event(event)


@contextmanager
def history(definitions: dg.Definitions) -> Iterator[History]:
    """Open a history whose inputs are loaded and whose mart is built."""
    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, [ACCOUNT])
        opened = History(instance, definitions)
        opened.is_requested()
        for name in INPUTS[:2]:
            opened.load(name)
        opened.begin()
        opened.end()
        yield opened


LOADS = [f"load {name}" for name in INPUTS]
ACTIONS = st.sampled_from([*LOADS, "load again", "begin", "end", "tick"])


@settings(max_examples=25)
@given(actions=st.lists(ACTIONS, max_size=10))
def test_whatever_happens_in_whatever_order_the_newest_rows_are_built_once(
    definitions: dg.Definitions, actions: list[str]
) -> None:
    with history(definitions) as of_mart:
        for action in actions:
            if action in LOADS:
                of_mart.load(action.removeprefix("load "))
            elif action == "load again":
                of_mart.load("transactions", changes=False)
            elif action == "begin":
                of_mart.begin()
            elif action == "end" and of_mart.under_way:
                of_mart.end()
            elif action == "tick" and of_mart.is_requested():
                assert not of_mart.is_current, "a run was requested for what was built"
                of_mart.begin()
        while of_mart.under_way:
            of_mart.end()
        if of_mart.is_requested():
            assert not of_mart.is_current, "a run was requested for what was built"
            of_mart.begin()
            of_mart.end()

        assert of_mart.is_current
        assert not of_mart.is_requested()


def test_dagster_reads_what_a_materialization_was_computed_from() -> None:
    key = dg.AssetKey(["seller", "orders"])

    tags = provenance_tags("rows", "2", {key: "1.1"}, 7)
    provenance = dg.DataProvenance.from_tags(tags)
    unread = dg.DataProvenance.from_tags(provenance_tags("rows", "2", {key: "1.1"}, 0))

    assert provenance is not None
    assert unread is not None
    assert provenance.is_user_provided
    assert (provenance.code_version, provenance.input_data_versions) == ("2", {key: dg.DataVersion("1.1")})
    assert (provenance.input_storage_ids, unread.input_storage_ids) == ({key: 7}, {key: None})
    assert tags["dagster/data_version"] == "rows.2"


def test_a_build_by_a_backfill_is_not_repeated(definitions: dg.Definitions) -> None:
    with history(definitions) as of_mart:
        of_mart.load("transactions")
        of_mart.begin()
        of_mart.end()

        assert not of_mart.is_requested()


def test_a_load_during_a_build_is_followed_by_another(definitions: dg.Definitions) -> None:
    with history(definitions) as of_mart:
        of_mart.begin()
        of_mart.load("transactions")
        of_mart.end()

        assert of_mart.is_requested()


def test_marts_of_another_definition_are_built_once_more(definitions: dg.Definitions) -> None:
    with history(definitions) as of_mart:
        of_mart.is_requested()
        versions = {asset_key(each.dataset): "" for each in PROFIT.inputs}
        tags = provenance_tags("1", "before", versions, newest_event(of_mart.instance))
        of_mart.instance.report_runless_asset_event(
            dg.AssetMaterialization(mart_key(PROFIT), partition=PARTITION, tags={**tags, **partition_tags(PARTITION)})
        )
        of_mart.cursor = None  # what another code location begins with

        requested, again = of_mart.is_requested(), of_mart.is_requested()
        of_mart.begin()
        of_mart.end()

        assert (requested, again, of_mart.is_requested()) == (True, False, False)


def test_files_of_an_asset_without_partitions_follow_changes(definitions: dg.Definitions, tmp_path: Path) -> None:
    accounts, files = asset_key(LISTED), export_key(LISTED)
    exporting = dg.Definitions.merge(definitions, export_definitions(HISTORY_START, tmp_path, datasets=[LISTED]))

    with dg.DagsterInstance.ephemeral() as instance:
        cursor: Any = None

        def requests() -> int:
            nonlocal cursor
            result = evaluate_conditions(
                exporting,
                instance,
                dg.AssetSelection.assets(files),
                cursor=cursor,
                at=_NOON + timedelta(seconds=next(_SECONDS)),
            )
            cursor = result.cursor
            return result.total_requested

        def load(*, changed: bool) -> int:
            instance.report_runless_asset_event(dg.AssetMaterialization(accounts, metadata={"changed": changed}))
            return requests()

        requested = [requests(), load(changed=True)]
        tags = provenance_tags("1", "1", {accounts: "1"}, newest_event(instance))
        instance.report_runless_asset_event(dg.AssetMaterialization(files, tags=tags))
        requested += [requests(), load(changed=False), load(changed=True), requests()]

    assert requested == [0, 1, 0, 0, 1, 0]


def test_one_bad_month_stops_no_mart_of_another_month_in_the_same_run(
    platform: Platform, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    platform.discover()
    (account, _), honest = sorted(independent_upstream.KEYS.values()), platform.upstream.page
    failing = dataset_named("transactions").path, "2026-02"
    monkeypatch.setattr(
        platform.upstream,
        "page",
        lambda path, query: None if (path, query["start_date"][:7]) == failing else honest(path, query),
    )
    start = date(2025, 4, 1)
    definitions = dg.Definitions.merge(
        dg.Definitions(
            assets=[
                platform.assets["accounts"],
                cost_asset(),
                *(asset_for(dataset_named(name), start) for name in INPUTS[:2]),
            ],
            resources=platform.resources,
            executor=EXECUTOR,
        ),
        mart_definitions(start, datasets=[LISTED, *(dataset_named(name) for name in INPUTS)]),
    )
    months = [partition_key(account, month) for month in Window(start, MONTHS[-1].end).months()]
    february = str(partition_key(account, MONTHS[1]))
    assets = [asset_key(dataset_named(name)) for name in INPUTS[:2]] + [mart_key(PROFIT)]

    job = definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection=set(assets))
    tags = {"dagster/asset_partition_range_start": months[0], "dagster/asset_partition_range_end": months[-1]}
    run = execute_run(InMemoryJob(job), platform.instance.create_run_for_job(job, tags=tags), platform.instance)
    built = platform.instance.get_materialized_partitions(mart_key(PROFIT))
    requested = evaluate_conditions(definitions, platform.instance, dg.AssetSelection.assets(mart_key(PROFIT)))

    failure = next(
        each for each in run.all_events if each.is_step_failure and each.step_key == "marts__account_profit_daily"
    )
    assert not run.success
    assert len(months) == 12
    assert built == {str(month) for month in months} - {february}
    assert failure.step_failure_data.user_failure_data is not None
    reasons = failure.step_failure_data.user_failure_data.metadata
    assert f"not built: seller/transactions {february} is failed: " in str(reasons[february].value)
    assert not requested.get_requested_partitions(mart_key(PROFIT))


def test_a_partition_that_failed_is_requested_again_each_hour() -> None:
    failures = ["the server is away", "it is still away"]

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a"]))
    def loaded() -> None:
        pass

    @dg.asset(
        deps=[loaded],
        partitions_def=dg.StaticPartitionsDefinition(["a"]),
        automation_condition=follows_inputs(followed=[loaded.key], required=[loaded.key]),
    )
    def built() -> None:
        if failures:
            raise RuntimeError(failures.pop())

    cursor = None
    requested = []
    with dg.DagsterInstance.ephemeral() as instance:
        dg.materialize([loaded], partition_key="a", instance=instance)
        for moment in ("12:00", "12:05", "12:19", "12:21", "12:25", "13:10", "13:30", "14:30"):
            result = evaluate_conditions(
                dg.Definitions([loaded, built]),
                instance,
                dg.AssetSelection.assets(built),
                cursor=cursor,
                at=datetime.fromisoformat(f"2026-04-10T{moment}:00+00:00"),
            )
            cursor = result.cursor
            if result.total_requested:
                requested.append(moment)
                dg.materialize(
                    [loaded, built], selection=[built], partition_key="a", instance=instance, raise_on_error=False
                )

    assert requested == ["12:00", "12:21", "13:30"]
