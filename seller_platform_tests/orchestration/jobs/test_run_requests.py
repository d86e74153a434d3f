"""Tests the jobs of the Launchpad, and with a code server the runs that they request."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, LISTS, Window, dataset_named
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.reporting import report_checks
from seller_platform.orchestration.jobs.acceptance import accept_job
from seller_platform.orchestration.jobs.acknowledgement import acknowledge_job
from seller_platform.orchestration.jobs.run_requests import REQUESTED_BY_TAG, loading_jobs
from seller_platform.orchestration.partitions import partition_key
from seller_platform.orchestration.placement import WHOLE
from seller_platform.orchestration.tags import ACCOUNT_TAG, CHANGED, EXIT_CODE, REFRESH_TAG
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import CodeLocation, code_server, postgres_instance
from seller_platform_tests.support.platform import (
    HISTORY_START,
    MONTHS,
    Platform,
    failure_of,
    hold_february,
    lent_platform,
    newest_checks,
)
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import environment, left_behind
from seller_platform_tests.support.waiting import wait_for

ORDERS = dataset_named("orders")
ACCOUNT, OTHER = independent_upstream.KEYS["A1FOREIGN"], independent_upstream.KEYS["A.2|FOREIGN"]
FEBRUARY, DECEMBER = MONTHS[1], Window.month_of(date(2025, 12, 1))
_TERMINATE = """
mutation ($run: String!) { terminateRun(runId: $run) { __typename ... on TerminateRunFailure { message } } }
"""


@dataclass(frozen=True)
class Location(CodeLocation):
    """A code location over a platform, and an instance with a queue that only the tests empty."""

    platform: Platform

    def start(self, job: str, op: str, **config: Any) -> str:
        """Launch a job as the Launchpad does, start its run, and return its id."""
        run_id = self.launch(job, config={"ops": {op: {"config": config}}})
        self.dequeue(run_id)
        return run_id

    def requested(self, job: str, op: str, **config: Any) -> list[dg.DagsterRun]:
        """Execute a job, and return the runs that it requested."""
        run_id = self.start(job, op, **config)
        assert self.end_of(run_id) is dg.DagsterRunStatus.SUCCESS, self.messages(run_id)
        return list(self.instance.get_runs(dg.RunsFilter(tags={REQUESTED_BY_TAG: run_id})))

    def dequeue(self, run_id: str) -> None:
        """Start a run of the queue, as the daemon does."""
        self.instance.launch_run(run_id, self.workspace.create_request_context())

    def terminate(self, run_id: str) -> None:
        terminated = self.ask(_TERMINATE, run=run_id)["terminateRun"]
        assert terminated["__typename"] == "TerminateRunSuccess", terminated


@dataclass
class Desk:
    """The jobs and a platform whose accounts are discovered."""

    platform: Platform
    definitions: dg.Definitions

    def launch(self, job: str, op: str, **config: Any) -> dg.ExecuteInProcessResult:
        return self.definitions.resolve_job_def(job).execute_in_process(
            instance=self.platform.instance,
            run_config={"ops": {op: {"config": config}}},
            raise_on_error=False,
        )

    def backfill(self, **config: Any) -> dg.ExecuteInProcessResult:
        return self.launch("backfill_history", "load_months", **config)

    def failure(self, result: dg.ExecuteInProcessResult, op: str) -> tuple[str, dict[str, Any]]:
        """Return the sentence of a failed step and its metadata. The UI shows no stack trace."""
        data = result.failure_data_for_node(op)
        assert data is not None
        assert data.error is not None
        assert (data.error.stack, data.error.cause, data.error.context) == ([], None, None)
        return data.error.message, failure_of(result)[1]


@pytest.fixture(scope="module")
def location(dagster_databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Location]:
    folder, variables = tmp_path_factory.mktemp("loading"), {"SELLER_PLATFORM_HISTORY_START": str(HISTORY_START)}
    quiet = partial(postgres_instance, more="telemetry: {enabled: false}\n")
    with lent_platform(dagster_databases, folder, variables, quiet) as platform:
        settings, url = platform.resources["seller_api"], platform.database.url
        names = ("base_url", "client_id", "client_secret", "redirect_uri")
        api = {f"SELLER_API_{name.upper()}": getattr(settings, name) for name in names}
        of_server = environment(folder, SELLER_PLATFORM_DATABASE_URL=url, **variables, **api)
        platform.discover()
        with code_server(
            platform.instance, "seller_platform.orchestration.definitions", "loading", of_server
        ) as started:
            yield Location(started.name, started.instance, started.workspace, platform)
    assert left_behind(folder) == []


@pytest.fixture(scope="module")
def desk(location: Location) -> Desk:
    """The jobs in this process, over the same platform."""
    resources = location.platform.resources

    def asset_job(since: date) -> dg.JobDefinition:
        assets = [asset_for(dataset, since) for dataset in LISTS]
        return dg.Definitions(assets, resources=resources).resolve_implicit_global_asset_job_def()

    jobs = [*loading_jobs(HISTORY_START, asset_job), accept_job(), acknowledge_job(DATASETS)]
    return Desk(location.platform, dg.Definitions(jobs=jobs, resources=resources, executor=dg.in_process_executor))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"from_month": "March"}, "from_month: 'March' is not a month; write it as 2026-03"),
        ({"from_month": "2026-13"}, "from_month: '2026-13' is not a month"),
        ({"from_month": "1999-01"}, "history cannot begin with 1999-01"),
        ({"from_month": "2026-03", "to_month": "2026-02"}, "there are no months from 2026-03 to 2026-02"),
        ({"from_month": "2026-02", "accounts": ["Down"]}, "there is no account 'Down'; the accounts are: "),
    ],
)
def test_a_backfill_that_cannot_be_made_ends_with_a_sentence(desk: Desk, config: dict[str, Any], problem: str) -> None:
    sentence, metadata = desk.failure(desk.backfill(**config), "load_months")

    assert problem in sentence
    assert metadata[EXIT_CODE] == 2


def test_a_run_of_no_code_location_cannot_request_others(desk: Desk) -> None:
    sentence, _ = desk.failure(desk.launch("refresh_now", "refresh", accounts=[ACCOUNT]), "refresh")

    assert "needs a code location, and an instance with a QueuedRunCoordinator" in sentence


@pytest.mark.parametrize(
    ("job", "op", "config"),
    [
        ("backfill_history", "load_months", {"from_month": "2026-02", "datasets": ["order"]}),
        ("backfill_history", "load_months", {"datasets": ["orders"]}),
        ("refresh_now", "refresh", {"datasets": ["accounts"]}),
        ("accept_held", "accept", {"load": "first"}),
    ],
)
def test_the_launchpad_refuses_unknown_names_and_other_types(
    desk: Desk, job: str, op: str, config: dict[str, Any]
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError):
        dg.validate_run_config(desk.definitions.resolve_job_def(job), {"ops": {op: {"config": config}}})


def test_every_field_of_the_launchpad_has_a_description(desk: Desk) -> None:
    for job, op in (
        ("backfill_history", "load_months"),
        ("refresh_now", "refresh"),
        ("accept_held", "accept"),
        ("acknowledge", "note_problems"),
    ):
        config: Any = desk.definitions.resolve_job_def(job).get_node_named(op).definition
        assert all(field.description for field in config.config_field.config_type.fields.values()), job


def test_held_readings_fail_their_check_until_they_are_accepted(desk: Desk) -> None:
    hold_february(desk.platform, ACCOUNT)
    (held,) = open_holds(desk.platform.database)
    report_checks(desk.platform.instance, desk.platform.database, WHOLE, [ORDERS])
    while_held = newest_checks(desk.platform.instance, ORDERS)["reading_is_plausible"]

    month, _ = desk.failure(desk.launch("acknowledge", "note_problems", kind="held", month="May"), "note_problems")
    odd, _ = desk.failure(desk.launch("acknowledge", "note_problems", kind="odd"), "note_problems")
    known = desk.launch("acknowledge", "note_problems", kind="held", dataset="orders", until="2999-12-31")
    while_known = newest_checks(desk.platform.instance, ORDERS)["reading_is_plausible"]
    wrong, _ = desk.failure(desk.launch("accept_held", "accept", load=1), "accept")
    nothing, _ = desk.failure(desk.launch("accept_held", "accept"), "accept")
    result = desk.launch(
        "accept_held", "accept", accounts=[ACCOUNT], datasets=["orders"], accepted_by="ann", reason="they were tests"
    )

    assert (while_held.severity, while_known.severity) == (dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN)
    assert (known.success, while_held.passed, while_known.passed) == (True, False, False)
    assert "month: 'May' is not a month" in month
    assert "there is no problem 'odd'" in odd
    assert f"the reading of load 1 is not held; those held are: {held.id}" in wrong
    assert "the config names nothing to accept" in nothing
    assert result.success
    assert open_holds(desk.platform.database) == ()
    (event,) = result.get_asset_materialization_events()
    assert event.partition == partition_key(ACCOUNT, FEBRUARY)
    notes = event.materialization.metadata["notes"].value
    assert isinstance(notes, dict)
    assert (notes["accepted"]["by"], notes["accepted"]["why"]) == ("ann", "they were tests")
    assert newest_checks(desk.platform.instance, ORDERS)["reading_is_plausible"].passed


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
    assert partition_key(OTHER, DECEMBER) in location.platform.materialized(ORDERS)
    assert (
        location.platform.database.execute(text("SELECT first_day FROM platform.history_start")).scalar_one()
        == DECEMBER.start
    )


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
    months = [Window.month_of(date(2026, month, 1)) for month in range(9, 0, -1)]
    (run,) = location.requested(
        "backfill_history", "load_months", from_month="2026-01", to_month="2026-09", accounts=[OTHER],
        datasets=["orders"],
    )  # fmt: skip
    newest, waiting = partition_key(OTHER, months[0]), months[2].start

    with location.platform.database.connect() as connection, releasing(connection):
        hold(connection, f"orders|{OTHER}|{waiting:%Y-%m}")
        location.dequeue(run.run_id)
        wait_for(lambda: newest in location.platform.materialized(ORDERS), pause_seconds=0.5)
        location.terminate(run.run_id)
    ended = location.end_of(run.run_id)

    events = {entry.dagster_event_type for entry in location.instance.all_logs(run.run_id)}
    kept = location.platform.materialized(ORDERS) & {partition_key(OTHER, month) for month in months}
    assert ended is dg.DagsterRunStatus.CANCELED, location.messages(run.run_id)
    assert events.isdisjoint({dg.DagsterEventType.STEP_UP_FOR_RETRY, dg.DagsterEventType.STEP_RESTARTED})
    assert newest in kept
    assert partition_key(OTHER, months[-1]) not in kept
