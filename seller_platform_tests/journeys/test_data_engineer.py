"""A data engineer tries the API, loads history, meets a wrong list, and reads the rows in a project of another team.

A daemon and the code servers of two teams are real processes, over PostgreSQL and an upstream on a socket. The tests
share them, in their order.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._core.execution.backfill import BulkActionStatus

from seller_platform.clocks import utc_now
from seller_platform.contract import Dataset, dataset_named
from seller_platform.orchestration.partitions import asset_key, partition_key
from seller_platform_tests.journeys import minutely_location
from seller_platform_tests.simulation.reports import ReportUpstream
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.dagster_instance import (
    CodeLocation,
    code_server,
    newest_metadata,
    postgres_instance,
    start_daemon,
)
from seller_platform_tests.support.independent_upstream import IndependentUpstream, open_independent_upstream
from seller_platform_tests.support.platform import KEYS, MONTHS, ROW_COUNT
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import connect, end_group, foreign_environment, free_port, left_behind
from seller_platform_tests.support.raw_server import Answer, Ask, Fault, Request, Wire
from seller_platform_tests.support.waiting import wait_for

pytestmark = [pytest.mark.journey, pytest.mark.timeout(1200)]

TOP = Path(__file__).parents[2]
ORDERS, TRANSACTIONS, REPORT_ROWS = map(dataset_named, ("orders", "transactions", "report_rows"))
ASSETS, PARTITION = "__ASSET_JOB", "dagster/partition"
JANUARY, FEBRUARY = (str(partition_key(KEYS[0], month)) for month in MONTHS[:2])


@dataclass
class Desk:
    """The shop's code location and that of the finance team, and the upstream.

    Attributes:
        daemon: Dagster's daemon.
        asked: The partition of each request for transactions that was answered.
        answers: When requests for transactions of some partitions are answered; others are at once.
    """

    folder: Path
    variables: dict[str, str]
    upstream: IndependentUpstream
    reports: ReportUpstream
    shop: CodeLocation
    finance: CodeLocation
    daemon: "subprocess.Popen[bytes]"
    asked: list[str] = field(default_factory=list)
    answers: dict[str, threading.Event] = field(default_factory=dict)

    def plan(self, request: Request) -> Fault | None:
        if not request.path.endswith(TRANSACTIONS.path):
            return None
        partition = f"{independent_upstream.KEYS[request.query['seller_id']]}|{request.query['start_date']}"
        if (answered := self.answers.get(partition)) is not None:
            return partial(_answer_later, answered)
        self.asked.append(partition)
        return None

    def materialized(self, dataset: Dataset) -> set[str]:
        return set(self.shop.instance.get_materialized_partitions(asset_key(dataset)))

    def partitions(self) -> set[str]:
        """Return every account and month that the shop's assets have."""
        graph = self.shop.workspace.create_request_context().asset_graph
        with dg.partition_loading_context(dynamic_partitions_store=self.shop.instance):
            definition = graph.get(asset_key(TRANSACTIONS)).partitions_def
            assert definition is not None
            return set(definition.get_partition_keys())

    def launch(self, partition: str) -> str:
        """Launch a run that loads a month of transactions."""
        return self.shop.launch(ASSETS, "seller/transactions", tags={PARTITION: partition})

    def check_after(self, run: str) -> str:
        """Wait until a run has succeeded, and return what the UI then shows of the number of transactions."""
        assert self.shop.end_of(run) is dg.DagsterRunStatus.SUCCESS, self.shop.messages(run)
        return self.check()

    def check(self) -> str:
        key = dg.AssetCheckKey(asset_key(TRANSACTIONS), ROW_COUNT)
        (newest,) = self.shop.instance.event_log_storage.get_latest_asset_check_execution_by_key([key]).values()
        return newest.status.value

    def await_backfill(self, backfill: str) -> BulkActionStatus:
        def status() -> BulkActionStatus:
            stored = self.shop.instance.get_backfill(backfill)
            assert stored is not None
            return stored.status

        ended = (BulkActionStatus.CANCELED, BulkActionStatus.COMPLETED_SUCCESS, BulkActionStatus.COMPLETED_FAILED)
        return wait_for(status, lambda status: status in ended, explain=self._end_of_log)

    def _end_of_log(self, seen: object) -> str:
        return f"{seen}\n{(self.folder / 'daemon.log').read_text()[-3000:]}"


