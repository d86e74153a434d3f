"""A Dagster instance on PostgreSQL that processes and ticks open from its folder, its tables, and a code server."""

import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import psycopg
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import GrpcServerTarget
from dagster._grpc.client import DagsterGrpcClient
from dagster_graphql.test.utils import execute_dagster_graphql

from seller_platform.warehouse.postgres.database import DAGSTER_SCHEMA
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.waiting import wait_for


@contextmanager
def postgres_instance(database_url: str, folder: Path, more: str = "") -> Iterator[dg.DagsterInstance]:
    """Yield an instance with our storage in a database, and its `dagster.yaml` in a folder.

    Args:
        more: Further lines of the `dagster.yaml`.
    """
    (folder / "dagster.yaml").write_text(
        "storage:\n  custom:\n    module: seller_platform.orchestration.storage\n    class: PooledPostgresStorage\n"
        f'    config: {{postgres_url: "{database_url}", schema: {DAGSTER_SCHEMA}}}\n'
        f"code_servers: {{wait_for_local_processes_on_shutdown: true}}\n{more}"
    )
    with dg.DagsterInstance.from_config(str(folder)) as opened:
        yield opened


def connect_to_tables(database_url: str) -> psycopg.Connection:
    """Connect to the database of such an instance; the names of tables are those of Dagster's."""
    return psycopg.connect(database_url, autocommit=True, options=f"-csearch_path={DAGSTER_SCHEMA}")


def newest_metadata(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None = None) -> dict[str, Any]:
    """Return the metadata of the newest materialization of an asset, or of one of its partitions."""
    of = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    materialization = instance.fetch_materializations(of, limit=1).records[0].asset_materialization
    assert materialization is not None
    return {name: value.value for name, value in materialization.metadata.items()}


_NOTHING: Mapping[str, Any] = MappingProxyType({})

_LAUNCH = """
mutation (
  $location: String!, $job: String!, $assets: [AssetKeyInput!], $config: RunConfigData!, $tags: [ExecutionTag!]
) {
  launchRun(executionParams: {
    selector: {
      repositoryName: "__repository__", repositoryLocationName: $location, jobName: $job, assetSelection: $assets
    }, runConfigData: $config, executionMetadata: {tags: $tags}
  }) { __typename ... on PythonError { message } ... on LaunchRunSuccess { run { runId } } }
}
"""
_BACKFILL = """
mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
_CANCEL = """
mutation ($backfill: String!) { cancelPartitionBackfill(backfillId: $backfill) { __typename } }
"""
# Dagster's daemon looks at backfills every 30 seconds; no setting changes that.
_DAEMON = """
from dagster._daemon import cli, controller
controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1
cli.main()
"""


class Interface(ABC):
    """What the UI asks and requests of a code location, in GraphQL."""

    name: str

    @abstractmethod
    def ask(self, query: str, **variables: Any) -> Mapping[str, Any]:
        """Return the answer to a query."""

    def launch(
        self, job: str, *assets: str, config: Mapping[str, Any] = _NOTHING, tags: Mapping[str, str] = _NOTHING
    ) -> str:
        """Launch a run as soon as the code location answers, and return its id."""
        of_run = [{"key": key, "value": value} for key, value in tags.items()]
        asked = {"job": job, "assets": paths_of(assets) or None, "config": dict(config), "tags": of_run}
        launched = wait_for(
            lambda: self.ask(_LAUNCH, location=self.name, **asked)["launchRun"],
            lambda answer: answer["__typename"] == "LaunchRunSuccess",
            explain=str,
            pause_seconds=1,
        )
        return str(launched["run"]["runId"])

    def backfill(self, *assets: str, partitions: Sequence[str] | None = None) -> str:
        """Launch a backfill, by default of all partitions, and return its id."""
        chosen = {"allPartitions": True} if partitions is None else {"partitionNames": partitions}
        parameters = {"assetSelection": paths_of(assets), **chosen}
        launched = self.ask(_BACKFILL, parameters=parameters)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])


def paths_of(assets: Iterable[str]) -> list[dict[str, list[str]]]:
    """Return the keys of assets as GraphQL has them."""
    return [{"path": asset.split("/")} for asset in assets]


@dataclass(frozen=True)
class CodeLocation(Interface):
    """A code location with its server, and the instance of its runs."""

    name: str
    instance: dg.DagsterInstance
    workspace: WorkspaceProcessContext

    def ask(self, query: str, **variables: Any) -> Mapping[str, Any]:
        context = self.workspace.create_request_context()
        answer: Mapping[str, Any] = execute_dagster_graphql(context, query, variables).data
        return answer

    def cancel(self, backfill: str) -> None:
        """Cancel a backfill as the UI does."""
        assert self.ask(_CANCEL, backfill=backfill)["cancelPartitionBackfill"]["__typename"] == "CancelBackfillSuccess"

    def runs(self, tag: str, value: str) -> list[dg.DagsterRun]:
        """Return the runs that have a tag with this value."""
        return list(self.instance.get_runs(dg.RunsFilter(tags={tag: value})))

    def run(self, run_id: str) -> dg.DagsterRun:
        """Return a run as it is stored now."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def end_of(self, run_id: str) -> dg.DagsterRunStatus:
        """Wait for the end of a run, and return its status."""
        return wait_for(lambda: self.run(run_id), lambda run: run.is_finished).status

    def messages(self, run_id: str) -> list[str]:
        """Return the messages of a run's events."""
        return [entry.message for entry in self.instance.all_logs(run_id)]


@contextmanager
def code_server(
    instance: dg.DagsterInstance, module: str, location: str, variables: dict[str, str], port: int | None = None
) -> Iterator[CodeLocation]:
    """Run a code server of a module until the block ends, by default on a free port, and yield its location."""
    port = port or free_port()
    command = ["api", "grpc", "--module-name", module, "--host", "127.0.0.1", "--port", str(port)]
    entry = [sys.executable, "-m", "dagster", *command, "--use-python-environment-entry-point"]
    with subprocess.Popen(entry, env=variables) as server:
        try:
            wait_for(partial(_answers, port))
            with WorkspaceProcessContext(instance, GrpcServerTarget("127.0.0.1", port, None, location)) as workspace:
                yield CodeLocation(location, instance, workspace)
        finally:
            server.send_signal(signal.SIGINT)


def start_daemon(folder: Path, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start Dagster's daemon over the instance and the `workspace.yaml` of a folder, in a process group of its own."""
    command = [sys.executable, "-c", _DAEMON, "run", "--workspace", str(folder / "workspace.yaml")]
    with (folder / "daemon.log").open("ab") as log:
        return subprocess.Popen(
            command, env={**variables, "DAGSTER_HOME": str(folder)}, stdout=log, stderr=log, start_new_session=True
        )


def _answers(port: int) -> bool:
    with suppress(DagsterUserCodeUnreachableError):
        DagsterGrpcClient(port=port, host="127.0.0.1").ping("")
        return True
    return False
