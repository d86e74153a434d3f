"""Tests the storage in another Dagster project, and that its old events are deleted without a visible change."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster._core.utils import make_new_run_id
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster_graphql.cli import execute_query

from seller_platform.orchestration.instance.retention import prune_instance
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow

MONTHS = ("2026-01-01", "2026-02-01", "2026-03-01")
BEFORE = datetime.now(UTC) - timedelta(days=30)
_TABLES = ("event_logs", "asset_check_executions", "runs", "asset_event_tags", "bulk_actions")
_BACKDATE = """
UPDATE event_logs SET timestamp = timestamp - interval '60 days';
UPDATE asset_check_executions SET create_timestamp = create_timestamp - interval '60 days',
       evaluation_event_timestamp = evaluation_event_timestamp - interval '60 days';
UPDATE runs SET end_time = end_time - 60 * 86400, start_time = start_time - 60 * 86400,
       update_timestamp = update_timestamp - interval '60 days',
       create_timestamp = create_timestamp - interval '60 days';
INSERT INTO bulk_actions (key, status, timestamp, body)
VALUES ('old', 'COMPLETED_SUCCESS', now() - interval '60 days', ''), ('running', 'REQUESTED', now(), '');
"""


_STORAGE = """
storage:
  custom:
    module: seller_platform.orchestration.storage
    class: PooledPostgresStorage
    config:
      postgres_url: {env: OTHER_DAGSTER_URL}
telemetry: {enabled: false}
code_servers: {wait_for_local_processes_on_shutdown: true}
"""
_DEFINITIONS = """
import dagster as dg

partitions = dg.MultiPartitionsDefinition(
    {
        "shop": dg.DynamicPartitionsDefinition(name="shops"),
        "month": dg.MonthlyPartitionsDefinition("2026-01-01", end_date="2026-04-01"),
    }
)


@dg.asset(partitions_def=partitions, check_specs=[dg.AssetCheckSpec("good", asset="sales")])
def sales(context):
    if context.run.tags.get("fails"):
        raise RuntimeError("no sales")
    passed = not context.partition_key.endswith("|closed")
    yield dg.MaterializeResult(
        metadata={"rows": int(context.run.tags.get("rows", 1))},
        check_results=[dg.AssetCheckResult(check_name="good", passed=passed)],
    )


defs = dg.Definitions(assets=[sales])
"""
_ASSET = '{ assetNodeOrError(assetKey: {path: ["sales"]}) { ... on AssetNode { %s } } }'
_STATE = """
  partitionStats { numMaterialized numFailed numMaterializing }
  assetPartitionStatuses { ... on MultiPartitionStatuses { ranges {
    primaryDimStartKey primaryDimEndKey
    secondaryDim { ... on DefaultPartitionStatuses { materializedPartitions failedPartitions materializingPartitions } }
  } } }
  assetChecksOrError { ... on AssetChecks {
    checks { name executionForLatestMaterialization { status evaluation { success } } }
  } }
  latestMaterializationByPartition { partition runId metadataEntries { ... on IntMetadataEntry { intValue } } }
"""
_PLOTTED = "assetMaterializations(limit: 100) { partition metadataEntries { ... on IntMetadataEntry { intValue } } }"


@dataclass
class OtherProject:
    """A project of other people that uses nothing of ours but the storage, its instance, and its GraphQL."""

    instance: dg.DagsterInstance
    definitions: dg.Definitions
    context: WorkspaceProcessContext

    def materialize(self, partition: str, **tags: str) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(instance=self.instance, partition_key=partition, tags=tags, raise_on_error=False)

    @property
    def state(self) -> dict[str, Any]:
        """What the UI shows of the asset: partitions, checks, and the newest materializations."""
        return self._ask(_STATE)

    @property
    def plotted(self) -> list[tuple[str, int]]:
        """The partition and the number of each materialization in the asset's plot."""
        events = self._ask(_PLOTTED)["assetMaterializations"]
        return [(each["partition"], each["metadataEntries"][0]["intValue"]) for each in events]

    def _ask(self, fields: str) -> dict[str, Any]:
        answer = execute_query(self.context, _ASSET % fields)
        assert "errors" not in answer, json.dumps(answer, indent=1)
        node: dict[str, Any] = answer["data"]["assetNodeOrError"]
        return node


@pytest.fixture(scope="module")
def url(postgres: EmbeddedServer) -> Iterator[str]:
    address = postgres.database("other_dagster")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTHER_DAGSTER_URL", address.replace("postgresql:", "postgresql+psycopg2:"))
        yield address
    drop_database(postgres, "other_dagster")