@pytest.fixture(scope="module")
def desk(dagster_databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A connected installation with its daemon."""
    folder = tmp_path_factory.mktemp("desk")
    _, _, more = (TOP / "dagster.yaml").read_text().partition("run_launcher:")
    modules = {"shop": minutely_location.__name__, "finance": "seller_platform_tests.downstream_location.definitions"}
    ports = {name: free_port() for name in modules}
    servers = [{"grpc_server": {"port": port, "location_name": name}} for name, port in ports.items()]
    (folder / "workspace.yaml").write_text(yaml.safe_dump({"load_from": servers}))
    with (
        dagster_databases.lent() as database,
        open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream,
        postgres_instance(database.url, folder, f"run_launcher:{more}") as instance,
    ):
        upstream.issue_lasting_tokens()
        # Otherwise the hour decides whether an account still is on the day of the first tick, which was at midnight.
        upstream.accounts = [{**account, "timezone": "UTC"} for account in independent_upstream.ACCOUNTS]
        variables = foreign_environment(upstream, database.url, folder)
        connect(variables)
        with (
            code_server(instance, modules["shop"], "shop", variables, ports["shop"]) as shop,
            code_server(instance, modules["finance"], "finance", variables, ports["finance"]) as finance,
        ):
            reports, answer = ReportUpstream(clock=utc_now), upstream.server.answer

            def answer_either(request: Request) -> Answer:
                path = request.path.removeprefix("/api")
                if not path.startswith("/reports/"):
                    return answer(request)
                body, key = json.loads(request.body or b"{}"), request.headers.get("idempotency-key")
                status, headers, sent = reports.answer(path, request.query, body, key)
                return Answer(status, sent, headers)

            upstream.server.answer = answer_either
            opened = Desk(folder, variables, upstream, reports, shop, finance, start_daemon(folder, variables))
            upstream.server.plan = opened.plan
            try:
                yield opened
            finally:
                end_group(opened.daemon)
    assert left_behind(folder) == []


def test_a_backfill_is_canceled_and_exactly_the_rest_is_loaded(desk: Desk) -> None:
    wait_for(lambda: desk.shop.instance.get_dynamic_partitions("accounts"))
    everything, late = desk.partitions(), threading.Event()
    desk.answers = {str(partition_key(KEYS[1], month)): late for month in MONTHS[:2]}
    backfill = desk.shop.backfill("seller/transactions")
    answered = everything - desk.answers.keys()
    wait_for(lambda: desk.materialized(TRANSACTIONS), lambda loaded: loaded == answered, pause_seconds=0.5)
    desk.shop.cancel(backfill)
    canceled = desk.await_backfill(backfill)
    statuses = [run.status for run in desk.shop.runs("dagster/backfill", backfill)]
    kept, asked = desk.materialized(TRANSACTIONS), len(desk.asked)

    desk.answers = {}
    late.set()
    finished = desk.await_backfill(desk.shop.backfill("seller/transactions", partitions=sorted(everything - kept)))

    assert (canceled, finished) == (BulkActionStatus.CANCELED, BulkActionStatus.COMPLETED_SUCCESS)
    assert dg.DagsterRunStatus.CANCELED in statuses
    assert set(statuses) <= {dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.SUCCESS}
    assert kept == answered
    assert sorted(desk.asked[asked:]) == sorted(everything - kept)
    assert desk.materialized(TRANSACTIONS) == everything
    assert desk.check() == "SUCCEEDED"


def test_a_report_is_polled_by_the_next_daemon_until_it_is_complete(desk: Desk) -> None:
    desk.reports.lasts = timedelta(days=1)
    requested = desk.shop.launch("request_reports", config={"ops": {"request": {"config": {"accounts": [KEYS[0]]}}}})
    assert desk.shop.end_of(requested) is dg.DagsterRunStatus.SUCCESS, desk.shop.messages(requested)
    (report,) = desk.reports.asked
    wait_for(lambda: report.polls)
    end_group(desk.daemon)
    desk.reports.lasts = timedelta(0)

    desk.daemon = start_daemon(desk.folder, desk.variables)
    wait_for(lambda: desk.materialized(REPORT_ROWS))

    assert (desk.materialized(REPORT_ROWS), len(desk.reports.asked), report.downloads) == ({KEYS[0]}, 1, 1)
    assert newest_metadata(desk.shop.instance, asset_key(REPORT_ROWS), KEYS[0])["rows"] == 1


def test_the_schedule_requests_runs_that_succeed(desk: Desk) -> None:
    wait_for(lambda: desk.materialized(ORDERS), lambda loaded: loaded >= desk.partitions(), pause_seconds=0.5)

    runs = wait_for(
        lambda: desk.shop.runs("dagster/schedule_name", "refresh"), lambda runs: all(run.is_finished for run in runs)
    )

    assert {run.status for run in runs} == {dg.DagsterRunStatus.SUCCESS}


def test_a_list_that_lies_about_its_total_is_red_until_it_is_read_again(desk: Desk) -> None:
    desk.upstream.surplus = 1
    of_a_lie = desk.check_after(desk.launch(FEBRUARY))
    desk.upstream.surplus = 0
    repaired = desk.check_after(desk.launch(FEBRUARY))

    assert (of_a_lie, repaired) == ("FAILED", "SUCCEEDED")


def test_another_team_reads_a_partition_in_its_own_code_location(desk: Desk) -> None:
    run = desk.finance.launch(ASSETS, "finance/ledger_total", tags={PARTITION: FEBRUARY})

    assert desk.finance.end_of(run) is dg.DagsterRunStatus.SUCCESS, desk.finance.messages(run)
    total = newest_metadata(desk.finance.instance, dg.AssetKey(["finance", "ledger_total"]))
    assert total["entries"] == len(independent_upstream.transaction_rows(MONTHS[1].start))


def _answer_later(answered: threading.Event, wire: Wire, ask: Ask) -> None:
    answered.wait()
    with suppress(OSError):  # a run that was canceled has left
        wire.send(ask().encode())
