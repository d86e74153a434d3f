"""Tests runs on several Celery workers: after one is killed, its run starts again; and workers with Redis."""

import os
import signal
import socketserver
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest

from seller_platform_tests.deployment.test_compose import TOP
from seller_platform_tests.support.processes import environment
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.journey

LOCATION = "seller_platform_tests.deployment.waiting_location"
WORKER = ["celery", "--app", "seller_platform.orchestration.celery_runs", "worker", "--queues", "dagster"]


@pytest.fixture
def variables(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    home = tmp_path / "dagster"
    home.mkdir()
    settings = (TOP / "dagster.yaml").read_text() + (TOP / "docker" / "celery.yaml").read_text()
    for name, seconds, fewer in (("poll_interval", 15, 2), ("start_timeout", 120, 30)):
        settings = settings.replace(f"{name}_seconds: {seconds}", f"{name}_seconds: {fewer}")
    (home / "dagster.yaml").write_text(settings)
    own = {
        "DAGSTER_HOME": str(home),
        "SELLER_PLATFORM_DATABASE_URL": database_url,
        "WAITING_LOCATION_FOLDER": str(tmp_path),
    }
    for name, value in {**own, "SELLER_PLATFORM_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return environment(tmp_path, **own, PYTHONPATH=str(TOP))


@pytest.fixture
def start(variables: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(name: str, *words: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *words], env=variables, stdout=log, stderr=log, start_new_session=True
            )
        started.append(process)
        return process

    yield begin
    for process in started:
        _kill(process)


@pytest.mark.nightly  # Dagster's own queue and retries, with two workers and a daemon
def test_a_run_whose_worker_is_killed_is_started_again_on_the_other(
    start: Callable[..., subprocess.Popen[bytes]], variables: dict[str, str], tmp_path: Path
) -> None:
    workers = [start(f"worker-{number}", *WORKER, "--hostname", f"worker-{number}") for number in (1, 2)]
    start("daemon", "dagster._daemon", "run", "-m", LOCATION)
    for _ in workers:
        launch = [sys.executable, "-m", "dagster", "job", "launch", "-m", LOCATION, "-j", "waiting"]
        subprocess.run(launch, env=variables, check=True, capture_output=True)
    begun = wait_for(lambda: list(tmp_path.glob("*.begun")), explain=lambda _: _logs(tmp_path))
    group = os.getpgid(int(begun[0].read_text()))

    _kill(next(worker for worker in workers if worker.pid == group))
    (tmp_path / "go").touch()

    with dg.DagsterInstance.from_config(variables["DAGSTER_HOME"]) as instance:
        runs = wait_for(
            lambda: list(instance.get_runs()),
            _are_done,
            explain=lambda runs: (runs, _logs(tmp_path)),
            pause_seconds=0.5,
        )
    killed = next(run for run in runs if run.run_id == begun[0].stem)
    retried = next(run for run in runs if run.parent_run_id == killed.run_id)
    assert killed.status is dg.DagsterRunStatus.FAILURE
    assert retried.status is dg.DagsterRunStatus.SUCCESS


def test_workers_that_start_at_once_on_a_new_database_all_run(variables: dict[str, str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "seller_platform_tests.deployment.workers_at_once"],
        check=False,
        env=variables,
        capture_output=True,
        text=True,
    )

    assert ended.returncode == 0, ended.stderr


class _Redis(socketserver.StreamRequestHandler):
    """Answers the commands that declare a queue, as Redis does."""

    def handle(self) -> None:
        queued = 0
        while line := self.rfile.readline():
            words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
            match words[0]:
                case b"PING":
                    answer = b"+PONG\r\n"
                case b"HELLO":
                    answer = b"%1\r\n+proto\r\n:3\r\n"
                case b"MULTI":
                    queued, answer = 0, b"+OK\r\n"
                case b"EXEC":
                    answer = b"*%d\r\n" % queued + b":1\r\n" * queued
                case _:
                    queued, answer = queued + 1, b"+QUEUED\r\n"
            self.wfile.write(answer)


def test_a_worker_starts_with_redis_and_keeps_a_run_for_days(variables: dict[str, str]) -> None:
    program = "from seller_platform.orchestration.celery_runs import app; print(app.conf.broker_transport_options)"
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Redis) as redis, ThreadPoolExecutor(1) as pool:
        redis.daemon_threads = True
        pool.submit(redis.serve_forever)
        broker = f"redis://127.0.0.1:{redis.server_address[1]}/0"
        ended = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            env={**variables, "SELLER_PLATFORM_CELERY_BROKER_URL": broker},
            capture_output=True,
            text=True,
        )
        redis.shutdown()

    assert (ended.returncode, ended.stdout) == (0, "{'visibility_timeout': 604800}\n"), ended.stderr


def _are_done(runs: list[dg.DagsterRun]) -> bool:
    """Return whether each of the two runs or its retry succeeded."""
    done = {run.root_run_id or run.run_id for run in runs if run.status is dg.DagsterRunStatus.SUCCESS}
    return len(done) == 2


def _logs(folder: Path) -> dict[str, str]:
    return {log.name: log.read_text()[-3000:] for log in folder.glob("*.log")}


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
