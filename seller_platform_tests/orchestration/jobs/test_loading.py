"""Tests the jobs of the Launchpad, and with a code server the loads that they ask for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract import DATASETS, LISTS, Window, dataset_named
from seller_platform.orchestration.assets.datasets import asset_for
from seller_platform.orchestration.assets.reporting import report_checks
from seller_platform.orchestration.jobs.decisions import accept_job, acknowledge_job
from seller_platform.orchestration.jobs.loading import REQUESTED_BY_TAG, loading_definitions
from seller_platform.orchestration.partitions import partition_key
from seller_platform.orchestration.placement import WHOLE
from seller_platform.orchestration.tags import ACCOUNT_TAG, ACCOUNT_TITLE_TAG, CHANGED, REFRESH_TAG
from seller_platform.warehouse.loads.receipts import open_holds
from seller_platform.warehouse.postgres.advisory_locks import hold, releasing
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import CodeLocation, code_server, postgres_instance
from seller_platform_tests.support.independent_upstream import Rows
from seller_platform_tests.support.platform import (
    HISTORY_START,
    MONTHS,
    Platform,
    failure_of,
    lent_platform,
    newest_checks,
)
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import environment, left_behind
from seller_platform_tests.support.waiting import wait_for

ORDERS = dataset_named("orders")
ACCOUNT, OTHER = independent_upstream.KEYS["A1FOREIGN"], independent_upstream.KEYS["A.2|FOREIGN"]
FEBRUARY = MONTHS[1]
ASSETS = "__ASSET_JOB"
NOTHING: Mapping[str, Any] = MappingProxyType({})
_TERMINATE = """
mutation ($run: String!) { terminateRun(runId: $run) { __typename ... on TerminateRunFailure { message } } }
"""


@dataclass(frozen=True)
class Location(CodeLocation):
    """A code location over a platform, and an instance with a queue that only the tests empty."""

    platform: Platform

    def start(
        self, job: str, *assets: str, config: Mapping[str, Any] = NOTHING, tags: Mapping[str, str] = NOTHING
    ) -> str:
        """Launch a run as the UI does, start it as the daemon does, and return its id."""
        run_id = self.launch(job, *assets, config=config, tags=tags)
        self.instance.launch_run(run_id, self.workspace.create_request_context())
        return run_id

    def refresh(self, **config: Any) -> str:
        return self.start("refresh_now", config={"ops": {"refresh": {"config": config}}})

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
            instance=self.platform.instance, run_config={"ops": {op: {"config": config}}}, raise_on_error=False
        )

    def extend(self, first_month: str) -> dg.ExecuteInProcessResult:
        return self.launch("extend_history", "extend", first_month=first_month)

    def tick(self, cursor: str | None) -> tuple[str, list[dg.RunRequest]]:
        """Return the cursor of the sensor after a tick, and the runs that it requests."""
        sensor = self.definitions.resolve_sensor_def("requested_loads")
        repository, resources = self.definitions.get_repository_def(), self.platform.resources
        with dg.build_sensor_context(
            self.platform.instance, cursor, repository_def=repository, resources={"warehouse": resources["warehouse"]}
        ) as context:
            ticked = sensor.evaluate_tick(context)
        return str(ticked.cursor), list(ticked.run_requests or ())

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
        api["SELLER_PLATFORM_EXPORT_DIR"] = str(folder / "lake")
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
    others = dg.Definitions(
        [asset_for(dataset, HISTORY_START) for dataset in LISTS],
        jobs=[accept_job(), acknowledge_job(DATASETS)],
        resources=resources,
        executor=dg.in_process_executor,
    )
    return Desk(location.platform, dg.Definitions.merge(loading_definitions(HISTORY_START, datasets=LISTS), others))


def test_history_begins_earlier_and_the_job_says_what_that_takes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_API_REQUESTS_PER_DAY", "10")
    sentence, _ = desk.failure(desk.extend("1999-01"), "extend")
    results = [desk.extend("2025-11"), desk.extend("2025-12")]
    starts = desk.platform.database.execute(text("SELECT first_day FROM platform.history_start")).scalars()

    first, again = map(_output_of, results)
    months_and_slices = (2, 2 * 2 * sum(dataset.is_dated for dataset in LISTS))
    assert (first["months"], first["slices"]) == months_and_slices
    assert first["requests"] >= first["slices"]
    assert first["days_of_the_budget"] == -(-first["requests"] // 10)
    assert again == {}
    assert [*starts] == [date(2025, 11, 1)]
    assert "history cannot begin with 1999-01" in sentence


def test_held_readings_fail_their_check_until_they_are_accepted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_of_one(rows: Rows, seller: str) -> Rows:
        return [] if independent_upstream.KEYS[seller] == ACCOUNT else rows

    desk.platform.months(ORDERS, first=FEBRUARY, last=FEBRUARY)
    monkeypatch.setitem(desk.platform.upstream.changes, ORDERS.path, nothing_of_one)
    desk.platform.months(ORDERS, first=FEBRUARY, last=FEBRUARY)
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
    assert f"no reading that the config names is held. The loads of those that are held: {held.id}" in wrong
    assert "the config names nothing to accept" in nothing
    assert result.success
    assert open_holds(desk.platform.database) == ()
    (event,) = result.get_asset_materialization_events()
    assert event.partition == partition_key(ACCOUNT, FEBRUARY)
    notes = event.materialization.metadata["notes"].value
    assert isinstance(notes, dict)
    assert (notes["accepted"]["by"], notes["accepted"]["why"]) == ("ann", "they were tests")
    assert newest_checks(desk.platform.instance, ORDERS)["reading_is_plausible"].passed


def test_the_sensor_requests_once_what_a_job_has_asked_for(location: Location, desk: Desk) -> None:
    began, nothing = desk.tick(None)
    asked = location.refresh(accounts=['Ünïcode & "Sons" [EU]'], datasets=["orders", "inventory"])
    assert location.end_of(asked) is dg.DagsterRunStatus.SUCCESS, location.messages(asked)

    ended, requests = desk.tick(began)
    later, again = desk.tick(ended)

    assert (nothing, again, later) == ([], [], ended)
    tags = (ACCOUNT_TAG, ACCOUNT_TITLE_TAG, REQUESTED_BY_TAG)
    named = (ACCOUNT, 'Ünïcode & "Sons" [EU], AT, EUR', asked)
    assert {tuple(each.tags[tag] for tag in tags) for each in requests} == {named}
    assert {each.tags.get(REFRESH_TAG) for each in requests} == {CHANGED}
    assert len({each.run_key for each in requests}) == len(requests)
    loaded = {key.to_user_string() for each in requests for key in each.asset_selection or ()}
    assert loaded == {"seller/orders", "seller/inventory"}


@pytest.mark.parametrize(
    ("job", "asset", "table"),
    [
        ("refresh_now", "", "platform.accounts"),
        pytest.param(
            ASSETS, "marts/account_profit_daily", "marts.account_profit_daily", marks=pytest.mark.needs("marts")
        ),
        pytest.param(ASSETS, "export/orders", "seller.orders", marks=pytest.mark.needs("lake")),
        pytest.param(ASSETS, "seller/report_rows", "platform.report_jobs", marks=pytest.mark.needs("reports")),
    ],
)
def test_what_waits_for_a_table_ends_when_terminated(location: Location, job: str, asset: str, table: str) -> None:
    month = ACCOUNT if "report" in asset else partition_key(ACCOUNT, FEBRUARY)
    tags = {"dagster/partition": month} if asset else NOTHING
    with location.platform.database.begin() as connection:
        connection.execute(text(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
        run_id = location.start(job, *filter(None, [asset]), tags=tags)
        wait_for(location.platform.is_waiting_for_a_lock)
        location.terminate(run_id)

        assert location.end_of(run_id) is dg.DagsterRunStatus.CANCELED


def test_a_load_of_a_silent_upstream_ends_when_it_is_terminated(location: Location) -> None:
    waits = f"orders of {ACCOUNT}, 2026-02 waits: GET {ORDERS.path}: no complete answer in 5 s; attempt 1 of 6 goes on"
    with location.platform.upstream.silent():
        run_id = location.start(ASSETS, "seller/orders", tags={"dagster/partition": partition_key(ACCOUNT, FEBRUARY)})
        wait_for(lambda: any(each.startswith(waits) for each in location.messages(run_id)))
        location.terminate(run_id)

        assert location.end_of(run_id) is dg.DagsterRunStatus.CANCELED


def test_a_load_that_is_terminated_ends_and_keeps_what_it_has_loaded(location: Location) -> None:
    months = [Window.month_of(date(2026, month, 1)) for month in range(9, 0, -1)]
    newest, oldest, waiting = partition_key(OTHER, months[0]), partition_key(OTHER, months[-1]), months[2].start
    ends = {"dagster/asset_partition_range_start": oldest, "dagster/asset_partition_range_end": newest}

    with location.platform.database.connect() as connection, releasing(connection):
        hold(connection, f"orders|{OTHER}|{waiting:%Y-%m}")
        run_id = location.start(ASSETS, "seller/orders", tags=ends)
        wait_for(lambda: newest in location.platform.materialized(ORDERS), pause_seconds=0.5)
        location.terminate(run_id)
    ended = location.end_of(run_id)

    events = {entry.dagster_event_type for entry in location.instance.all_logs(run_id)}
    kept = location.platform.materialized(ORDERS) & {partition_key(OTHER, month) for month in months}
    assert ended is dg.DagsterRunStatus.CANCELED, location.messages(run_id)
    assert events.isdisjoint({dg.DagsterEventType.STEP_UP_FOR_RETRY, dg.DagsterEventType.STEP_RESTARTED})
    assert newest in kept
    assert oldest not in kept


def _output_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """Return the metadata that the only step of a job has given its output."""
    (event,) = (each for each in result.all_node_events if each.is_successful_output)
    return {name: each.value for name, each in event.step_output_data.metadata.items()}
