"""Tests that the newest result of a check is that of all slices as they are now, whatever ran last."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan
from dagster._core.snap import snapshot_from_execution_plan
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster_graphql.cli import execute_query
from sqlalchemy import text

from seller_platform.contract import Dataset, dataset_named
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.orchestration.assets.reporting import check_definitions
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.platform import MONTHS, Platform, open_platform

pytestmark = pytest.mark.dagster_tables

TRANSACTIONS, DAILY = dataset_named("transactions"), dataset_named("daily_product_sales")
KEYS = sorted(independent_upstream.KEYS.values())
JANUARY, FEBRUARY = (str(partition_key(KEYS[0], month)) for month in MONTHS[:2])
ROW_COUNT = "row_count_matches_total"

_CHECKS = """
query ($asset: AssetKeyInput!) {
  assetNodeOrError(assetKey: $asset) { ... on AssetNode { assetChecksOrError { ... on AssetChecks { checks {
    name executionForLatestMaterialization { status evaluation {
      description metadataEntries { label ... on TableMetadataEntry { table { records schema { columns { name } } } } }
    } }
  } } } } }
}
"""


class Reports:
    """Loaded datasets on Dagster's tables in PostgreSQL, their checks, and the sensor."""

    def __init__(self, platform: Platform) -> None:
        self.platform, self.instance = platform, platform.instance
        checks = check_definitions([ACCOUNTS, TRANSACTIONS, DAILY])
        self.definitions = dg.Definitions.merge(
            dg.Definitions(
                assets=[platform.assets[name] for name in ("accounts", "transactions", "daily_product_sales")],
                resources=platform.resources,
            ),
            checks,
        )
        self.job = self.definitions.resolve_implicit_global_asset_job_def()
        (self.sensor,) = checks.sensors or ()
        self.cursor: str | None = None

    def load(self, dataset: Dataset, partition: str = JANUARY) -> dg.ExecuteInProcessResult:
        """Load a partition in a run that plans no check."""
        job = self.job.get_subset(asset_selection={asset_key(dataset)}, asset_check_selection=set())
        return job.execute_in_process(instance=self.instance, partition_key=partition, raise_on_error=False)

    def execute(self, dataset: Dataset) -> dg.ExecuteInProcessResult:
        """Execute the checks of an asset, as the UI does."""
        job = self.job.get_subset(asset_selection=set(), asset_check_selection=self._checks(dataset))
        return job.execute_in_process(instance=self.instance)

    def plan(self, dataset: Dataset) -> dg.DagsterRun:
        """Request a run of the checks, which plans them, and does not begin."""
        keys = self._checks(dataset)
        job = self.job.get_subset(asset_selection=set(), asset_check_selection=keys)
        plan = create_execution_plan(job)
        return self.instance.create_run(
            job_name=job.name,
            run_id=None,
            run_config={},
            status=None,
            tags={},
            root_run_id=None,
            parent_run_id=None,
            step_keys_to_execute=None,
            execution_plan_snapshot=snapshot_from_execution_plan(plan, job.get_job_snapshot_id()),
            job_snapshot=job.get_job_snapshot(),
            parent_job_snapshot=job.get_parent_job_snapshot(),
            asset_selection=frozenset(),
            asset_check_selection=frozenset(keys),
            resolved_op_selection=None,
            op_selection=None,
            remote_job_origin=None,
            job_code_origin=None,
            asset_graph=job.asset_layer.asset_graph,
        )

    def tick(self) -> str:
        """Evaluate the sensor as the daemon does, and return why it requests nothing."""
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources=self.platform.resources, definitions=self.definitions
        )
        with context:
            result: Any = self.sensor(context)
        self.cursor = result.cursor
        return str(result.skip_reason.skip_message)

    def newest(self, dataset: Dataset, name: str = ROW_COUNT) -> tuple[str, int]:
        """Return the state of a check as the UI shows it, and how many executions it has."""
        check = dg.AssetCheckKey(asset_key(dataset), name)
        history = self.instance.event_log_storage.get_asset_check_execution_history(check, limit=100)
        (newest,) = self.instance.event_log_storage.get_latest_asset_check_execution_by_key([check]).values()
        return newest.status.value, len(history)

    def change(self, statement: str) -> None:
        with self.platform.database.begin() as connection:
            assert connection.execute(text(statement)).rowcount == 1

    @staticmethod
    def _checks(dataset: Dataset) -> set[dg.AssetCheckKey]:
        return {dg.AssetCheckKey(asset_key(dataset), ROW_COUNT)}


@pytest.fixture
def reports(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reports]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database_url)
    with (
        postgres_instance(database_url, tmp_path) as instance,
        open_platform(database, database_url, tmp_path, instance) as platform,
    ):
        platform.discover()
        yield Reports(platform)


