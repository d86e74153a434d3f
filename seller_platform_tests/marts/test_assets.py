"""Tests the assets of marts: what they declare, and their events for each partition."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import SettingsError
from seller_platform.marts.assets import describe_mart, mart_asset, report_builds
from seller_platform.orchestration.assets.events import partition_tags
from seller_platform.orchestration.assets.reporting import checks_for
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.orchestration.partitions import add_accounts, asset_key, partition_key
from seller_platform.orchestration.placement import Placement
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.declaration import Mart
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.derived.tables import mart_table_for
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.dagster_instance import newest_metadata
from seller_platform_tests.support.platform import HISTORY_START, newest_checks
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.stored_rows import add_rows
from seller_platform_tests.support.ticks import definitions_of_marts

PROFIT, PLAN = mart_named("account_profit_daily"), mart_named("restock_plan")
ACCOUNTS = ("us-1", "us-2")
JANUARY, FEBRUARY = (Window.month_of(date(2026, month, 1)) for month in (1, 2))
OF_JANUARY = str(partition_key("us-1", JANUARY))


@dataclass
class Marts:
    """The marts over a warehouse with a few sales, and their Dagster instance."""

    database: Database
    instance: dg.DagsterInstance
    definitions: dg.Definitions

    def run(self, mart: Mart, first: str, last: str, config: dict[str, int] | None = None) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=[asset_key(mart)],
            raise_on_error=False,
            run_config={"ops": {f"marts__{mart.name}": {"config": config}}} if config else {},
            tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
        )


@pytest.fixture
def marts(database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Marts]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, ACCOUNTS)
        yield Marts(database, instance, definitions_of_marts(database_url, []))


def _sell(database: Database, account: str, day: str, sales: str) -> None:
    row = (day, "A", "Cup", "B1", 2, sales, "0.00", "0.00", "0.00", day)
    add_rows(database, dataset_named("daily_product_sales"), [row], account=account, tags=("platform",))


@pytest.fixture(scope="module")
def assets() -> dict[str, dg.AssetsDefinition]:
    """The assets of all marts, by name."""
    return {mart.name: mart_asset(mart, HISTORY_START) for mart in MARTS}


@pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)
def test_the_description_of_a_mart_has_a_repair_and_a_query_that_runs(database: Database, mart: Mart) -> None:
    description = describe_mart(mart, Placement(("shop",)))

    query = re.search(r"```sql\n(.+?)```", description, re.DOTALL)
    assert query is not None
    assert "**A partition** is" in description
    assert "**Repair:**" in description
    assert re.findall(r"(?:job|sensor) `(\w+)`", description) == ["shop_marts_and_exports"]
    assert database.execute(text(query[1])).all() == []


@pytest.mark.parametrize("mart", MARTS, ids=lambda mart: mart.name)
def test_a_mart_is_an_asset_with_columns_lineage_and_checks(assets: dict[str, dg.AssetsDefinition], mart: Mart) -> None:
    asset = assets[mart.name]
    spec = asset.get_asset_spec(asset_key(mart))

    schema, lineage = spec.metadata["dagster/column_schema"], spec.metadata["dagster/column_lineage"]
    assert spec.key.path == ["marts", mart.name]
    assert (spec.group_name, spec.description) == ("marts", describe_mart(mart))
    assert all(each.dataset.table in str(spec.description) for each in mart.inputs)
    assert {"postgres", "sql"} <= set(spec.kinds)
    assert [column.name for column in schema.columns] == [column.name for column in mart_table_for(mart).columns]
    assert all(column.description for column in schema.columns)
    assert {column.name for column in schema.columns if not column.constraints.nullable} == {
        *(column.name for column in mart.columns if column.key or not column.nullable),
        "account",
        "build_id",
    }
    assert {key.asset_key.path[1] for deps in lineage.deps_by_column.values() for key in deps} == {
        each.dataset.name for each in mart.inputs
    }
    assert {key.name for key in checks_for(mart).check_keys} == {check.name for check in mart.all_checks}
    assert asset.backfill_policy is not None
    assert asset.backfill_policy.max_partitions_per_run == (36 if mart.is_monthly else 100)


def test_a_run_over_a_range_reports_each_partition_with_chart_and_checks(marts: Marts) -> None:
    # An account that is not registered stops no build.
    mark_loaded(marts.database, dataset_named("daily_product_sales"), "us-1", JANUARY)
    _sell(marts.database, "us-1", "2026-01-05", "10.00")
    _sell(marts.database, "us-2", "2026-02-05", "20.00")

    result = marts.run(PROFIT, partition_key("us-1", JANUARY), partition_key("us-2", FEBRUARY))
    covered = marts.run(mart_named("cost_coverage"), OF_JANUARY, OF_JANUARY)

    assert (result.success, covered.success) == (True, True)
    partitions = {str(partition_key(key, month)) for key in ACCOUNTS for month in (JANUARY, FEBRUARY)}
    assert marts.instance.get_materialized_partitions(asset_key(PROFIT)) == partitions
    january, empty = (
        newest_metadata(marts.instance, asset_key(PROFIT), str(partition_key("us-1", month)))
        for month in (JANUARY, FEBRUARY)
    )
    assert (january["rows"], january["dagster/partition_row_count"], empty["rows"]) == (1, 1, 0)
    assert january["dagster/uri"] == marts.database.uri
    title = "![Sales and profit by day, us-1, January 2026, XXX per day: Product sales from"
    assert january["chart"].startswith(title)
    assert "](data:image/svg+xml;base64," in january["chart"]
    assert "Nothing was sold and nothing was charged." in empty["chart"]
    evaluations = newest_checks(marts.instance, PROFIT)
    assert {name: each.description for name, each in evaluations.items()} == {
        check.name: f"{check.doc} That is true of 4 partitions." for check in PROFIT.all_checks
    }
    assert all((each.partition, each.passed) == (None, True) for each in evaluations.values())
    assert all(each.target_materialization_data for each in evaluations.values())
    failed = newest_checks(marts.instance, mart_named("cost_coverage"))["sales_are_covered"]
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.WARN)
    contradicted = "2026-01: Rows of marts.cost_coverage contradict it. Enter costs"
    assert contradicted in str(failed.description)
    assert "product_sales 10.00, sales_without_cost 10.00, share_covered 0.00" in str(failed.description)


def test_a_partition_is_outdated_once_an_input_or_its_definition_changed(marts: Marts) -> None:
    def load(version: str) -> StaleStatus:
        for name, partition in (("accounts", None), ("transactions", OF_JANUARY), ("cost_periods", "us-1")):
            tags = {"dagster/data_version": version if partition else "1", **partition_tags(partition)}
            event = dg.AssetMaterialization(asset_key(dataset_named(name)), partition=partition, tags=tags)
            marts.instance.report_runless_asset_event(event)
        loading = LoadingContextForTest(marts.instance)
        resolver = CachingStaleStatusResolver(marts.instance, marts.definitions.resolve_asset_graph(), loading)
        return resolver.get_status(asset_key(PROFIT), OF_JANUARY)

    before = load("1")
    result = marts.run(PROFIT, OF_JANUARY, OF_JANUARY)
    built, changed, former = load("1"), load("2"), load("1")
    (event,) = result.get_asset_materialization_events()
    tags = {**(event.materialization.tags or {}), "dagster/code_version": "before"}
    other = dg.AssetMaterialization(asset_key(PROFIT), partition=OF_JANUARY, tags=tags)
    marts.instance.report_runless_asset_event(other)

    assert (before, built, changed) == (StaleStatus.MISSING, StaleStatus.FRESH, StaleStatus.STALE)
    assert (former, load("1")) == (StaleStatus.FRESH, StaleStatus.STALE)


def test_parameters_are_the_configuration_of_the_asset(marts: Marts) -> None:
    marts.run(PLAN, "us-1", "us-1")
    usual = newest_metadata(marts.instance, asset_key(PLAN), "us-1")["parameters"]

    marts.run(PLAN, "us-1", "us-1", {"lead_time_days": 60})
    changed = newest_metadata(marts.instance, asset_key(PLAN), "us-1")["parameters"]
    refused = marts.run(PLAN, "us-1", "us-1", {"target_cover_days": 0})

    assert usual == {"lead_time_days": 21, "safety_days": 7, "target_cover_days": 30}
    assert changed == {**usual, "lead_time_days": 60}
    assert not refused.success


@pytest.mark.parametrize("run_id", ["run", None])
def test_a_build_of_a_command_is_reported_once_and_not_over_a_newer_one(marts: Marts, run_id: str | None) -> None:
    older, newer = (build_partition(marts.database, PROFIT, "us-1", JANUARY, run_id=of) for of in (None, run_id))

    report_builds(marts.instance, marts.database, [older, newer, newer])

    records = marts.instance.fetch_materializations(asset_key(PROFIT), limit=10).records
    ids = [each.asset_materialization.metadata["build_id"].value for each in records if each.asset_materialization]
    with marts.database.begin() as connection:
        stored = connection.execute(text("SELECT run_id FROM platform.derived_partitions")).scalars().all()
        connection.execute(text("UPDATE platform.derived_partitions SET error = 'MartBuildError'"))
        shown = connection.execute(text("SELECT run_id FROM platform.problems WHERE kind = 'failed'")).scalars().all()
    assert (ids, stored) == (([], ["run"]) if run_id else ([str(newer.id)], [""]))
    assert shown == [run_id]


def test_an_unusable_formula_is_an_error_of_the_definitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "formula.yaml"
    path.write_text("formula: cash\nlines: none\n")
    monkeypatch.setenv("SELLER_PLATFORM_PROFIT_FORMULA", str(path))

    with pytest.raises(SettingsError, match=r"formula\.yaml, line 2: lines is no list"):
        SellerPlatformComponent(history_start=HISTORY_START).definitions()
