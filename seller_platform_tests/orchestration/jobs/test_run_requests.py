"""Tests the runs that `backfill_history` and `refresh_now` request, with a code server that executes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster_graphql.test.utils import execute_dagster_graphql
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.orchestration.jobs.run_requests import REQUESTED_BY_TAG
from seller_platform.orchestration.partitions import partition_key
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, REFRESH_TAG
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import code_server, postgres_instance
from seller_platform_tests.support.platform import HISTORY_START, MONTHS, Platform, lent_platform
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import environment, left_behind
from seller_platform_tests.support.waiting import wait_for

ACCOUNT, OTHER = independent_upstream.KEYS["A1FOREIGN"], independent_upstream.KEYS["A.2|FOREIGN"]
FEBRUARY, DECEMBER = MONTHS[1], Window.month_of(date(2025, 12, 1))
_LAUNCH = """
mutation ($job: String!, $config: RunConfigData!) {
  launchRun(executionParams: {
    selector: {repositoryName: "__repository__", repositoryLocationName: "loading", jobName: $job},
    runConfigData: $config
  }) { __typename ... on PythonError { message } ... on LaunchRunSuccess { run { runId } } }
}
"""
_TERMINATE = """
mutation ($run: String!) { terminateRun(runId: $run) { __typename ... on TerminateRunFailure { message } } }
"""


@dataclass(frozen=True)
class Location:
    """A code server, and an instance with a queue that only the tests empty."""

    platform: Platform
    workspace: WorkspaceProcessContext

    @property
    def instance(self) -> dg.DagsterInstance:
        return self.platform.instance

    def start(self, job: str, op: str, **config: Any) -> str:
        """Launch a job as the Launchpad does, start its run, and return its id."""
        launched = self._ask(_LAUNCH, job=job, config={"ops": {op: {"config": config}}})["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run_id = str(launched["run"]["runId"])
        self.dequeue(run_id)
        return run_id

    def requested(self, job: str, op: str, **config: Any) -> list[dg.DagsterRun]:
        """Execute a job, and return the runs that it requested."""
        run_id = self.start(job, op, **config)
        assert self.end_of(run_id) is dg.DagsterRunStatus.SUCCESS, self.messages(run_id)
        return self.requested_by(run_id)

    def requested_by(self, run_id: str) -> list[dg.DagsterRun]:
        return list(self.instance.get_runs(dg.RunsFilter(tags={REQUESTED_BY_TAG: run_id})))

    def dequeue(self, run_id: str) -> None:
        """Start a run of the queue, as the daemon does."""
        self.instance.launch_run(run_id, self.workspace.create_request_context())

    def terminate(self, run_id: str) -> None:
        terminated = self._ask(_TERMINATE, run=run_id)["terminateRun"]
        assert terminated["__typename"] == "TerminateRunSuccess", terminated

    def run(self, run_id: str) -> dg.DagsterRun:
        found = self.instance.get_run_by_id(run_id)
        assert found is not None
        return found

    def end_of(self, run_id: str) -> dg.DagsterRunStatus:
        return wait_for(lambda: self.run(run_id), lambda run: run.is_finished).status

    def messages(self, run_id: str) -> list[str]:
        return [entry.message for entry in self.instance.all_logs(run_id)]

    def _ask(self, query: str, **variables: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = execute_dagster_graphql(
            self.workspace.create_request_context(), query, variables
        ).data
        return answer


@pytest.fixture(scope="module")
def location(
    postgres: EmbeddedServer, dagster_databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Location]:
    folder, variables = tmp_path_factory.mktemp("loading"), {"SELLER_PLATFORM_HISTORY_START": str(HISTORY_START)}
    quiet = partial(postgres_instance, more="telemetry: {enabled: false}\n")
    with lent_platform(postgres, dagster_databases, folder, variables, quiet) as platform:
        settings, url = platform.resources["seller_api"], platform.database.url
        names = ("base_url", "client_id", "client_secret", "redirect_uri")
        api = {f"SELLER_API_{name.upper()}": getattr(settings, name) for name in names}
        of_server = environment(folder, SELLER_PLATFORM_DATABASE_URL=url, **variables, **api)
        platform.discover()
        with code_server(
            platform.instance, "seller_platform.orchestration.definitions", "loading", of_server
        ) as workspace:
            yield Location(platform, workspace)
    assert left_behind(folder) == []


def test_a_backfill_requests_runs_of_the_months_of_an_account_and_ends(location: Location) -> None:
    months = {"from_month": "2026-01", "to_month": "2026-02"}
    runs = location.requested(
        "backfill_history",
        "load_months",
        **months,
        accounts=['Ünïcode & "Sons" [EU]'],
        datasets=["orders", "inventory"],
    )

    assert {run.status for run in runs} == {dg.DagsterRunStatus.QUEUED}
    assert {run.tags[ACCOUNT_TAG] for run in runs} == {ACCOUNT}
    assert all(REFRESH_TAG not in run.tags for run in runs)
    names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    ranges = {
        key.to_user_string(): tuple(run.tags[name] for name in names)
        for run in runs
        for key in run.asset_selection or ()
    }
    assert ranges == {
        "seller/orders": (partition_key(ACCOUNT, MONTHS[0]), partition_key(ACCOUNT, FEBRUARY)),
        "seller/inventory": (ACCOUNT, ACCOUNT),
    }
    assert all(run.run_op_concurrency and run.run_op_concurrency.all_pools == {"seller_api"} for run in runs)


def test_a_requested_run_loads_a_month_before_the_history(location: Location) -> None:
    december = {"from_month": "2025-12", "to_month": "2025-12"}
    (run,) = location.requested("backfill_history", "load_months", **december, accounts=[OTHER], datasets=["orders"])

    location.dequeue(run.run_id)

    assert location.end_of(run.run_id) is dg.DagsterRunStatus.SUCCESS, location.messages(run.run_id)
    assert partition_key(OTHER, DECEMBER) in location.platform.materialized(dataset_named("orders"))
    with location.platform.database.begin() as connection:
        assert connection.execute(text("SELECT first_day FROM platform.history_start")).scalar_one() == DECEMBER.start


def test_a_job_and_its_runs_end_when_they_are_terminated(location: Location) -> None:
    with location.platform.database.begin() as connection:
        connection.execute(text("LOCK TABLE platform.accounts IN ACCESS EXCLUSIVE MODE"))
        waiting = location.start("refresh_now", "refresh")
        wait_for(lambda: location.run(waiting).status is dg.DagsterRunStatus.STARTED)
        location.terminate(waiting)
        ended = location.end_of(waiting)
    runs = location.requested("refresh_now", "refresh", accounts=["Down Under"], datasets=["transactions"])
    for run in runs:
        location.terminate(run.run_id)

    assert ended is dg.DagsterRunStatus.CANCELED
    due = {(run.tags[ACCOUNT_TAG], run.tags.get(REFRESH_TAG)) for run in runs}
    assert due
    assert due <= {(OTHER, CHANGED), (OTHER, None)}
    assert {location.run(run.run_id).status for run in runs} == {dg.DagsterRunStatus.CANCELED}


def test_a_load_that_is_terminated_ends_and_keeps_what_it_has_loaded(location: Location) -> None:
    orders, months = dataset_named("orders"), [Window.month_of(date(2026, month, 1)) for month in range(9, 0, -1)]
    (run,) = location.requested(
        "backfill_history", "load_months", from_month="2026-01", to_month="2026-09", accounts=[OTHER],
        datasets=["orders"],
    )  # fmt: skip
    newest, waiting = partition_key(OTHER, months[0]), months[2].start

    with location.platform.database.connect() as connection, releasing(connection):
        hold(connection, f"orders|{OTHER}|{waiting:%Y-%m}")
        location.dequeue(run.run_id)
        wait_for(lambda: newest in location.platform.materialized(orders))
        location.terminate(run.run_id)
    ended = location.end_of(run.run_id)

    events = {entry.dagster_event_type for entry in location.instance.all_logs(run.run_id)}
    kept = location.platform.materialized(orders) & {partition_key(OTHER, month) for month in months}
    assert ended is dg.DagsterRunStatus.CANCELED, location.messages(run.run_id)
    assert events.isdisjoint({dg.DagsterEventType.STEP_UP_FOR_RETRY, dg.DagsterEventType.STEP_RESTARTED})
    assert newest in kept
    assert partition_key(OTHER, months[-1]) not in kept
