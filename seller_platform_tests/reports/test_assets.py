"""Tests reports requested, polled and loaded, from our service and from other upstreams."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.orchestration.partitions import add_accounts, asset_key
from seller_platform.reports.assets import report_definitions, request_step
from seller_platform.warehouse.connections.accounts import accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.simulation.reports import ACCOUNTS, NOON, ReportUpstream, report_upstream
from seller_platform_tests.support.platform import ROW_COUNT, failure_of, newest_checks, resources_of
from seller_platform_tests.support.ticks import tick

KEY = asset_key(REPORT_ROWS)


@dataclass
class Reports:
    """The definitions with their instance and database, and a clock that tests set."""

    database: Database
    instance: dg.DagsterInstance
    now: datetime
    defs: dg.Definitions = field(default_factory=dg.Definitions)

    def clock(self) -> datetime:
        return self.now

    def request(self, **config: Any) -> dg.ExecuteInProcessResult:
        run_config = {"ops": {"request": {"config": config}}}
        job = self.defs.resolve_job_def("request_reports")
        return job.execute_in_process(instance=self.instance, run_config=run_config, raise_on_error=False)

    def tick(self, **later: float) -> list[dg.RunRequest]:
        """Evaluate the sensor some time later, and return the runs that it requests."""
        self.now += timedelta(**later)
        result = tick(self.defs, "report_jobs", self.instance)
        assert bool(result.run_requests) != bool(result.skip_message)
        return list(result.run_requests or ())

    def launch(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """Execute the run that the sensor requested, with the tags that Dagster's daemon adds."""
        return self.defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=[KEY],
            partition_key=request.partition_key,
            tags={**request.tags, "dagster/run_key": request.run_key or ""},
            raise_on_error=False,
        )

    def begin(self, request: dg.RunRequest) -> dg.DagsterRun:
        """Store the run that the sensor requested as one that has started."""
        job = self.defs.resolve_implicit_global_asset_job_def()
        tags = {**request.tags, "dagster/partition": request.partition_key or ""}
        return self.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED, tags=tags)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.database.execute(text(statement)).mappings()]

    def states(self) -> list[str]:
        return [row["state"] for row in self.rows("SELECT state FROM platform.report_jobs ORDER BY id")]


@pytest.fixture
def upstream() -> Iterator[ReportUpstream]:
    with report_upstream() as running:
        yield running


@pytest.fixture
def reports(
    upstream: ReportUpstream, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reports]:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    resources = resources_of(database.url, upstream.connect(database, tmp_path))
    with dg.DagsterInstance.ephemeral() as instance:
        add_accounts(instance, [key for key, _ in ACCOUNTS])
        opened = Reports(database, instance, NOON)
        upstream.clock = opened.clock
        opened.defs = dg.Definitions.merge(
            report_definitions(date(2026, 1, 1), request_step(clock=opened.clock), clock=opened.clock),
            dg.Definitions(resources=resources, executor=dg.in_process_executor),
        )
        yield opened


def test_reports_of_all_accounts_are_loaded_each_in_its_own_run(reports: Reports, upstream: ReportUpstream) -> None:
    reports.instance.delete_dynamic_partition("accounts", "us-1")  # without a partition it gets no run
    requested = reports.request()

    (first,) = reports.tick(seconds=5)
    add_accounts(reports.instance, ["us-1"])
    runs = {request.partition_key: reports.launch(request) for request in (first, *reports.tick())}

    assert requested.success
    assert reports.defs.resolve_sensor_def("report_jobs").default_status is dg.DefaultSensorStatus.RUNNING
    days = [asked.query["dps_date"] for asked in upstream.asked]
    assert sorted(days) == ["2026-03-09", "2026-03-10"]
    assert {key: run.success for key, run in runs.items()} == {"us-1": True, "nz-2": True}
    assert reports.tick() == []
    assert reports.instance.get_materialized_partitions(KEY) == {"us-1", "nz-2"}
    event = runs["us-1"].asset_materializations_for_node("seller__report_rows")[0]
    assert event.metadata["rows"].value == 1
    number = str(1 + days.index("2026-03-09"))
    assert cast("Mapping[str, object]", event.metadata["notes"].value)["report_id"] == number
    checks = newest_checks(reports.instance, REPORT_ROWS)
    assert ROW_COUNT in checks
    assert all(each.passed for each in checks.values())


