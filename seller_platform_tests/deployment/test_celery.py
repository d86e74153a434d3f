"""Runs on several workers through Celery, by way of PostgreSQL: one is killed, and its run is taken up again."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from seller_platform_tests.deployment.test_compose import TOP
from seller_platform_tests.journeys.processes import environment

pytestmark = pytest.mark.journey

LOCATION = "seller_platform_tests.deployment.waiting_location"
WORKER = ["celery", "--app", "seller_platform.orchestration.celery_runs", "worker", "--queues", "dagster"]


@pytest.fixture
def variables(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    home = tmp_path / "dagster"
    home.mkdir()
    settings = (TOP / "dagster.yaml").read_text() + (TOP / "docker" / "celery.yaml").read_text()
    (home / "dagster.yaml").write_text(settings.replace("poll_interval_seconds: 15", "poll_interval_seconds: 2"))
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


def test_a_run_whose_worker_is_killed_is_taken_up_by_the_other(
    start: Callable[..., subprocess.Popen[bytes]], variables: dict[str, str], tmp_path: Path
) -> None:
    workers = [start(f"worker-{number}", *WORKER, "--hostname", f"worker-{number}") for number in (1, 2)]
    start("daemon", "dagster._daemon", "run", "-m", LOCATION)
    for _ in workers:
        launch = [sys.executable, "-m", "dagster", "job", "launch", "-m", LOCATION, "-j", "waiting"]
        subprocess.run(launch, env=variables, check=True, capture_output=True)
    begun = _await(lambda: list(tmp_path.glob("*.begun")), lambda found: len(found) == 2, tmp_path)

    _kill(workers[0])
    (tmp_path / "go").touch()

    with dg.DagsterInstance.from_config(variables["DAGSTER_HOME"]) as instance:
        runs = _await(
            lambda: list(instance.get_runs()), lambda runs: len(runs) == 3 and all(map(_is_over, runs)), tmp_path
        )
    assert len({path.read_text() for path in begun}) == 2
    assert Counter(run.status for run in runs) == {
        dg.DagsterRunStatus.SUCCESS: 2,
        dg.DagsterRunStatus.FAILURE: 1,
    }
    retried = next(run for run in runs if run.parent_run_id)
    assert retried.status is dg.DagsterRunStatus.SUCCESS


def _is_over(run: dg.DagsterRun) -> bool:
    return run.is_finished


def _await(look: Callable[[], list[Any]], is_there: Callable[[list[Any]], bool], folder: Path) -> list[Any]:
    deadline = time.monotonic() + 90
    while not is_there(found := look()):
        logs = {log.name: log.read_text()[-3000:] for log in folder.glob("*.log")}
        assert time.monotonic() < deadline, (found, logs)
        time.sleep(0.5)
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()
