"""A Dagster project of other people that uses nothing of ours but the storage."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster_graphql.cli import execute_query

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
_STATE = """
{
  assetNodeOrError(assetKey: {path: ["sales"]}) {
    ... on AssetNode {
      partitionStats { numMaterialized numFailed numMaterializing }
      assetPartitionStatuses {
        ... on MultiPartitionStatuses {
          ranges {
            primaryDimStartKey
            primaryDimEndKey
            secondaryDim {
              ... on DefaultPartitionStatuses { materializedPartitions failedPartitions materializingPartitions }
            }
          }
        }
      }
      assetChecksOrError {
        ... on AssetChecks {
          checks {
            name
            executionForLatestMaterialization { status evaluation { success } }
          }
        }
      }
      latestMaterializationByPartition { partition runId metadataEntries { ... on IntMetadataEntry { intValue } } }
    }
  }
}
"""
_PLOTTED = """
{
  assetNodeOrError(assetKey: {path: ["sales"]}) {
    ... on AssetNode {
      assetMaterializations(limit: 100) { partition metadataEntries { ... on IntMetadataEntry { intValue } } }
    }
  }
}
"""


@dataclass
class OtherProject:
    """The project, its instance, and its GraphQL."""

    instance: dg.DagsterInstance
    definitions: dg.Definitions
    context: WorkspaceProcessContext

    def materialize(self, partition: str, **tags: str) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(instance=self.instance, partition_key=partition, tags=tags, raise_on_error=False)

    @property
    def state(self) -> dict[str, Any]:
        """What the UI shows of the asset: partitions, checks, and the newest materializations."""
        return self.ask(_STATE)

    @property
    def plotted(self) -> list[tuple[str, int]]:
        """The partition and the number of each materialization in the asset's plot."""
        events = self.ask(_PLOTTED)["assetMaterializations"]
        return [(each["partition"], each["metadataEntries"][0]["intValue"]) for each in events]

    def ask(self, query: str) -> dict[str, Any]:
        answer = execute_query(self.context, query)
        assert "errors" not in answer, json.dumps(answer, indent=1)
        node: dict[str, Any] = answer["data"]["assetNodeOrError"]
        return node


@contextmanager
def other_project(folder: Path) -> Iterator[OtherProject]:
    """Open the project in a folder; OTHER_DAGSTER_URL names its database."""
    (folder / "dagster.yaml").write_text(_STORAGE)
    (folder / "definitions.py").write_text(_DEFINITIONS)
    names: dict[str, Any] = {"__name__": "definitions"}
    exec(compile(_DEFINITIONS, str(folder / "definitions.py"), "exec"), names)
    target = PythonFileTarget(
        python_file=str(folder / "definitions.py"), attribute=None, working_directory=str(folder), location_name="other"
    )
    with (
        dg.DagsterInstance.from_config(str(folder)) as instance,
        WorkspaceProcessContext(instance, target) as context,
    ):
        instance.add_dynamic_partitions("shops", ["open", "closed"])
        yield OtherProject(instance, names["defs"], context)
