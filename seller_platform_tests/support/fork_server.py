"""Runs the platform's commands in processes forked from one that has imported it, and serves all processes of a run.

Such a command starts at once, while a new interpreter spends one to three seconds on imports. Otherwise it runs as from
a shell: its process has its own arguments, environment, folder and streams, waits for its threads and calls what is
registered for its end.
"""

import atexit
import fcntl
import gc
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

import seller_platform
from seller_platform_tests.support.watchdog import folder_of_the_run

_COMMAND = "seller_platform.cli"
# These read settings when they are imported, so each command imports them itself.
_IMPORTED_LATE = ("seller_platform.orchestration.definitions", "seller_platform.warehouse.migrations")
# Libraries import these when they are used first, and tests import the last ones.
_IMPORTED_BY_USE = (
    *("fsspec.implementations.local", "httpcore", "psycopg2.extras", "upath.registry"),
    *("dagster_graphql.test.utils", "hypothesis.strategies", "pandas", "playwright.sync_api", "polars", "requests"),
)
_LARGEST_REQUEST = 1 << 18
_NUMBER = struct.Struct("q")
_codes: list[int] = []  # of the command that this process runs, once it ends


class ForkedCommand:
    """A running command, with what `subprocess.Popen` has, too."""

    def __init__(
        self, arguments: Sequence[str], variables: Mapping[str, str], *, output: IO[str], errors: IO[str], folder: Path
    ) -> None:
        """Start a command with an environment, two streams and a working directory."""
        self.arguments = arguments
        self._code: int | None = None
        self._status, server_end = socket.socketpair()
        with server_end:
            request = {"arguments": arguments, "variables": dict(variables), "folder": str(folder)}
            descriptors = [server_end.fileno(), output.fileno(), errors.fileno()]
            socket.send_fds(begin_server(), [json.dumps(request).encode()], descriptors)
        self.pid = self._number()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._status:
            self.wait()

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code."""
        if self._code is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self.arguments), timeout or 0)
            self._code = os.waitstatus_to_exitcode(self._number())
        return self._code

    def kill(self) -> None:
        """Kill the process, if it has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, signal.SIGKILL)

    def _number(self) -> int:
        """Return the next number that the server sends of the process."""
        data = self._status.recv(_NUMBER.size, socket.MSG_WAITALL)
        assert data, f"the process of {self.arguments} was not started, or the server was killed"
        return int(_NUMBER.unpack(data)[0])


def begin_server() -> socket.socket:
    """Return a connection to the server, which is started unless it runs."""
    return _connection()[0]


def end_server() -> None:
    """Leave the server, which ends when no process of the tests uses it, and wait for it if this process started it."""
    if _connection.cache_info().currsize:
        connection, server = _connection()
        connection.close()
        _connection.cache_clear()
        if server is not None:
            server.wait()


@cache
def _connection() -> tuple[socket.socket, subprocess.Popen[bytes] | None]:
    """Connect to the server of all processes of this run, and return it if this process has started it."""
    address, server = folder_of_the_run() / "fork-server", None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with address.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(str(address))
        except OSError:  # none was started, or its last user has left it
            address.unlink(missing_ok=True)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(str(address))
                listener.listen()
                command = [sys.executable, "-m", __name__, str(listener.fileno())]
                server = subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL)
            connection.connect(str(address))
    return connection, server


def _serve(listener: socket.socket) -> None:
    """Fork a process for each request, and run its command there, until the last user of the server has left it.

    The number of the process is sent to whoever has requested it, and then its status.
    """
    atexit.register(_end_command)  # before what libraries register, and so executed after that
    for module in pkgutil.walk_packages(seller_platform.__path__, f"{seller_platform.__name__}."):
        if not module.name.startswith(_IMPORTED_LATE) and not module.name.endswith("__main__"):
            import_module(module.name)
    for name in _IMPORTED_BY_USE:
        import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise copy all pages of the parent
    users = [listener.accept()[0]]
    running: dict[int, tuple[int, int]] = {}  # the number of each process and where it is sent, by descriptor
    while users:
        descriptors: list[Any] = [listener, *users, *running]
        ready = select.select(descriptors, [], [])[0]
        for descriptor in running.keys() & ready:
            pid, status = running.pop(descriptor)
            _send(status, os.waitpid(pid, 0)[1])
            os.close(status)
            os.close(descriptor)
        for user in [each for each in (listener, *users) if each in ready]:
            if user is listener:
                users.append(listener.accept()[0])
                continue
            data, received, _, _ = socket.recv_fds(user, _LARGEST_REQUEST, 4)
            if not data:
                user.close()
                users.remove(user)
                continue
            status, *streams = received
            if (pid := os.fork()) == 0:
                for each in (listener, *users):
                    each.close()
                for number, stream in enumerate(streams, start=1):
                    os.dup2(stream, number)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                _run(**json.loads(data))
                return
            for stream in streams:
                os.close(stream)
            _send(status, pid)
            running[os.pidfd_open(pid)] = pid, status


def _send(status: int, number: int) -> None:
    with suppress(ConnectionError):  # the test does not wait any more
        os.write(status, _NUMBER.pack(number))


def _run(arguments: list[str], variables: dict[str, str], folder: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    sys.argv[1:] = arguments
    try:
        runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _codes.append(end.code if isinstance(end.code, int) else int(end.code is not None))
        raise


def _end_command() -> None:
    """End the process of a command before the interpreter deletes all modules.

    That copies most pages of the parent, and takes longer than most commands. After an exception it does.
    """
    if _codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_codes[0])


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
