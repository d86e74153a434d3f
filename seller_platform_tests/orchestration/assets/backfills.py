"""Backfills, divided and ended by the iterations of Dagster's daemon, whose runs execute in this process."""

import logging
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.backfill import execute_backfill_iteration
from dagster._time import get_current_timestamp

from seller_platform_tests.support.dagster_instance import postgres_instance

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


@dataclass(frozen=True)
class Backfill:
    """The end of a backfill.

    Attributes:
        status: Dagster's status, such as COMPLETED_SUCCESS.
        failed: The partitions that did not get a materialization, by the name of their asset.
    """

    status: str
    failed: dict[str, set[str]]


@dataclass
class Backfills:
    """A code location and an instance in which backfills are launched."""

    instance: dg.DagsterInstance
    workspace: WorkspaceProcessContext

    def run(self, keys: Collection[dg.AssetKey] | None = None, partitions: Sequence[str] | None = None) -> Backfill:
        """Launch a backfill and iterate until it ends.

        Args:
            keys: The assets; by default all.
            partitions: Their partitions; by default all.
        """
        graph = self.workspace.create_request_context().asset_graph
        number = f"backfill{next(_NUMBERS)}"
        self.instance.add_backfill(
            PartitionBackfill.from_asset_partitions(
                backfill_id=number,
                asset_graph=graph,
                partition_names=partitions,
                asset_selection=sorted(keys or graph.executable_asset_keys),
                backfill_timestamp=get_current_timestamp(),
                tags={},
                dynamic_partitions_store=self.instance,
                all_partitions=partitions is None,
                title=None,
                description=None,
                run_config=None,
            )
        )
        for _ in range(_MOST_ITERATIONS):
            errors = [error for error in execute_backfill_iteration(self.workspace, _LOG) if error]
            assert not errors, errors
            if self._backfill(number).status is not BulkActionStatus.REQUESTED:
                break
        backfill = self._backfill(number)
        failed = backfill.get_asset_backfill_data(graph).failed_and_downstream_subset
        return Backfill(
            backfill.status.value,
            {
                key.to_user_string(): {
                    str(each.partition_key) for each in failed.iterate_asset_partitions() if each.asset_key == key
                }
                for key in failed.asset_keys
            },
        )

    def _backfill(self, number: str) -> PartitionBackfill:
        backfill = self.instance.get_backfill(number)
        assert backfill is not None
        return backfill


_NUMBERS = count(1)


@contextmanager
def backfills(database_url: str, folder: Path, location: str) -> Iterator[Backfills]:
    """Load a code location of this folder with the settings of the environment, over an instance in a database."""
    target = LoadableTargetOrigin(
        executable_path=sys.executable,
        module_name=f"{__package__}.{location}",
        attribute="location",
    )
    with (
        postgres_instance(database_url, folder, _RUNS_HERE) as instance,
        WorkspaceProcessContext(
            instance, InProcessWorkspaceLoadTarget(InProcessCodeLocationOrigin(target))
        ) as workspace,
    ):
        yield Backfills(instance, workspace)