def test_a_request_that_is_refused_fails_its_run_and_no_other(reports: Reports, upstream: ReportUpstream) -> None:
    upstream.refuses = {"/reports/request": [(422, {})]}

    message, _ = failure_of(reports.request())

    # Both send their request at the same time; the upstream refuses the first one.
    day, refused, other = ("2026-03-09", "us-1", "nz-2") if "us-1" in message else ("2026-03-10", "nz-2", "us-1")
    assert f"the report dps_date {day} of {refused}: " in message
    assert "the upstream answered 422: not now" in message
    assert [request.partition_key for request in reports.tick(seconds=5)] == [other]


def test_one_report_that_fails_fails_one_run_and_stops_no_other(reports: Reports, upstream: ReportUpstream) -> None:
    for value in ("2026-03-01", "2026-03-02"):
        reports.request(accounts=["us-1"], value=value)
    upstream.refuses = {"/reports/download": [(403, {})]}

    run = reports.launch(reports.tick(seconds=5)[0])

    _, reasons = failure_of(run)
    assert set(reasons) == {"the report dps_date 2026-03-01 of us-1"}
    assert reports.states() == ["failed", "loaded"]
    assert reports.instance.get_materialized_partitions(KEY) == {"us-1"}
    assert reports.tick(days=1) == []


def test_a_run_that_fails_or_is_killed_is_requested_again(reports: Reports, upstream: ReportUpstream) -> None:
    (account, *_) = accounts(reports.database)
    reports.request(accounts=[account.account.title])
    upstream.refuses = {"/reports/download": [(503, {"Retry-After": "900"})]}
    (first,) = reports.tick(seconds=5)
    failed = reports.launch(first)
    at_once = reports.tick()
    (second,) = reports.tick(minutes=10)
    killed = reports.begin(second)
    under_way = reports.tick(minutes=30)
    reports.instance.report_run_failed(killed)
    (third,) = reports.tick()
    loaded = reports.launch(third)

    requests = (first, second, third)
    assert (failed.success, at_once, under_way) == (False, [], [])
    assert len({each.run_key for each in requests}) == 3
    assert {each.partition_key for each in requests} == {account.key}
    assert (loaded.success, reports.states()) == (True, ["loaded"])


def test_a_report_does_not_wait_for_an_earlier_one_that_failed(reports: Reports, upstream: ReportUpstream) -> None:
    reports.request(accounts=["us-1"])
    upstream.refuses = {"/reports/download": [(503, {})] * 20}
    failed = reports.launch(reports.tick(seconds=5)[0])
    reports.request(accounts=["us-1"], value="2026-03-01")
    upstream.refuses = {}

    loaded = reports.launch(reports.tick(seconds=5)[0])

    assert (failed.success, loaded.success, reports.states()) == (False, True, ["loaded", "loaded"])


def test_a_report_that_no_run_stores_fails_in_the_end(reports: Reports) -> None:
    reports.request(accounts=["us-1"], give_up_after_hours=1)
    ready = reports.tick(minutes=50)
    before = (reports.tick(hours=6), reports.states())
    (last,) = reports.tick(minutes=10)

    sentence, _ = failure_of(reports.launch(last))

    assert len({each.run_key for each in (*ready, *before[0], last)}) == 3
    assert before[1] == ["ready"]
    assert "no run stored its rows within six hours" in sentence


def test_a_run_with_nothing_to_load_reports_what_is_stored(reports: Reports) -> None:
    by_hand = dg.RunRequest(run_key="by hand", partition_key="us-1", tags={})
    before = reports.launch(by_hand)
    reports.request(accounts=["us-1"])
    loaded = reports.launch(reports.tick(seconds=5)[0])
    after = reports.launch(by_hand)

    assert (before.success, after.success) == (True, True)
    (nothing,), (report,), (again,) = (
        run.asset_materializations_for_node("seller__report_rows") for run in (before, loaded, after)
    )
    no_report = "No report was ever loaded; request one by the job request_reports."
    assert (nothing.metadata["rows"].value, nothing.metadata["nothing_stored"].value) == (0, no_report)
    assert (again.tags, again.metadata["load_id"]) == (report.tags, report.metadata["load_id"])
