"""The program of loading processes: `python -m seller_platform.ingest.workers.program BUDGETS NUMBER SOCKET...`.

It takes tasks from each socket in a process of its own, and ends when the socket is closed. BUDGETS and SOCKET are open
files that it inherits, NUMBER is that of the first process. Settings and secrets arrive through the sockets.
"""

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from multiprocessing.connection import Connection

from seller_platform.client.http.api import SellerApi
from seller_platform.client.http.shared_budget import BudgetFile
from seller_platform.commands import use_demo_start, use_start
from seller_platform.ingest.connections.upstream import open_api, upstream_of
from seller_platform.ingest.workers.messages import (
    Ended,
    FromWorker,
    Logged,
    Opening,
    Order,
    ToWorker,
    Waiting,
    sendable,
)
from seller_platform.ingest.workers.tasks import OwnLoader, TaskLoader
from seller_platform.logs import sendable_record
from seller_platform.traces import continued_span, flush_traces, send_traces
from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform.warehouse.postgres.database import Database

TASKS_AT_ONCE = 2
"""How many tasks a loading process has at once: one waits for the upstream while another is decoded."""


class _Apis:
    """The APIs of connections, opened on first use."""

    def __init__(self, opening: Opening, database: Database, budgets: BudgetFile) -> None:
        self._settings, self._database, self._budgets = opening.settings, database, budgets
        key = opening.settings.secret_key
        self._box = secret_box(opening.settings.home, key.get_secret_value() if key else None)
        self._apis: dict[str, SellerApi] = {}
        self._lock = threading.Lock()

    def get(self, connection: str) -> SellerApi:
        with self._lock:
            if connection not in self._apis:
                upstream = upstream_of(connection, self._settings, self._database, self._box)
                budget, home = self._budgets.budget(connection), self._settings.home
                self._apis[connection] = open_api(upstream, connection, self._database, self._box, home, budget=budget)
            return self._apis[connection]

    def close(self) -> None:
        for api in self._apis.values():
            api.close()


class _Parent(logging.Handler):
    """The socket to the process that gives tasks. Threads share it; log records are sent through it, too."""

    def __init__(self, socket: Connection) -> None:
        super().__init__()
        self._socket, self._sending = socket, threading.Lock()

    def send(self, message: FromWorker) -> None:
        with self._sending:
            self._socket.send(message)

    def receive(self) -> ToWorker:
        """Return its next message. Where it has died, this process ends at once, and PostgreSQL undoes its loads."""
        try:
            message: ToWorker = self._socket.recv()
        except (EOFError, OSError):
            os._exit(1)
        return message

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.send(Logged(sendable_record(record)))
        except Exception:  # as every handler of `logging`
            self.handleError(record)


def main(arguments: Sequence[str]) -> None:
    """Take tasks from each socket in a process of its own."""
    file, number, *sockets = map(int, arguments)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the process that gives tasks ends this one
    gc.freeze()  # so that collections do not write to the memory that the processes share
    while len(sockets) > 1:
        if os.fork() == 0:
            for other in sockets[1:]:
                os.close(other)  # its end must be seen when its own process dies
            del sockets[1:]
        else:
            os.close(sockets.pop(0))
            number += 1
    _take_tasks(_Parent(Connection(sockets[0])), BudgetFile(file, number))
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _take_tasks(parent: _Parent, budgets: BudgetFile) -> None:
    opening = parent.receive()
    assert isinstance(opening, Opening), "the first message says where to load to"
    _configure(opening, parent)
    with (
        Database(opening.database_url) as database,
        closing(_Apis(opening, database, budgets)) as apis,
        ThreadPoolExecutor(TASKS_AT_ONCE, thread_name_prefix="task") as threads,
    ):
        loader = OwnLoader(database, apis.get)
        while isinstance(order := parent.receive(), Order):
            threads.submit(_carry_out, order, loader, parent)
    flush_traces()


def _carry_out(order: Order, loader: TaskLoader, parent: _Parent) -> None:
    number = order.number
    try:
        with continued_span(order.headers):
            receipt = loader.load(order.task, lambda _, reason: parent.send(Waiting(number, reason)))
    except Exception as error:  # the other process raises it
        parent.send(Ended(number, error=sendable(error)))
    else:
        parent.send(Ended(number, receipt))


def _configure(opening: Opening, parent: _Parent) -> None:
    """Let messages, logs and spans of this process be as in the process that gives tasks."""
    use_start(opening.settings.home)
    if opening.names_demo:
        use_demo_start()
    logging.root.handlers = [parent]
    for name, level in opening.log_levels.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)
    if any(name.startswith("OTEL_") for name in os.environ):
        send_traces("seller-platform", os.environ)


if __name__ == "__main__":
    main(sys.argv[1:])
