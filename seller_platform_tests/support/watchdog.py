"""Ends every process that a test run leaves, even after the run itself was killed.

The run puts a mark into its environment, and all processes that it starts inherit it. A process beside the run waits
for its end, then ends all processes that carry the mark and deletes the run's folder. It has its own session, so
that Ctrl-C does not reach it. It needs Linux: marks are read from /proc.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

_VARIABLE = "TEST_RUN_MARKS"
# PostgreSQL waits for its clients after SIGTERM, and not after SIGQUIT.
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL)
_SECONDS_EACH = 5
_KEEP, _DELETE = b"k", b"d"


class Watchdog:
    """The process that waits for the end of this run."""

    def __init__(self) -> None:
        """Start it, and mark all processes that this process starts from now on.

        Processes of a run inside a run carry both marks.
        """
        mark = token_hex(6)
        folder = _folder(mark)
        folder.mkdir(mode=0o755)  # the embedded server runs as another user where we are root
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark, str(folder), str(os.getpid())],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        os.environ[_VARIABLE] = " ".join([*_marks(), mark])

    def end(self, *, keeps_folder: bool) -> None:
        """End the processes that this run has left, and wait until none is left."""
        if keeps_folder:
            print(f"\nThe folders of the tests: {folder_of_the_run()}")
        # A byte, because the end of the pipe may not arrive: a fork of this process may hold it open.
        self._process.communicate(_KEEP if keeps_folder else _DELETE)


def folder_of_the_run() -> Path:
    """Return the folder that is deleted after the run."""
    return _folder(_marks()[-1])


def _marks() -> list[str]:
    return os.environ.get(_VARIABLE, "").split()


def _folder(mark: str) -> Path:
    return Path(tempfile.gettempdir()) / f"seller-tests-{mark}"


def _watch(mark: str, folder: str, run: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(sys.stdin.fileno(), select.POLLIN)
    with suppress(ProcessLookupError):  # the run has been killed already, and the pipe has ended
        poll.register(os.pidfd_open(int(run)), select.POLLIN)
    keeps_folder = (sys.stdin.fileno(), select.POLLIN) in poll.poll() and sys.stdin.buffer.read(1) == _KEEP
    _end_processes(mark)
    if not keeps_folder:
        shutil.rmtree(folder, ignore_errors=True)


def _end_processes(mark: str) -> None:
    reported: set[int] = set()
    for number in _SIGNALS:
        sent: set[int] = set()
        deadline = time.monotonic() + _SECONDS_EACH
        while left := dict(_processes_with(mark)):
            for pid in left.keys() - sent:
                if pid not in reported:
                    print(f"The test run left this process, which is ended: {pid} {left[pid]:.150}", file=sys.stderr)
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            sent |= left.keys()
            reported |= left.keys()
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        else:
            return


def _processes_with(mark: str) -> Iterator[tuple[int, str]]:
    """Yield id and command line of each process with a mark in its environment."""
    variable, encoded_mark = f"{_VARIABLE}=".encode(), mark.encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or belongs to another user
            for line in (process / "environ").read_bytes().split(b"\0"):
                if line.startswith(variable) and encoded_mark in line.removeprefix(variable).split():
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                    yield int(process.name), os.fsdecode(command).strip()


if __name__ == "__main__":
    _watch(*sys.argv[1:])
