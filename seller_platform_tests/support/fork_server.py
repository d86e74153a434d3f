"""Runs the platform's commands in processes forked from one that has imported it.

Such a command starts at once, while a new interpreter spends one to three seconds on imports. Otherwise it runs as from
a shell: its process has its own arguments, environment, folder and streams, waits for its threads and calls what is
registered for its end.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.reduction import DupFd
from multiprocessing.resource_tracker import _resource_tracker
from operator import methodcaller
from pathlib import Path
from typing import IO, Any, Self

import seller_platform

_COMMAND = "seller_platform.cli"
# These read settings when they are imported, so each command imports them itself.
_IMPORTED_LATE = ("seller_platform.orchestration.definitions", "seller_platform.warehouse.migrations")
# Libraries import these when they are used first.
_IMPORTED_BY_USE = ("fsspec.implementations.local", "httpcore", "psycopg2.extras", "requests", "upath.registry")
_PROCESSES = multiprocessing.get_context("forkserver")


class ForkedCommand:
    """A running command, with what `subprocess.Popen` has, too."""

    def __init__(
        self, arguments: Sequence[str], variables: Mapping[str, str], *, output: IO[str], errors: IO[str], folder: Path
    ) -> None:
        """Start a command with an environment, two streams and a working directory."""
        streams = [_Descriptor(each.fileno()) for each in (output, errors)]
        self._process = _PROCESSES.Process(target=_run, args=(list(arguments), dict(variables), streams, str(folder)))
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return self._process.exitcode

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        self._process.kill()


class _Descriptor:
    """A descriptor of this process, which arrives in another one as the number that it has there."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return methodcaller("detach"), (DupFd(self._number),)


def begin_server() -> None:
    """Start the server, before a program of a test starts it with fewer modules."""
    package = Path(seller_platform.__path__[0])
    paths = (path.relative_to(package.parent).with_suffix("") for path in sorted(package.rglob("*.py")))
    names = [".".join(path.parts) for path in paths if not path.name.startswith("__")]
    imported = [name for name in names if not name.startswith(_IMPORTED_LATE)]
    # The first stands for the module of the tests, which each process imports otherwise.
    _PROCESSES.set_forkserver_preload(["__main__", __name__, *_IMPORTED_BY_USE, *imported])
    forkserver.ensure_running()


def _run(arguments: list[str], variables: dict[str, str], streams: list[int], folder: str) -> None:
    _resource_tracker._fd = None  # type: ignore[attr-defined]  # the command starts its own
    gc.freeze()  # a collection would otherwise copy all pages of the server
    for number, descriptor in enumerate(streams, start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.argv[1:] = arguments
    try:
        runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
