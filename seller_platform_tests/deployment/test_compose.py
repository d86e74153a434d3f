"""Tests the compose files, the programs of one machine, and runs on several Celery workers of which one is killed."""

import os
import shutil
import signal
import subprocess
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

from seller_platform.warehouse.postgres.advisory_locks import releasing, try_hold
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.health import CONNECTIONS, CONNECTIONS_OF_A_RUN
from seller_platform_tests.deployment.compose_machine import (
    COMPOSE,
    IMAGE,
    TOP,
    Machine,
    open_machine,
    services_with_celery,
)
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.deployment import Deployment
from seller_platform_tests.support.independent_upstream import IndependentUpstream, open_independent_upstream
from seller_platform_tests.support.installation import temporary_server
from seller_platform_tests.support.processes import (
    completed,
    connect,
    end_group,
    environment,
    foreign_environment,
    free_port,
)
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import wait_for


def require_redis() -> None:
    """Skip the test where Redis is not installed."""
    if shutil.which("redis-server") is None:
        skip_except_in_ci("Redis is not installed: it is the package redis-server of Debian")


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """Run Redis in a folder, and yield its URL."""
    require_redis()
    port = str(free_port())
    words = ["redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", str(folder), "--save", ""]
    log = folder / "redis.log"
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        ready = "Ready to accept connections"
        wait_for(log.read_text, lambda text: ready in text or process.poll() is not None, explain=str)
        assert process.poll() is None, log.read_text()[-3000:]
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        end_group(process)


pytestmark = pytest.mark.journey

PROGRAMS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == IMAGE}
WITH_WORKERS = {name: service for name, service in services_with_celery().items() if service["image"] == IMAGE}


def test_the_compose_files_are_valid() -> None:
    files = [TOP / "docker" / name for name in ("compose.yaml", "compose.celery.yaml")]
    tool, schema = _tool("check-jsonschema"), "vendor.compose-spec"
    subprocess.run([tool, "--builtin-schema", schema, *files], check=True, capture_output=True)


def test_the_dockerfile_passes_its_linter() -> None:
    command = [_tool("hadolint"), str(TOP / "docker" / "Dockerfile")]
    linted = completed(command)

    assert (linted.returncode, linted.stdout) == (0, "")


def test_programs_run_without_privileges_and_cannot_write_to_their_image() -> None:
    for name, service in WITH_WORKERS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
    assert COMPOSE["services"]["proxy"]["read_only"]
    assert COMPOSE["services"]["proxy"]["cap_drop"] == ["ALL"]
    dockerfile = (TOP / "docker" / "Dockerfile").read_text()
    assert "\nUSER 10001\n" in dockerfile
    assert "\nUSER 33\n" in dockerfile


def test_no_secret_is_in_the_compose_file() -> None:
    for name, service in services_with_celery().items():
        for variable, value in service.get("environment", {}).items():
            assert variable.endswith("_FILE") or "PASSWORD" not in variable, f"{name}: {variable}"
            assert "postgresql://" not in str(value), f"{name}: {variable}"


def test_every_program_gets_the_budget_and_the_history_of_the_shell() -> None:
    for name, program in WITH_WORKERS.items():
        for passed_on in ("SELLER_API_REQUESTS_PER_DAY", "SELLER_PLATFORM_HISTORY_START"):
            assert program["environment"].get(passed_on, "") is None, name


def test_git_ignores_the_secrets_and_the_page_keeps_others_from_them() -> None:
    secrets = [f"docker/{secret['file'].removeprefix('./')}" for secret in COMPOSE["secrets"].values()]

    ignored = completed(["git", "check-ignore", "--no-index", *secrets], cwd=TOP)

    assert ignored.stdout.split() == secrets
    assert "umask 077; mkdir docker/secrets" in (TOP / "seller_platform/docs/deploy.md").read_text()


def test_only_nginx_reaches_the_service_and_believes_only_the_gateway() -> None:
    service, proxy = (COMPOSE["services"][name] for name in ("service", "proxy"))
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    nginx = {path.stem: path.read_text() for path in (TOP / "docker" / "nginx").iterdir()}

    assert "ports" not in service
    assert service["environment"]["SELLER_PLATFORM_SERVICE_TRUSTED_PROXIES"].endswith(f":-{network['subnet']}}}")
    assert "SELLER_PLATFORM_SERVICE_PUBLIC_URL" in service["environment"]
    assert proxy["ports"] == ["127.0.0.1:8700:8080"]
    assert "listen 8080;" in nginx["port"]
    assert f"set_real_ip_from {network['gateway']};" in nginx["port"]
    assert f"server service:{service['command'][-2]} " in nginx["upstream"]


def _tool(name: str) -> str:
    """Return a program installed beside this Python."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    assert path is not None, f"{name} is not installed beside {sys.executable}; install the extra `test`"
    return path


# A run of a backfill has at most 36 partitions; here those of one month.
SELLERS = [f"S{number:02d}" for number in range(36)]
MONTHS = [str(month) for month in independent_upstream.MONTHS]
OTHER_HALF = SELLERS[18:]
ROWS = len(SELLERS) * sum(len(independent_upstream.transaction_rows(month)) for month in independent_upstream.MONTHS)

STARTED = "{ runsOrError(filter: {statuses: [STARTED]}) { ... on Runs { results { runId } } } }"
TERMINATE = "mutation ($runs: [String!]!) { terminateRuns(runIds: $runs) { __typename } }"
COUNTED = "platform.sent_requests", "coalesce(sum(requests), 0)"


@dataclass
class Requests:
    """What an upstream of many accounts was asked for.

    Attributes:
        released: Lists of the other half of the accounts are answered only after it is set.
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


