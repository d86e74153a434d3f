"""Loading processes of a process that runs Dagster: started, given tasks, and ended.

They import neither Dagster nor the command line, so they are ready while this process still imports Dagster. A task of
a process that dies is given to another one, and then loaded in this process: a slice is stored whole or not at all.
"""

import faulthandler
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TypeAlias

from seller_platform import interruption
from seller_platform.client.http.shared_budget import BudgetFile
from seller_platform.commands import uses_demo_start
from seller_platform.ingest.workers.messages import Ended, FromWorker, Logged, Opening, Order, ToWorker, Waiting
from seller_platform.ingest.workers.tasks import LoadTask, OnSliceWait, OwnLoader
from seller_platform.settings import Settings
from seller_platform.traces import trace_headers
from seller_platform.warehouse.loads.slices import Receipt

PROCESSES = 2
"""How many loading processes there are. More take memory, and PostgreSQL is then slower than they are."""

_PROGRAM = "seller_platform.ingest.workers.program"
# For glibc, which otherwise keeps a heap for each thread: a sixth of the memory. Threads do not compete for it, because
# they allocate while they hold the interpreter's lock.
_ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
_END_SECONDS = 5.0
_HURRIED_SECONDS = 0.4
_LOG = logging.getLogger(__name__)

_Answers: TypeAlias = "SimpleQueue[Waiting | Ended | None]"
"""The answers to a task; None if its process has died."""


class _DiedError(Exception):
    """The loading process of a task has died."""


class _Worker:
    """A loading process, as this process sees it.

    Attributes:
        has_ended: Whether it has died, or ended when it was asked to.
        under_way: How many tasks it has.
    """

    def __init__(self, connection: Connection, number: int, budgets: BudgetFile) -> None:
        self.has_ended, self.under_way = False, 0
        self._connection, self._number, self._budgets = connection, number, budgets
        self._answers: dict[int, _Answers] = {}
        self._lock = threading.Lock()
        self._reading = threading.Thread(target=self._read, name=f"loading process {number}", daemon=True)
        self._reading.start()

    def send(self, message: ToWorker) -> None:
        """Send a message, unless it has died."""
        with self._lock, suppress(OSError):
            self._connection.send(message)

    def load(self, number: int, task: LoadTask, on_wait: OnSliceWait) -> Receipt | None:
        """Let it load a task.

        Raises:
            _DiedError: It has died.
        """
        answers: _Answers = SimpleQueue()
        with self._lock:
            if self.has_ended:
                raise _DiedError
            self._answers[number] = answers
        self.send(Order(number, task, trace_headers()))
        while isinstance(answer := answers.get(), Waiting):
            on_wait(task.request, answer.reason)
        if answer is None:
            raise _DiedError
        if answer.error is not None:
            raise answer.error
        return answer.receipt

    def ends_within(self, seconds: float) -> bool:
        """Wait until it has ended, and return whether it has."""
        self._reading.join(seconds)
        return self.has_ended

    def _read(self) -> None:
        try:
            while True:
                self._take(self._connection.recv())
        except (EOFError, OSError):
            pass  # it has ended
        finally:
            with self._lock:
                self.has_ended = True
                lost, self._answers = self._answers, {}
            self._budgets.forget(self._number)
            for answers in lost.values():
                answers.put(None)

    def _take(self, message: FromWorker) -> None:
        if isinstance(message, Logged):
            logging.getLogger(message.record.name).handle(message.record)
        elif isinstance(message, Ended):
            with self._lock:
                answers = self._answers.pop(message.number)
            answers.put(message)
        elif answers_of_running := self._answers.get(message.number):  # a timer may report a wait late
            answers_of_running.put(message)


