"""Starts and ends child processes, finds free ports, and waits until an address answers."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from seller_platform import interruption
from seller_platform.errors import SellerPlatformError
from seller_platform.network import http_client

_STARTS_A_MINUTE = 5
_HURRIED_SECONDS = 0.4


class Program:
    """A child process that runs until it is ended, together with its own children."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], log: Path) -> None:
        """Start it with variables in addition to those of this process; the log is the file of its output."""
        self.name, self.log = name, log
        self._command, self._environment = command, environment
        self._starts: list[float] = []
        self._ending = interruption.register(lambda: self._kill(signal.SIGKILL))
        self.start()

    def start(self) -> None:
        """Start it, or start it again.

        Raises:
            InterruptedBySignal: A signal ends this process.
        """
        interruption.check()
        self._starts.append(time.monotonic())
        with self.log.open("ab") as file, interruption.deferred(raises=False):
            self.process = subprocess.Popen(
                self._command,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches this process alone, which then ends its programs in order
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def revive(self) -> bool:
        """Start it again if it has ended, and return whether; fail where it was several times within a minute."""
        if not self.has_ended:
            return False
        if sum(start > time.monotonic() - 60 for start in self._starts) > _STARTS_A_MINUTE:
            raise SellerPlatformError(
                f"{self.name} ends again and again; look into {self.log}", code="ProgramEndedError"
            )
        self.start()
        return True

    def ask_to_end(self) -> None:
        """Send it SIGINT; it ends its own children."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        """End it: SIGINT first, then SIGTERM, then SIGKILL. After Ctrl-C it has less time."""
        with interruption.deferred(raises=False):
            self.ask_to_end()
            for number, seconds in ((signal.SIGTERM, 15), (signal.SIGKILL, 5)):
                if self._ends_within(seconds):
                    break
                self._kill(signal.SIGKILL if interruption.is_ending() else number)
            # End its children too, and wait for them: a child that is still ending would keep the embedded server.
            deadline = time.monotonic() + 5
            while self._kill(signal.SIGKILL) and time.monotonic() < deadline:
                time.sleep(0.02)
        interruption.unregister(self._ending)

    def _ends_within(self, seconds: float) -> bool:
        began = time.monotonic()
        while not self.has_ended:
            if time.monotonic() - began > (_HURRIED_SECONDS if interruption.is_ending() else seconds):
                return False
            time.sleep(0.02)
        return True

    def _kill(self, number: signal.Signals) -> bool:
        """Send a signal to it and its children, and return whether there is any process."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        self.process.poll()
        return True


@contextmanager
def running(name: str, command: list[str], environment: dict[str, str], log: Path) -> Iterator[Program]:
    """Run a program until the block ends."""
    with interruption.deferred(raises=False):
        program = Program(name, command, environment, log)
    try:
        interruption.check()
        yield program
    finally:
        program.end()


def free_port(preferred: int = 0) -> int:
    """Return a free port of the loopback interface, the preferred one if it is free."""
    with socket.socket() as probe:
        if preferred:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            return free_port()
        return int(probe.getsockname()[1])


def await_answer(url: str, program: Program) -> None:
    """Wait until an address answers.

    Raises:
        SellerPlatformError: The process ended, or did not answer in time.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not program.has_ended:
        with suppress(httpx.TransportError), http_client(url, timeout=5) as http:
            if http.get(url).is_success:
                return
        time.sleep(0.1)
    tail = " | ".join(program.log.read_text(errors="replace").strip().splitlines()[-3:])
    raise SellerPlatformError(
        f"{url} does not answer, and the log {program.log} ends with: {tail or 'nothing'}",
        code="ServiceStartError",
        step="Look into that log, then run the command again.",
    )
