"""Runs our commands as a person's shell would."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import httpx
import psutil

from seller_platform.ingest.connections.upstream import Upstream
from seller_platform_tests.support.command_line import check_document
from seller_platform_tests.support.folders import ROOT_DATA
from seller_platform_tests.support.fork_server import ForkedCommand
from seller_platform_tests.support.independent_upstream import IndependentUpstream
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run

COMMAND = [sys.executable, "-m", "seller_platform.cli"]


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a fresh shell: ours unset, but for those given."""
    unset = "SELLER_", "DAGSTER_", "PYTHONWARN"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    own = {"SELLER_PLATFORM_HOME": str(home), "SELLER_PLATFORM_SECOND_READING_SECONDS": "0", "PYTHONUNBUFFERED": "1"}
    if ROOT_DATA in os.environ:
        own[ROOT_DATA] = os.environ[ROOT_DATA]
    return {**kept, **own, **variables}


def run(
    arguments: list[str],
    variables: dict[str, str],
    *,
    timeout: float = 2 * PATIENCE_SECONDS,
    folder: Path | None = None,
    forked: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end.

    Args:
        forked: Fork it from a process that has imported the project, instead of starting a new interpreter.
    """
    with started(arguments, variables, folder=folder, forked=forked) as (command, output, errors):
        code = command.wait(timeout)
        return subprocess.CompletedProcess(arguments, code, _text_of(output), _text_of(errors))


@contextmanager
def started(
    arguments: list[str], variables: dict[str, str], *, folder: Path | None = None, forked: bool = True
) -> Iterator[tuple[ForkedCommand | subprocess.Popen[str], IO[str], IO[str]]]:
    """Start a command, and lend it with the files of its output and its errors.

    The end of the block kills it. The document that it has printed with `--json` is checked.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        command = (
            ForkedCommand(arguments, variables, output=output, errors=errors, folder=folder or Path.cwd())
            if forked
            else subprocess.Popen(
                [*COMMAND, *arguments], env=variables, stdout=output, stderr=errors, text=True, cwd=folder
            )
        )
        with command:
            try:
                yield command, output, errors
            finally:
                command.kill()
        check_document(arguments, _text_of(output))


def completed(command: Sequence[Any], *, check: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)


def _text_of(file: IO[str]) -> str:
    """Return what a file holds. Its position, which the writer shares, stays."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode()


def end_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process that has a group of its own, with all processes of the group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def document(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the JSON document that a command printed with `--json`."""
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def free_port() -> int:
    """Return a port of the loopback interface that is free now.

    It lies below the ports that Linux gives to connections and to servers that ask for any (from 32768), so that none
    of these takes it before its server listens. No other test of the run gets it.
    """
    while True:
        port = random.randrange(20_000, 32_768)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            (folder_of_the_run() / f"port-{port}").touch(exist_ok=False)
            return port


def announced_address(process: subprocess.Popen[Any], log: Path, words: str = "listening on") -> str:
    """Return the address that a process writes into its log as soon as it serves."""

    def look() -> str:
        has_ended = process.poll() is not None
        found = re.search(rf"{words} (http://[^\"\s]+)", log.read_text())
        assert found or not has_ended, log.read_text()
        return found[1] if found else ""

    return wait_for(look, explain=lambda _: log.read_text())


@contextmanager
def running_service(variables: dict[str, str], log: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `service run` with its messages in a log, and yield its process and address; the end of the block ends it."""
    command = [*COMMAND, "service", "run", "--port", "0", *options]
    with log.open("w") as file:
        process = subprocess.Popen(command, env=variables, stderr=file, text=True, start_new_session=True)
    try:
        yield process, announced_address(process, log)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_SECONDS)
        end_group(process)


def left_behind(home: Path, *, seconds: float = PATIENCE_SECONDS) -> list[str]:
    """Return the command lines that still run on a home folder, after the moment that processes need to be gone."""
    deadline = time.monotonic() + seconds
    while (found := _running_on(home)) and time.monotonic() < deadline:
        time.sleep(0.5)  # each look reads the environment of every process
    return found


def _running_on(home: Path) -> list[str]:
    """Return the command lines that name a folder, or were given it in their environment."""
    facts = [process.info for process in psutil.process_iter(["cmdline", "environ"])]  # None of those of others
    return [" ".join(each["cmdline"] or ()) for each in facts if str(home) in f"{each}"]


def connected_environment(application: Upstream, database_url: str, home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of a fresh shell over a warehouse that reads an upstream."""
    own = {
        "SELLER_PLATFORM_DATABASE_URL": database_url,
        "SELLER_API_BASE_URL": application.base_url,
        "SELLER_API_CLIENT_ID": application.client_id,
        "SELLER_API_CLIENT_SECRET": application.client_secret,
        "SELLER_API_REDIRECT_URI": application.redirect_uri,
    }
    return environment(home, **{**own, **variables})


def foreign_environment(upstream: IndependentUpstream, database_url: str, home: Path) -> dict[str, str]:
    """Return the variables that point a fresh installation at the foreign upstream."""
    own = {"BASE_URL": f"{upstream.url}/api/", "AUTH_URL": f"{upstream.url}/login"}
    variables = {f"SELLER_API_{name}": value for name, value in own.items()}
    variables["SELLER_PLATFORM_HISTORY_START"] = "2026-01-01"
    return connected_environment(upstream.application, database_url, home, **variables)


def connect(variables: dict[str, str], *options: str, forked: bool = True) -> str:
    """Connect without a browser, by opening the printed address; return everything that was printed."""

    def approve(url: str) -> None:
        assert httpx.get(url, follow_redirects=True, timeout=PATIENCE_SECONDS).status_code == 200

    connected = try_to_connect(variables, approve, *options, forked=forked)
    assert connected.returncode == 0, connected.stderr
    return connected.stdout + connected.stderr


def try_to_connect(
    variables: dict[str, str], approve: Callable[[str], None], *options: str, forked: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run `connect` to its end, and approve the printed address meanwhile."""
    arguments = ["connect", "--no-browser", "--timeout", "240", *options]
    with started(arguments, variables, forked=forked) as (command, output, errors):
        first_line = wait_for(lambda: _text_of(output), lambda text: "\n" in text or command.poll() is not None)
        assert first_line, f"no address was printed: {_text_of(errors)}"
        approve(first_line.partition("\n")[0])
        code = command.wait(PATIENCE_SECONDS)
        return subprocess.CompletedProcess(arguments, code, _text_of(output), _text_of(errors))
