"""Tests that Ctrl-C and SIGTERM end every command in a sentence, and leave neither run nor server."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.independent_upstream import IndependentUpstream
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import (
    COMMAND,
    connect,
    environment,
    foreign_environment,
    free_port,
    left_behind,
    run,
    started,
)
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

pytestmark = pytest.mark.journey

# Far less than the six attempts of a request to a silent upstream take, and enough for a busy machine.
SOON_SECONDS = PATIENCE_SECONDS / 2
# Python runs it at its start: a signal comes while a module is imported.
_SIGNAL_DURING_IMPORT = """
import os, sys

class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["SIGNAL_WITH"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), int(os.environ["SIGNAL"]))

sys.meta_path.insert(0, Sender())
"""


@dataclass
class Connected:
    """A connection to an upstream, and the variables of its commands."""

    upstream: IndependentUpstream
    variables: dict[str, str]


@pytest.fixture(scope="module")
def connected(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connected]:
    with (
        databases.lent() as database,
        independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream,
    ):
        upstream.issue_lasting_tokens()
        variables = foreign_environment(upstream, database.url, tmp_path_factory.mktemp("connected"))
        connect(variables)
        yield Connected(upstream, variables)


def _text(stream: IO[str]) -> str:
    return os.pread(stream.fileno(), 1 << 20, 0).decode()


@pytest.mark.parametrize(
    ("arguments", "module", "number"),
    [(["status"], "click", signal.SIGINT), (["sync"], "sqlalchemy", signal.SIGTERM), (["dev"], "httpx", signal.SIGINT)],
)
def test_a_signal_during_imports_ends_in_a_sentence(
    tmp_path: Path, arguments: list[str], module: str, number: signal.Signals
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SIGNAL_DURING_IMPORT)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    variables = environment(tmp_path / "home", PYTHONPATH=path, SIGNAL_WITH=module, SIGNAL=str(int(number)))

    ended = subprocess.run([*COMMAND, *arguments], env=variables, capture_output=True, text=True, check=False)

    assert ended.returncode == (0 if arguments == ["dev"] else 128 + number), ended.stderr
    assert "Traceback" not in ended.stderr
    cause = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert f"ended by {cause}. " in ended.stderr
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_sync_waits_ends_it_with_a_sentence(connected: Connected, number: signal.Signals) -> None:
    with (
        connected.upstream.silent(),
        started(["sync", "--full", "--dataset", "orders"], connected.variables) as (sync, _, errors),
    ):
        wait_for(lambda: connected.upstream.waiting)
        os.kill(sync.pid, number)
        code, printed = sync.wait(SOON_SECONDS), _text(errors)

    assert code == 128 + number
    assert "What was stored is kept, and a change is stored whole or not at all" in printed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_loading_processes_end_with_sync(connected: Connected, number: signal.Signals) -> None:
    home = Path(connected.variables["SELLER_PLATFORM_HOME"])
    # Of lists that were never loaded, so many rows are expected that it starts them.
    arguments = ["sync", "--full", *(f"--dataset={name}" for name in ("daily_product_sales", "orders"))]
    with (
        connected.upstream.silent(),
        started([*arguments, "--dataset=transactions"], connected.variables) as (sync, _, errors),
    ):
        wait_for(lambda: connected.upstream.waiting)
        programs = [command for command in left_behind(home, seconds=0) if "forkserver" in command]
        os.kill(sync.pid, number)
        code = sync.wait(SOON_SECONDS)

        printed = _text(errors)

    assert len(programs) >= 2
    assert code in {128 + number, -number}
    # After SIGKILL, Python's resource tracker cleans up in place of the process, and says so.
    assert number is signal.SIGKILL or "leaked" not in printed
    assert left_behind(home) == []


@pytest.mark.parametrize(
    ("arguments", "ready", "code"),
    [
        (["connect", "--no-browser"], "authorize?", 130),
        (["metrics", "--port", "0"], "Metrics  http", 0),
        (["service", "run", "--port", "0", "--replica"], "listening on", 0),
        (["service", "worker", "--replica"], "writing reports", 0),
    ],
)
def test_a_command_that_waits_ends_soon(connected: Connected, arguments: list[str], ready: str, code: int) -> None:
    with started(arguments, connected.variables) as (command, output, errors):
        wait_for(lambda: _text(output) + _text(errors), lambda text: ready in text)
        os.kill(command.pid, signal.SIGINT)

        assert command.wait(SOON_SECONDS) == code
        assert "Traceback" not in _text(errors)


def test_an_embedded_server_is_not_left_behind(tmp_path: Path) -> None:
    home = tmp_path / 'a "home" of $HOME, 100 %s'
    log = home / "sandbox/service.log"
    with started(["demo"], environment(home), forked=False) as (command, _, errors):
        wait_for(lambda: log.exists() or command.poll() is not None, explain=lambda _: _text(errors))
        os.kill(command.pid, signal.SIGTERM)

        ended = command.wait(SOON_SECONDS)

    assert ended == 143
    assert left_behind(home) == []
    again = run(["sandbox", "load", "--accounts", "1", "--months", "1", "--json"], environment(home / "sandbox"))
    assert json.loads(again.stdout)["rows"], again.stderr