@pytest.fixture
def wrong_totals() -> Iterator[pytest.MonkeyPatch]:
    """Lists that announce one row too many, until it is undone."""
    honest = independent_upstream._page

    def page(*arguments: Any, **options: Any) -> dict[str, Any]:
        answer = honest(*arguments, **options)
        return {**answer, "total": str(int(answer["total"].replace(",", "")) + 1)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(independent_upstream, "_page", page)
        yield patch


def test_no_run_that_was_planned_later_hides_a_failure(reports: Reports, wrong_totals: pytest.MonkeyPatch) -> None:
    reports.load(TRANSACTIONS)
    after_the_load = reports.newest(TRANSACTIONS)
    wrong_totals.undo()
    reports.load(TRANSACTIONS, FEBRUARY)
    reports.tick()

    first = reports.plan(TRANSACTIONS)
    second = reports.plan(TRANSACTIONS)
    while_planned = reports.newest(TRANSACTIONS)
    reports.tick()
    one_tick_later = reports.newest(TRANSACTIONS)
    for run in (second, first):
        reports.instance.report_run_failed(run)
        reports.tick()

    assert (after_the_load[0], while_planned[0], one_tick_later[0]) == ("FAILED", "PLANNED", "FAILED")
    assert reports.newest(TRANSACTIONS)[0] == "FAILED"


def test_a_repaired_slice_passes_although_a_planned_run_fails_later(
    reports: Reports, wrong_totals: pytest.MonkeyPatch
) -> None:
    reports.load(TRANSACTIONS)
    planned = reports.plan(TRANSACTIONS)
    wrong_totals.undo()
    reports.load(TRANSACTIONS)
    reports.instance.report_run_failed(planned)

    assert reports.newest(TRANSACTIONS)[0] == "SUCCEEDED"


def test_a_failed_slice_fails_no_check_of_other_slices(reports: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    reports.load(DAILY)
    honest = independent_upstream.daily_rows
    monkeypatch.setattr(
        independent_upstream, "daily_rows", lambda month: [{**row, "units_ordered": "two"} for row in honest(month)] * 2
    )

    result = reports.load(DAILY, FEBRUARY)

    assert not result.success
    assert reports.newest(DAILY, "fields_are_known")[0] == "FAILED"
    assert reports.newest(DAILY)[0] == "SUCCEEDED"


def test_the_sensor_reports_what_changed_without_a_run_and_nothing_else(reports: Reports) -> None:
    first = reports.tick()
    idle = [reports.tick(), reports.tick()]
    reports.load(TRANSACTIONS)
    by_the_step = reports.newest(TRANSACTIONS)
    after_a_run = [reports.tick(), reports.tick()]
    not_twice = reports.newest(TRANSACTIONS)
    reports.change(
        f"UPDATE platform.slices SET error = 'ContractViolationError', message = 'no' WHERE account = '{KEYS[0]}' "
        "AND dataset = 'transactions'"
    )
    after_a_failure = [reports.tick(), reports.tick()]

    assert first == "0 loads were reported, 3 assets have changed"
    assert idle == ["0 loads were reported, 0 assets have changed"] * 2
    assert after_a_run == after_a_failure == [first.replace("3 assets have", "1 asset has"), idle[0]]
    assert by_the_step == not_twice == ("SUCCEEDED", 2)
    assert reports.newest(TRANSACTIONS, "fields_are_known")[0] == "FAILED"


def test_a_row_deleted_by_hand_fails_from_execute_to_the_next_load(reports: Reports) -> None:
    reports.load(TRANSACTIONS)
    reports.change("DELETE FROM seller.transactions WHERE ctid = (SELECT min(ctid) FROM seller.transactions)")
    reports.tick()
    unseen = reports.newest(TRANSACTIONS)[0]

    (found,) = reports.execute(TRANSACTIONS).get_asset_check_evaluations()
    reports.tick()
    reported = reports.newest(TRANSACTIONS)[0]
    reports.load(TRANSACTIONS)

    assert (unseen, reported) == ("SUCCEEDED", "FAILED")
    assert not found.passed
    assert "2 rows are stored, but the loads stored 3" in str(found.description)
    assert reports.newest(TRANSACTIONS)[0] == "SUCCEEDED"


def test_the_pages_of_checks_show_the_table_and_the_result_of_accounts(
    reports: Reports, wrong_totals: pytest.MonkeyPatch
) -> None:
    reports.load(TRANSACTIONS)
    target = ModuleTarget("seller_platform.orchestration.definitions", None, ".", "seller_platform")

    with WorkspaceProcessContext(reports.instance, target) as context:

        def checks(dataset: Dataset) -> dict[str, Any]:
            answer = execute_query(context, _CHECKS, {"asset": {"path": list(asset_key(dataset).path)}})
            shown = answer["data"]["assetNodeOrError"]["assetChecksOrError"]["checks"]
            return {each["name"]: each["executionForLatestMaterialization"] for each in shown}

        of_transactions, of_accounts = checks(TRANSACTIONS), checks(ACCOUNTS)

    wrong_totals.undo()
    entries = {each["label"]: each for each in of_transactions[ROW_COUNT]["evaluation"]["metadataEntries"]}
    assert of_transactions[ROW_COUNT]["status"] == "FAILED"
    assert {each["status"] for name, each in of_transactions.items() if name != ROW_COUNT} == {"SUCCEEDED"}
    assert f'"account": "{KEYS[0]}"' in entries["failing"]["table"]["records"][0]
    assert [each["name"] for each in entries["failing"]["table"]["schema"]["columns"]][-2:] == ["reason", "next step"]
    assert {name: each["status"] for name, each in of_accounts.items()} == dict.fromkeys(of_accounts, "SUCCEEDED")
    assert "connection_authorized" in of_accounts
