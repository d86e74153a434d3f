"""Tests that a run of pytest leaves no process, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seller_platform_tests.support.processes import environment, left_behind

pytestmark = pytest.mark.slow

_TESTS = """
import os, subprocess, sys, time
from pathlib import Path

READY = Path(__file__).parent

def test_with_a_server_and_a_service(database_url):
    command = [sys.executable, "-m", "seller_platform.cli", "service", "run", "--port", "0"]
    variables = {**os.environ, "SELLER_PLATFORM_SERVICE_DATABASE_URL": database_url}
    service = subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert any("listening on" in line for line in service.stderr)
    (READY / "service").touch()
    time.sleep(600)

def test_with_a_process_that_ignores_SIGTERM():
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    (READY / "process").touch()
    time.sleep(600)
"""


@pytest.mark.parametrize(
    ("options", "ready", "number", "send"),
    [
        pytest.param(["-n2"], ("service", "process"), signal.SIGINT, os.killpg, id="Ctrl-C", marks=pytest.mark.nightly),
        pytest.param(["-n0"], ("service",), signal.SIGTERM, os.kill, id="SIGTERM", marks=pytest.mark.nightly),
        pytest.param(["-n2"], ("service", "process"), signal.SIGKILL, os.killpg, id="SIGKILL"),
    ],
)
def test_an_interrupted_run_leaves_no_process(
    tmp_path: Path, options: list[str], ready: tuple[str, ...], number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    (tmp_path / "test_waiting.py").write_text(_TESTS)
    # The plugin of schemathesis takes a second to import in each process.
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:schemathesis\n")
    command = [sys.executable, "-m", "pytest", "-p", "seller_platform_tests.conftest", "-p", "no:cacheprovider"]
    with (tmp_path / "log").open("w") as log:
        run = subprocess.Popen(
            [*command, *options, "test_waiting.py"],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        while not all((tmp_path / name).exists() for name in ready):
            assert run.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)

        send(run.pid, number)
        run.wait()

    assert left_behind(tmp_path) == [], (tmp_path / "log").read_text()
