"""Tests runs on several Celery workers: a backfill goes on after one is killed."""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from seller_platform.warehouse.postgres.advisory_locks import hold_within, releasing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.health import CONNECTIONS, CONNECTIONS_OF_A_RUN
from seller_platform_tests.deployment.compose_machine import TOP, open_machine, services_with_celery
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.brokers import redis, require_redis
from seller_platform_tests.support.deployment import Deployment
from seller_platform_tests.support.independent_upstream import IndependentUpstream, open_independent_upstream
from seller_platform_tests.support.processes import completed, connect, environment, foreign_environment, free_port, run
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.journey

# A run of a backfill has at most 36 partitions; here those of one month.
SELLERS = [f"S{number:02d}" for number in range(36)]
MONTHS = [str(month) for month in independent_upstream.MONTHS]
OTHER_HALF = SELLERS[18:]
ROWS = len(SELLERS) * sum(len(independent_upstream.transaction_rows(month)) for month in independent_upstream.MONTHS)

COUNTED = "platform.sent_requests", "coalesce(sum(requests), 0)"


@dataclass
class Requests:
    """What an upstream of many accounts was asked for.

    Attributes:
        released: Lists of the other half of the accounts are answered only after it is set.
        under_way: The requests that are being answered.
        twice: Requests that came while the same one was being answered.
    """

    released: threading.Event = field(default_factory=threading.Event)
    under_way: Counter[tuple[str, ...]] = field(default_factory=Counter)
    twice: list[tuple[str, ...]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def months(self) -> set[str]:
        """The months of which lists are being answered."""
        with self.lock:
            return {month for month in MONTHS for key in self.under_way if f"start_date={month}" in key}

    @contextmanager
    def asked(self, path: str, query: dict[str, str]) -> Iterator[None]:
        key = (path, *(f"{name}={value}" for name, value in sorted(query.items())))
        with self.lock:
            if key in self.under_way:
                self.twice.append(key)
            self.under_way[key] += 1
        try:
            if query.get("seller_id") in OTHER_HALF:
                self.released.wait()
            yield
        finally:
            with self.lock:
                self.under_way[key] -= 1
                self.under_way += Counter()


@contextmanager
def open_upstream() -> Iterator[tuple[IndependentUpstream, Requests]]:
    """Serve an upstream of many accounts, whose tokens are replaced after each 50 requests or after a second."""
    requests = Requests()
    with open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream:
        upstream.accounts, page = independent_upstream.shops(SELLERS), upstream.page

        def asked_page(path: str, query: dict[str, str]) -> Any:
            with requests.asked(path, query):
                return page(path, query)

        upstream.page = asked_page  # type: ignore[method-assign]
        yield upstream, requests


@pytest.mark.nightly  # five programs that import Dagster
def test_a_backfill_ends_green_though_a_worker_is_killed(database_url: str, tmp_path: Path) -> None:
    require_redis()
    with open_upstream() as (upstream, requests):
        shell = foreign_environment(upstream, database_url, tmp_path / "home")
        chosen = {name: shell[name] for name in shell if name.startswith(("SELLER_API_", "SELLER_PLATFORM_HISTORY"))}
        chosen["SELLER_API_REQUESTS_PER_DAY"] = "100000"
        with open_machine(database_url, tmp_path, services_with_celery(), **chosen) as machine:
            programs = ["code-location", "webserver", "daemon", "redis"]
            run(["migrate"], machine.variables)
            connect(machine.variables)
            for name in programs:
                machine.start(name)
            for name in ("worker-1", "worker-2"):
                machine.start(name, f"--hostname={name}", service="worker")
            machine.await_health(*programs)
            interface = Deployment(
                machine.running["webserver"], tmp_path, {"Dagster UI": f"http://127.0.0.1:{machine.ports['3000']}"}
            )
            interface.materialize("accounts")
            interface.await_quiet()
            counted, sent, refreshes = number_of(database_url, *COUNTED), _sent(upstream), upstream.refreshes

            backfill = interface.backfill(
                ["transactions"], [f"at-{100 + number}|{month}" for number in range(len(SELLERS)) for month in MONTHS]
            )
            wait_for(lambda: requests.months, lambda months: len(months) == 2, explain=lambda _: machine.logs())
            machine.kill("worker-1")
            requests.released.set()
            held: list[int] = []

            def status() -> str:
                held.append(number_of(database_url, "pg_stat_activity WHERE datname = current_database()", "count(*)"))
                return interface.under_way().backfills[backfill]

            wait_for(
                status,
                lambda status: status.startswith("COMPLETED"),
                explain=lambda status: (status, interface.under_way().runs, machine.logs()),
                pause_seconds=1,
            )
            statuses, failures = interface.under_way(), interface.failures()
        assert max(held) <= CONNECTIONS + 2 * CONNECTIONS_OF_A_RUN
        assert statuses.backfills == {backfill: "COMPLETED_SUCCESS"}
        assert [run for run in statuses.runs if run[0] == "FAILURE"] == [("FAILURE", False)]
        assert [run for run in statuses.runs if run[1]] == [("SUCCESS", True)]
        assert "The worker is gone" in str(failures)
        assert requests.twice == []
        assert upstream.refreshes > refreshes
        assert upstream.replayed == 0
        assert 0 <= number_of(database_url, *COUNTED) - counted - (_sent(upstream) - sent) < 36, (
            "those of the killed worker"
        )
    assert number_of(database_url, "seller.transactions", "count(*)") == ROWS


def _sent(upstream: IndependentUpstream) -> int:
    return sum(count for (method, _), count in upstream.server.seen.items() if method == "GET")


def number_of(database_url: str, relation: str, expression: str) -> int:
    """Return a whole number that PostgreSQL computes of a relation."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(f"SELECT {expression} FROM {relation}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def variables(database_url: str, tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url, PYTHONPATH=str(TOP))


def test_a_run_is_left_alone_while_another_worker_executes_it(
    variables: dict[str, str], database: Database, tmp_path: Path
) -> None:
    program = """if True:
        from dagster._core.code_pointer import ModuleCodePointer
        from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
        from dagster._grpc.types import ExecuteRunArgs
        from dagster._serdes import pack_value
        from seller_platform.orchestration.celery_runs import app
        location = RepositoryPythonOrigin("python", ModuleCodePointer("nowhere", "nothing"))
        run = pack_value(ExecuteRunArgs(JobPythonOrigin("job", location), "1", None))
        print(app.conf.broker_transport_options, app.tasks["execute_job"](execute_job_args_packed=run))
    """
    with database.connect() as connection, releasing(connection), redis(tmp_path) as url:
        assert hold_within(connection, "run|1", 0)
        ended = completed([sys.executable, "-c", program], env={**variables, "SELLER_PLATFORM_CELERY_BROKER_URL": url})

    assert (ended.returncode, ended.stdout) == (0, "{'visibility_timeout': 300} None\n"), ended.stderr