@pytest.fixture(scope="module")
def project(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherProject]:
    folder = tmp_path_factory.mktemp("other")
    (folder / "dagster.yaml").write_text(_STORAGE)
    (folder / "definitions.py").write_text(_DEFINITIONS)
    names: dict[str, Any] = {"__name__": "definitions"}
    exec(compile(_DEFINITIONS, str(folder / "definitions.py"), "exec"), names)
    target = PythonFileTarget(
        python_file=str(folder / "definitions.py"), attribute=None, working_directory=str(folder), location_name="other"
    )
    with dg.DagsterInstance.from_config(str(folder)) as instance, WorkspaceProcessContext(instance, target) as context:
        instance.add_dynamic_partitions("shops", ["open", "closed"])
        yield OtherProject(instance, names["defs"], context)


def test_old_events_are_deleted_and_every_state_stays(project: OtherProject, url: str) -> None:
    for month in MONTHS:
        for shop in ("open", "closed"):
            assert project.materialize(f"{month}|{shop}").success
    (statuses,) = project.state["assetPartitionStatuses"]["ranges"]
    (check,) = project.state["assetChecksOrError"]["checks"]
    assert (statuses["primaryDimStartKey"], statuses["primaryDimEndKey"]) == (MONTHS[0], MONTHS[-1])
    assert sorted(statuses["secondaryDim"]["materializedPartitions"]) == ["closed", "open"]
    assert check["executionForLatestMaterialization"]["status"] == "FAILED"

    for rows in ("2", "3"):
        project.materialize(f"{MONTHS[0]}|open", rows=rows)
    project.materialize(f"{MONTHS[1]}|open", fails="yes")
    running = make_new_run_id()
    project.instance.add_run(dg.DagsterRun(job_name="job", run_id=running, status=dg.DagsterRunStatus.STARTED))
    project.instance.report_engine_event("it runs", run_id=running, job_name="job")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_BACKDATE)
        for rows in ("4", "5"):
            project.materialize(f"{MONTHS[2]}|open", rows=rows)
        state, runs = project.state, project.instance.get_runs_count()
        counts = {table: _count(connection, table) for table in _TABLES}
        foreseen = prune_instance(project.instance, before=BEFORE, dry=True)
        assert {table: _count(connection, table) for table in _TABLES} == counts

        removed = prune_instance(project.instance, before=BEFORE, dry=False)
        again = prune_instance(project.instance, before=BEFORE, dry=False)

        left = {table: _count(connection, table) for table in _TABLES}

    assert project.state == state
    assert {name: foreseen[name] for name in ("executions of checks", "events", "backfills")} == {
        name: removed[name] for name in ("executions of checks", "events", "backfills")
    }
    assert removed["executions of checks"] == counts["asset_check_executions"] - left["asset_check_executions"] >= 2
    assert removed["events"] > counts["event_logs"] / 2
    assert removed["runs"] == runs - project.instance.get_runs_count() >= 1
    assert removed["backfills"] == 1
    assert again == dict.fromkeys(removed, 0)
    assert project.instance.get_run_by_id(running)
    assert len(project.instance.all_logs(running)) == 1
    plotted = project.plotted
    assert plotted.count((f"{MONTHS[0]}|open", 3)) == 1
    assert (f"{MONTHS[0]}|open", 2) not in plotted
    assert plotted[:2] == [(f"{MONTHS[2]}|open", 5), (f"{MONTHS[2]}|open", 4)]


def test_a_partition_keeps_the_version_that_others_have_read(project: OtherProject, url: str) -> None:
    rates = dg.AssetKey("rates")

    def load(partition: str, version: str) -> None:
        tags = {"dagster/data_version": version}
        project.instance.report_runless_asset_event(dg.AssetMaterialization(rates, partition=partition, tags=tags))

    def kept(partition: str) -> list[str]:
        of_partition = dg.AssetRecordsFilter(rates, asset_partitions=[partition])
        records = project.instance.fetch_materializations(of_partition, limit=10, ascending=True).records
        return [(each.asset_materialization.tags or {})["dagster/data_version"] for each in records]  # type: ignore[union-attr]

    for version in ("a", "b", "a", "a", "a"):
        load("unchanged", version)
    for version in ("a", "a", "b"):
        load("changed", version)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE event_logs SET timestamp = timestamp - interval '60 days'")
    newest = project.instance.fetch_materializations(dg.AssetRecordsFilter(rates, asset_partitions=["unchanged"]), 1)
    load("unchanged", "a")

    prune_instance(project.instance, before=BEFORE, dry=False)

    assert kept("unchanged") == ["a", "a"]
    assert kept("changed") == ["b"]
    read = newest.records[0].storage_id
    assert project.instance.get_latest_data_version_record(rates, partition_key="unchanged", before_cursor=read + 1)


def _count(connection: psycopg.Connection[tuple[int]], table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row
    return row[0]
