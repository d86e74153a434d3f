"""A report lands although everything that works on it is killed on the way."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from seller_platform.contract.tokens import TokenPair
from seller_platform.ingest.connections.upstream import Upstream, open_keeper
from seller_platform.orchestration.instance.home import shipped_file
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.tags import RUN_TAG
from seller_platform.warehouse.connections.accounts import save_accounts, save_connection
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.simulation.reports import ACCOUNTS, ROWS, ReportUpstream, report_upstream
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

# `orchestration/assets/test_reports.py` restarts all processes between any two steps.
pytestmark = [pytest.mark.journey, pytest.mark.nightly]

_DEFINITIONS = """
import warnings
from datetime import date

import dagster as dg

warnings.simplefilter("ignore")

from seller_platform.orchestration.assets.reports import report_definitions
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource

warehouse = WarehouseResource(database_url=dg.EnvVar("SELLER_PLATFORM_DATABASE_URL"))
seller_api = SellerApiResource(
    warehouse=warehouse,
    base_url=dg.EnvVar("SELLER_API_BASE_URL"),
    client_id="id",
    client_secret="secret",
    redirect_uri="http://127.0.0.1:1/cb",
)
defs = dg.Definitions.merge(
    report_definitions(date(2026, 1, 1)),
    dg.Definitions(resources={"warehouse": warehouse, "seller_api": seller_api}, executor=dg.in_process_executor),
)
"""


def test_a_report_lands_although_daemon_and_run_are_killed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads, let_go = threading.Semaphore(0), threading.Event()

    def stalling_at_first(_: str) -> bytes:
        downloads.release()
        let_go.wait(PATIENCE_SECONDS)
        return json.dumps(ROWS).encode()

    with report_upstream() as upstream:
        upstream.clock = lambda: datetime.now(UTC)
        upstream.lasts, upstream.download = timedelta(seconds=6), stalling_at_first
        file = _prepare(upstream, database, tmp_path, monkeypatch)
        with _daemon(file, tmp_path):
            _dagster("job", "launch", "-f", str(file), "-j", "request_reports", "--config-json", _CONFIG)
            wait_for(lambda: _states(database) == ["pending"], pause_seconds=0.2)
        with _daemon(file, tmp_path):
            assert downloads.acquire(timeout=PATIENCE_SECONDS), "no run came to load the report"
            os.kill(_process_of_the_run(), signal.SIGKILL)
            let_go.set()
            wait_for(lambda: _states(database) == ["loaded"], pause_seconds=0.2)

    assert len(upstream.asked) == 1
    with database.begin() as connection:
        rows = connection.execute(text("SELECT account, report_id, sku FROM seller.report_rows")).tuples().all()
    assert rows == [("S1.US", "1", "A")]


_CONFIG = json.dumps({"ops": {"request": {"config": {"accounts": ["S1.US"]}}}})


def _prepare(upstream: ReportUpstream, database: Database, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Connect, and return the file of the definitions."""
    for name, value in {
        "SELLER_PLATFORM_HOME": str(home),
        "SELLER_PLATFORM_DATABASE_URL": database.url,
        "SELLER_API_BASE_URL": upstream.url,
        "DAGSTER_HOME": str(home),
    }.items():
        monkeypatch.setenv(name, value)
    shutil.copy(shipped_file("dagster.yaml"), home / "dagster.yaml")
    known = Upstream(upstream.url, upstream.url, "id", "secret", "http://127.0.0.1:1/cb")
    save_connection(database, known.as_connection("default"))
    save_accounts(database, "default", ACCOUNTS)
    tokens = TokenPair("access", "refresh", datetime.now(UTC), 1_296_000)
    open_keeper(known, "default", database, secret_box(home, None), home).adopt(tokens)
    with dg.DagsterInstance.get() as instance:
        add_accounts(instance, [key for key, _ in ACCOUNTS])
    file = home / "reports.py"
    file.write_text(_DEFINITIONS)
    return file


@contextmanager
def _daemon(file: Path, home: Path) -> Iterator[None]:
    """Run the daemon and its code server, and kill them both at the end."""
    with (home / "daemon.log").open("a") as log:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "dagster._daemon", "run", "-f", str(file)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(daemon.pid, signal.SIGKILL)
            daemon.wait()


def _dagster(*arguments: str) -> None:
    command = [sys.executable, "-m", "dagster", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def _states(database: Database) -> list[str]:
    with database.begin() as connection:
        return list(connection.execute(text("SELECT state FROM platform.report_jobs")).scalars())


def _process_of_the_run() -> int:
    """Return the number of the process that executes the run which is under way."""
    with dg.DagsterInstance.get() as instance:
        # The run that requested the report may still be under way, by its last events.
        started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        (run,) = [run for run in started if RUN_TAG in run.tags]
        told = "\n".join(entry.message for entry in instance.all_logs(run.run_id))
    found = re.search(r"in process \(pid: (\d+)\)", told)
    assert found is not None, told
    return int(found[1])