@dataclass
class Cluster:
    """A machine with two workers, the interface of its web server, and an upstream whose accounts are discovered."""

    machine: Machine
    interface: Deployment
    upstream: IndependentUpstream
    requests: Requests


@contextmanager
def open_cluster(database_url: str, folder: Path) -> Iterator[Cluster]:
    """Run the programs of both compose files."""
    require_redis()
    with open_upstream() as (upstream, requests):
        shell = foreign_environment(upstream, database_url, folder / "home")
        chosen = {name: shell[name] for name in shell if name.startswith(("SELLER_API_", "SELLER_PLATFORM_HISTORY"))}
        chosen["SELLER_API_REQUESTS_PER_DAY"] = "100000"
        with open_machine(database_url, folder, services_with_celery(), **chosen) as machine:
            programs = [*(name for name in PROGRAMS if name != "migrate"), "redis"]
            subprocess.run(machine.command(PROGRAMS["migrate"]["command"]), env=machine.variables, check=True)
            connect(machine.variables)
            for name in programs:
                machine.start(name)
            for name in ("worker-1", "worker-2"):
                machine.start(name, f"--hostname={name}", service="worker")
            machine.await_health(*programs)
            interface = Deployment(
                machine.running["webserver"], folder, {"Dagster UI": f"http://127.0.0.1:{machine.ports['3000']}"}
            )
            interface.launch("__ASSET_JOB", "seller/accounts")
            interface.await_quiet()
            yield Cluster(machine, interface, upstream, requests)


@pytest.mark.nightly  # programs that import Dagster, and their health checks
def test_a_backfill_ends_green_though_a_worker_is_killed(database_url: str, tmp_path: Path) -> None:
    with open_cluster(database_url, tmp_path) as cluster:
        machine, interface, upstream, requests = cluster.machine, cluster.interface, cluster.upstream, cluster.requests
        counted, sent, refreshes = number_of(database_url, *COUNTED), _sent(upstream), upstream.refreshes

        months = [f"at-{100 + number}|{month}" for number in range(len(SELLERS)) for month in MONTHS]
        backfill = interface.backfill("seller/transactions", partitions=months)
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
    assert "The process of the run is gone" in str(failures)
    assert requests.twice == []
    assert upstream.refreshes > refreshes
    assert upstream.replayed == 0
    of_the_killed_worker = number_of(database_url, *COUNTED) - counted - (_sent(upstream) - sent)
    assert 0 <= of_the_killed_worker < 36
    assert number_of(database_url, "seller.transactions", "count(*)") == ROWS


@pytest.mark.nightly  # programs that import Dagster, and their health checks
def test_a_run_on_a_worker_is_canceled_and_outlives_postgresql_restarted(tmp_path: Path) -> None:
    account = f"at-{100 + SELLERS.index(OTHER_HALF[0])}"

    def refresh(cluster: Cluster, dataset: str) -> None:
        config = {"accounts": [account], "datasets": [dataset]}
        cluster.interface.launch("refresh_now", config={"ops": {"refresh": {"config": config}}})

    with temporary_server() as (server, _), open_cluster(server.database("seller"), tmp_path) as cluster:
        refresh(cluster, "transactions")
        wait_for(cluster.requests.under_way.total, explain=lambda _: cluster.machine.logs())
        started = cluster.interface.ask(STARTED)["runsOrError"]["results"]
        cluster.interface.ask(TERMINATE, runs=[run["runId"] for run in started])
        cluster.interface.await_quiet()
        canceled = cluster.interface.under_way().runs
        cluster.requests.under_way.clear()  # the threads of the canceled run still wait
        refresh(cluster, "transactions")
        wait_for(cluster.requests.under_way.total, explain=lambda _: cluster.machine.logs())
        os.kill(int((server.data_folder / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        cluster.requests.released.set()  # what is answered meanwhile cannot be stored
        wait_for(server.revive)
        loaded = "(SELECT DISTINCT account, date_trunc('month', local_day) FROM seller.transactions) AS months"
        wait_for(
            lambda: number_of(server.url("seller"), loaded, "count(*)"),
            lambda months: months == len(MONTHS),
            explain=lambda months: (months, cluster.interface.failures(), cluster.machine.logs()),
            seconds=600,
        )
        cluster.interface.await_quiet()
        runs = cluster.interface.under_way().runs
        refresh(cluster, "orders")
        orders = f"seller.orders WHERE account = '{account}'"
        wait_for(lambda: number_of(server.url("seller"), orders, "count(*)"), explain=lambda _: cluster.machine.logs())

    assert ("CANCELED", False) in canceled
    assert {status for status, _ in canceled} == {"SUCCESS", "CANCELED"}
    assert runs.count(("FAILURE", False)) == runs.count(("SUCCESS", True))
    assert ("FAILURE", True) not in runs


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


def test_a_run_of_another_worker_is_left_alone(variables: dict[str, str], database: Database, tmp_path: Path) -> None:
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
        assert try_hold(connection, "run|1")
        ended = completed([sys.executable, "-c", program], env={**variables, "SELLER_PLATFORM_CELERY_BROKER_URL": url})

    assert (ended.returncode, ended.stdout) == (0, "{'visibility_timeout': 300} None\n"), ended.stderr