class LoadingProcesses:
    """Loading processes of one warehouse; threads may share them."""

    def __init__(self, settings: Settings, database_url: str, *, processes: int = PROCESSES) -> None:
        """Start the processes; they take tasks when their imports are done.

        Args:
            processes: How many.

        Raises:
            OSError: The system starts none.
        """
        self.settings, self.database_url = settings, database_url
        self.budgets = BudgetFile.create()
        self._numbers, self._lock = count(1), threading.Lock()
        self._programs: list[subprocess.Popen[bytes]] = []
        self._workers: list[_Worker] = []
        self._ending = interruption.register(self._kill)
        # macOS does not allow a program to fork after its imports.
        numbers = range(1, processes + 1)
        try:
            for share in [[number] for number in numbers] if sys.platform == "darwin" else [numbers]:
                self._start(share)
        except OSError:
            self.end()
            raise
        loggers = ("", "seller_platform")
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in loggers}
        for worker in self._workers:
            worker.send(Opening(settings, database_url, uses_demo_start(), levels))

    def load(self, task: LoadTask, on_wait: OnSliceWait, own: OwnLoader) -> Receipt | None:
        """Load a task in the process that has the fewest; where all have died, in this process.

        Raises:
            SellerPlatformError: As `load_slice` does.
        """
        while (worker := self._freest()) is not None:
            try:
                return worker.load(next(self._numbers), task, on_wait)
            except _DiedError:
                interruption.check()
                _LOG.warning("%s: its loading process has died, so it is loaded again", task.request)
            finally:
                with self._lock:
                    worker.under_way -= 1
        return own.load(task, on_wait)

    def end(self) -> None:
        """End the processes: first their running tasks, then by force. After Ctrl-C they have less time."""
        with interruption.deferred(raises=False):
            for worker in self._workers:
                worker.send(None)
            deadline = time.monotonic() + _END_SECONDS
            for worker in self._workers:
                while not worker.ends_within(0.02):
                    if interruption.is_ending():
                        deadline = min(deadline, time.monotonic() + _HURRIED_SECONDS)
                    if time.monotonic() > deadline:
                        break
            self._kill()
            for worker in self._workers:
                worker.ends_within(_END_SECONDS)
            self.budgets.close()
        interruption.unregister(self._ending)

    def _start(self, numbers: Sequence[int]) -> None:
        """Start a program that becomes the processes of these numbers."""
        pairs = [socket.socketpair() for _ in numbers]
        theirs = [their.fileno() for _, their in pairs]
        command = [sys.executable, *_interpreter_options(), "-m", _PROGRAM, str(self.budgets.file), str(numbers[0])]
        try:
            with interruption.deferred(raises=False):
                self._programs.append(
                    subprocess.Popen(
                        [*command, *map(str, theirs)],
                        env={**_ONE_HEAP, **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=(self.budgets.file, *theirs),
                        start_new_session=True,  # Ctrl-C reaches this process alone, which then ends them in order
                    )
                )
        except OSError:
            for own, _ in pairs:
                own.close()
            raise
        finally:
            for _, their in pairs:
                their.close()
        for number, (own, _) in zip(numbers, pairs, strict=True):
            self._workers.append(_Worker(Connection(own.detach()), number, self.budgets))

    def _freest(self) -> _Worker | None:
        """Return the process with the fewest tasks, and count one more."""
        with self._lock:
            living = [worker for worker in self._workers if not worker.has_ended]
            freest = min(living, key=lambda worker: worker.under_way, default=None)
            if freest is not None:
                freest.under_way += 1
            return freest

    def _kill(self) -> None:
        while self._programs:  # a signal may have ended some already
            program = self._programs.pop()
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()


@dataclass
class _Running:
    """The loading processes of this process."""

    processes: LoadingProcesses | None = field(default=None)


_running = _Running()


@contextmanager
def loading_processes(settings: Settings, database_url: str) -> Iterator[None]:
    """Start loading processes, which all loads of this process into that warehouse use until the block ends.

    Where the system starts none, this process loads alone.
    """
    try:
        processes = LoadingProcesses(settings, database_url)
    except OSError as error:
        _LOG.warning("no loading process was started, so this process loads alone: %s", error)
        yield
        return
    try:
        _running.processes = processes
        yield
    finally:
        _running.processes = None
        processes.end()


def running_processes(settings: Settings, database_url: str) -> LoadingProcesses | None:
    """Return the loading processes of this process, if they have these settings and load into that warehouse."""
    processes = _running.processes
    if processes is None or (processes.settings, processes.database_url) != (settings, database_url):
        return None
    return processes


def _interpreter_options() -> Iterator[str]:
    """Yield the options of this interpreter that no variable of the environment passes on."""
    yield "-P"  # modules are imported from where this process imports them
    if faulthandler.is_enabled():
        yield from ("-X", "faulthandler")
    for option in sys.warnoptions:
        yield f"-W{option}"
