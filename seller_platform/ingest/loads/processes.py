"""Processes that load slices beside the process of a command, where enough rows are expected.

They are forked from a server that has imported what they need, and each gets slices through a pipe of its own. Where
one dies, all end, and this process loads their slices: a slice is stored whole or not at all. In a pool of
`concurrent.futures`, one that is killed while it starts can be an EOFError or a wait without an end.
"""

import gc
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Semaphore
from queue import SimpleQueue
from typing import Any, cast

from seller_platform import interruption
from seller_platform.client.http.concurrency import MOST_REQUESTS
from seller_platform.clocks import utc_now
from seller_platform.commands import use_demo_start, use_start, uses_demo_start
from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.connections.upstream import StoredApis
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.ingest.loads.slices import SliceRequest
from seller_platform.logs import are_json, write_json_logs
from seller_platform.settings import Settings
from seller_platform.traces import flush_traces
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.loads.receipts import Receipt
from seller_platform.warehouse.postgres.database import Database

FEWEST_ROWS = 120_000
"""How many rows must be expected for loading processes: to start them takes as much CPU time as so many rows."""

PROCESSES = 3
"""How many processes there are: one waits for the upstream or for PostgreSQL while two decode. More take memory."""

_FEWEST_OBJECTS = 50_000
"""After how many new objects cycles are collected: rows are many and have none, and a collection takes time."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Opening:
    """What a loading process needs; it is sent through a pipe.

    Attributes:
        requests: Limits the requests of all loading processes together.
        names_demo: Whether the commands in messages have `--demo`.
        environment: The variables of this process, which may have changed since the server of the forks began.
    """

    settings: Settings
    database_url: str
    requests: Semaphore
    names_demo: bool
    logs_json: bool
    environment: dict[str, str]


@dataclass
class _Process:
    """A loading process, which is started with its first slice."""

    opening: _Opening
    starting: threading.Lock
    process: BaseProcess | None = None
    pipe: "Connection[Any, Any] | None" = None
    has_died: bool = False

    def load(self, *arguments: object) -> tuple[Receipt | None, Exception | None]:
        """Load a slice, and return its receipt or its error.

        Raises:
            EOFError, OSError: The process has ended by itself.
        """
        with self.starting:
            if self.has_died:
                raise EOFError
            if self.pipe is None:
                context = multiprocessing.get_context("forkserver")
                self.pipe, theirs = context.Pipe()
                with theirs:
                    self.process = context.Process(target=_serve, args=(self.opening, theirs))
                    self.process.start()
        self.pipe.send(arguments)
        return cast("tuple[Receipt | None, Exception | None]", self.pipe.recv())

    def end(self) -> None:
        """End the process, and wait for it."""
        if self.pipe is not None:
            self.pipe.close()
        if self.process is not None and self.process.pid is not None:
            self.process.join()


class LoadingProcesses:
    """Loading processes of one warehouse; threads may share them."""

    def __init__(self, settings: Settings, database_url: str) -> None:
        """Start the server of the processes; these are forked with the first slices.

        Raises:
            OSError: The system does not start it.
        """
        # For glibc, which otherwise keeps a heap for each thread: a sixth of the memory. Threads do not compete for it,
        # because they allocate while they hold the interpreter's lock.
        os.environ.setdefault("MALLOC_ARENA_MAX", "1")
        self._ending = interruption.register(_kill_and_clean_up, at_once=_kill)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        forkserver.ensure_running()
        requests, environment = context.BoundedSemaphore(MOST_REQUESTS), {**os.environ}
        opening = _Opening(settings, database_url, requests, uses_demo_start(), are_json(), environment)
        self._starting = threading.Lock()
        self._processes = [_Process(opening, self._starting) for _ in range(PROCESSES)]
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        for process in self._processes:
            self._idle.put(process)

    def load(self, request: SliceRequest, loader: SliceLoader) -> Receipt | None:
        """Load a slice as `load_slice` does, in one of the processes; where one has died, by the loader."""
        process, answer = self._idle.get(), None
        try:
            if not process.has_died:
                answer = process.load(request, loader.now, loader.run_id)
        except (EOFError, OSError):
            interruption.check()
            _LOG.warning("%s: a loading process has died, so it is loaded again", request)
            with self._starting:  # all of them are ended, for one that was killed keeps its share of the requests
                for each in self._processes:
                    each.has_died = True
                _kill()
        finally:
            self._idle.put(process)
        if answer is None:
            return loader.load(request)
        receipt, error = answer
        if error is not None:
            raise error
        return receipt

    def end(self) -> None:
        """End the processes, which load nothing any more, or are killed where a signal has come."""
        if interruption.is_ending():
            _kill()
        for process in self._processes:
            process.end()
        if interruption.is_ending():
            _kill_and_clean_up()
        interruption.unregister(self._ending)


def _kill() -> None:
    for process in multiprocessing.active_children():
        process.kill()


def _kill_and_clean_up() -> None:
    """Delete the semaphore and the server's folder too, as the end of the interpreter would, which is left out."""
    _kill()
    util._run_finalizers()  # type: ignore[attr-defined]  # noqa: SLF001  # Python offers no other way


def _serve(opening: _Opening, pipe: "Connection[Any, Any]") -> None:
    """Load the slices that come through a pipe, until its other end is closed."""
    loader = _begin(opening)
    with suppress(EOFError, BrokenPipeError):
        while True:
            request, now, run_id = pipe.recv()
            result: tuple[Receipt | None, Exception | None]
            try:
                result = replace(loader, now=now, run_id=run_id).load(request), None
            except Exception as error:  # whatever it is, it is raised where the slice was given
                if not isinstance(error, SellerPlatformError):
                    error.add_note(traceback.format_exc())
                result = None, error
            pipe.send(result)
    flush_traces()


def _begin(opening: _Opening) -> SliceLoader:
    """Return what loads slices; messages and logs are as in the process that gives them."""

    def end_with_parent() -> None:
        """End this process with the one that gives slices, however that ends; PostgreSQL undoes its load."""
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    # Ctrl-C reaches all processes; the one that gives slices ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ.update(opening.environment)
    gc.freeze()  # so that collections do not write to the memory that the processes share
    gc.set_threshold(_FEWEST_OBJECTS)
    settings, database = opening.settings, Database(opening.database_url)
    use_start(settings.home)
    if opening.names_demo:
        use_demo_start()
    if opening.logs_json:
        write_json_logs()
    apis = StoredApis(settings, database, secret_box(settings.home, settings.secret_key), shared=opening.requests)
    return SliceLoader(database, apis, utc_now())


@contextmanager
def processes_for(rows: float, settings: Settings, database_url: str) -> Iterator[LoadingProcesses | None]:
    """Lend loading processes until the block ends, if so many rows are worth it on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = None
    if rows >= FEWEST_ROWS and cores != 1:
        try:
            processes = LoadingProcesses(settings, database_url)
        except OSError as error:
            _LOG.warning("no loading process was started, so this process loads alone: %s", error)
    try:
        yield processes
    finally:
        if processes is not None:
            processes.end()
