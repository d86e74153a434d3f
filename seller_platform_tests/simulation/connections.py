"""Connections to PostgreSQL whose statements are yield points.

The sessions and their prepared statements are kept for all worlds of a process, because new ones take longer than a
run's share. A connection that is closed, or whose actor is killed, leaves its session rolled back and without locks, as
the server does when a client goes away.
"""

import os
import re
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, TypeVar, cast

import psycopg
from psycopg import sql
from psycopg._connection_base import BaseConnection
from psycopg.pq import ExecStatus, TransactionStatus
from sqlalchemy import event

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.sessions import parameters
from seller_platform_tests.simulation.scheduler import Actor, Scheduler
from seller_platform_tests.simulation.tables import JUDGED

_PATIENCE_MILLISECONDS = 3
_STATEMENTS_KEPT = 1000
_BLOCKING = "SELECT pg_blocking_pids(pid) FROM unnest(%s::integer[]) WITH ORDINALITY AS waiting (pid, n) ORDER BY n"
_READ_ONLY = re.compile(r"\s*(?:SELECT|SHOW|SET|;|BEGIN|CREATE TEMPORARY|ANALYZE)\b|\s*;", re.IGNORECASE)
_VERB = re.compile(r"\w+")
_TABLE = re.compile(
    r"\b(?:seller|history|partitions|platform|service|pg_temp)\"?\.\"?\w+|pg_\w*advisory\w*|nextval|pg_temp\"?\.\"?\w+"
)
_NOT_JUDGED = {
    *("platform.accounts", "platform.connections", "platform.grants", "platform.known_pages", "platform.slices"),
    *("platform.comparisons", "platform.repeated_ledgers", "platform.sent_requests", "service.unsummed_loads"),
    *(
        name
        for dataset in set(DATASETS) - set(JUDGED)
        for schema in ("seller", "history")
        for name in (f"{schema}.{dataset.name}", f"partitions.{schema}_{dataset.name}_0")
    ),
}
"""A statement that names these alone changes no table that the model reads."""

GARBLING = {"client_encoding": "LATIN1", "DateStyle": "SQL, DMY", "TimeZone": "Asia/Tokyo", "bytea_output": "escape"}
"""Settings of a database that change what values of a session mean."""

_POLL = {1: select.POLLIN, 2: select.POLLOUT, 3: select.POLLIN | select.POLLOUT}
_PING = ";"

_Kind = TypeVar("_Kind", bound="_Simulated")


class Server:
    """The sessions of this process, and a connection of the simulation's own.

    Attributes:
        own: Its statements are no yield points.
        is_down: Whether connections are refused.
        committed: Whether there was a commit of changes since it was last read.
        changed: Whether such a commit may have changed tables that are judged.
        waiting: The connections whose statements wait for locks, in the order in which they began to.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.scheduler: Scheduler | None = None
        self.own = psycopg.connect(url.replace("+psycopg", ""), autocommit=True)
        self.is_down = self.committed = self.changed = False
        self._spare: list[tuple[Any, Any]] = []
        self._finished = psycopg.connect(url).pgconn
        self._finished.finish()
        self._open: list[_Simulated] = []
        self._settings: Mapping[str, str] = {}
        self.waiting: list[_Simulated] = []

    def database(self, process: str) -> Database:
        """Return the database, for one simulated process."""
        database = Database(self.url, connections=40)

        @event.listens_for(database.engine, "do_connect")
        def connect(*_: object) -> "SimulatedConnection":
            return self._connect(process)

        return database

    def sever(self, chosen: Callable[["_Simulated"], bool]) -> None:
        """End connections without a commit. Statements that wait for a lock fail."""
        for connection in [each for each in self._open if chosen(each)]:
            waiting = connection.waiting
            connection.sever()
            if waiting is not None and not waiting.is_killed and self.scheduler is not None:
                self.scheduler.throw(waiting, psycopg.OperationalError("server closed the connection unexpectedly"))

    def garble(self, settings: Mapping[str, str]) -> None:
        """Lose all connections, and let sessions begin with other settings of the database until the next call."""
        self.sever(lambda _: True)
        if settings == self._settings:
            return
        self._settings = settings
        (name,) = self.own.execute("SELECT current_database()").fetchone() or ("",)
        for each in ("RESET ALL", *(f"SET {setting} TO '{value}'" for setting, value in settings.items())):
            self.own.execute(f'ALTER DATABASE "{name}" {each}')
        while self._spare:
            self._spare.pop()[0].finish()

    def yield_turn(self, kind: str, subject: object = "") -> None:
        """End the turn of the actor that uses a connection; nothing without a run."""
        if self.scheduler is not None:
            self.scheduler.yield_turn(kind, subject)

    def are_blocked(self, connections: Sequence["_Simulated"]) -> bool:
        """Whether each of some connections waits for a lock that another session holds."""
        pids = [each.pgconn.backend_pid for each in connections]
        for connection, (blocking,) in zip(connections, self.own.execute(_BLOCKING, (pids,)), strict=True):
            connection.blocking = frozenset(blocking)
        return all(each.blocking for each in connections)

    @contextmanager
    def releasing(self, session: Any) -> Iterator[None]:
        """Let what a session releases in a block be granted in order.

        Several sessions may wait for the end of one transaction, and PostgreSQL wakes all of them at once. So their
        processes are stopped meanwhile, and go on one after the other.
        """
        if not any(session.backend_pid in each.blocking for each in self.waiting):
            yield
            return
        stopped = [each for each in self.waiting if not each.has_result()]
        for each in stopped:
            os.kill(each.pgconn.backend_pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in stopped:
                os.kill(each.pgconn.backend_pid, signal.SIGCONT)
                self._settle([each])
            # The lock of a row passes from session to session without a commit.
            self._settle(self.waiting)

    def _settle(self, connections: Sequence["_Simulated"]) -> None:
        """Wait until each of some connections has a result, or is blocked again."""
        while waiting := [each for each in connections if not each.has_result()]:
            select.select([each.pgconn.socket for each in waiting], [], [], _PATIENCE_MILLISECONDS / 1000)
            if self.are_blocked(waiting):
                return

    def _connect(self, process: str) -> "SimulatedConnection":
        connection = self._opened(SimulatedConnection, process)
        connection.cursor_factory = YieldingCursor
        return connection

    @contextmanager
    def lend(self, process: str) -> Iterator["AsyncSimulatedConnection"]:
        """Lend a connection as the service's pool does, whose statements are yield points, too."""
        connection = self._opened(AsyncSimulatedConnection, process)
        connection.cursor_factory = AsyncYieldingCursor
        connection.pgconn.exec_(b"SET search_path = ''; SET TimeZone = 'UTC'")
        connection._autocommit = True
        try:
            yield connection
        finally:
            connection.sever()

    def _opened(self, kind: type[_Kind], process: str) -> _Kind:
        if self.is_down:
            raise psycopg.OperationalError("connection refused: the server is starting up")
        if not self._spare:
            first = psycopg.connect(**parameters(self.url))  # type: ignore[arg-type]  # of libpq
            first.prepared_max = _STATEMENTS_KEPT
            self._spare.append((first.pgconn, first._prepared))
        session, prepared = self._spare.pop()
        connection = kind(session)
        connection._prepared = prepared
        connection.server, connection.process = self, process
        self._open.append(connection)
        return connection

    def take_back(self, connection: "_Simulated") -> None:
        """Roll the session of a connection back, and keep it for another."""
        self._open.remove(connection)
        self.waiting = [each for each in self.waiting if each is not connection]
        session, connection.pgconn = connection.pgconn, self._finished
        with self.releasing(session):
            self._end(session, connection.ending)
        self._spare.append((session, connection._prepared))

    def _end(self, session: Any, ending: bytes) -> None:
        """Cancel the statement of a session, roll back, and release its locks."""
        if session.transaction_status == TransactionStatus.ACTIVE:
            self.own.execute("SELECT pg_cancel_backend(%s)", (session.backend_pid,))
            while (result := session.get_result()) is not None:
                if result.status == ExecStatus.COPY_IN:
                    session.put_copy_end(b"the client went away")
        rollback = b"" if session.transaction_status == TransactionStatus.IDLE else b"ROLLBACK; "
        session.exec_(rollback + ending)


class _Simulated(BaseConnection[Any]):
    """A connection of a simulated process.

    Attributes:
        waiting: The actor whose statement waits for a lock.
        blocking: The sessions for whose locks it waits.
        is_dirty: Whether its transaction may have changed rows.
        is_judged: Whether they may be rows of tables that are judged.
        may_wait: Whether its statement may wait for a lock of another connection.
        may_release: Whether its statement may release a lock before its transaction ends.
        ending: What its session does last.
    """

    server: Server
    process: str
    ending = b"SELECT pg_advisory_unlock_all()"
    waiting: Actor | None = None
    blocking: frozenset[int] = frozenset()
    is_dirty = is_judged = may_wait = may_release = False

    def run(self, gen: Any) -> Any:
        """Run a statement of an actor. Where it waits for a lock, end the turn until the lock is granted."""
        server = self.server
        try:
            wanted, poll, patience = next(gen), select.poll(), _PATIENCE_MILLISECONDS
            socket = self.pgconn.socket
            while True:
                poll.register(socket, _POLL[int(wanted)])
                while not (ready := poll.poll(patience if self.may_wait else None)):
                    patience *= 2  # a machine that has much to do is not asked again and again
                    if server.are_blocked([self]):
                        self._wait_for_lock()
                events = ready[0][1]
                wanted = gen.send((1 if events & ~select.POLLOUT else 0) | (2 if events & select.POLLOUT else 0))
        except StopIteration as ended:
            return ended.value

    def has_result(self) -> bool:
        """Whether the statement under way has a result."""
        return bool(select.select([self.pgconn.socket], [], [], 0)[0])

    def _wait_for_lock(self) -> None:
        server, scheduler = self.server, self.server.scheduler
        assert scheduler is not None, "only actors of a run wait for locks"
        self.waiting = scheduler.current
        server.waiting.append(self)
        try:
            scheduler.wait_until(self.has_result, "granted")
        finally:
            self.waiting = None
            server.waiting = [each for each in server.waiting if each is not self]

    def sever(self) -> None:
        """Break the connection, as the end of either side does."""
        if not self.closed:
            self.server.take_back(self)


class AsyncSimulatedConnection(_Simulated, psycopg.AsyncConnection[Any]):
    """A connection of the service. Its coroutines end turns and never suspend, so they need no event loop."""

    ending = b"SELECT pg_advisory_unlock_all(); RESET ALL"

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Run a statement."""
        return self.run(gen)


class SimulatedConnection(_Simulated, psycopg.Connection[Any]):
    """A connection of the product's other code."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Run a statement."""
        if self.server.scheduler is None or self.server.scheduler.current is None:
            return super().wait(gen, interval, timeout)
        return self.run(gen)

    def commit(self) -> None:
        """Commit, after a yield point."""
        if self.is_dirty:
            self.server.yield_turn("commit")
        self.may_wait = False
        with self.server.releasing(self.pgconn):
            super().commit()
        if self.is_dirty:
            self.server.committed = True
            self.server.changed |= self.is_judged
            self.is_dirty = self.is_judged = False

    def rollback(self) -> None:
        """Roll back, which is no yield point."""
        with self.server.releasing(self.pgconn):
            super().rollback()
        self.is_dirty = self.is_judged = False

    def close(self) -> None:
        """Close the connection. Its session is used again."""
        if not self.closed:
            self._closed = True
            self.server.take_back(self)


class YieldingCursor(psycopg.Cursor[Any]):
    """A cursor whose statements are yield points."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Execute a statement, after a yield point."""
        connection = cast("SimulatedConnection", self.connection)
        if query == _PING:
            if connection.closed:
                raise psycopg.OperationalError("the connection is closed")
            return self
        _announce(connection, query)
        self._pgconn = connection.pgconn  # the connection may have been severed since the cursor was made
        with connection.server.releasing(self._pgconn) if connection.may_release else nullcontext():
            return super().execute(query, params, **options)

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        """Begin a COPY, after a yield point."""
        connection = cast("SimulatedConnection", self.connection)
        _announce(connection, statement)
        self._pgconn = connection.pgconn
        return super().copy(statement, *arguments, **options)


class AsyncYieldingCursor(psycopg.AsyncCursor[Any]):
    """A cursor of the service whose statements are yield points."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Execute a statement, after a yield point."""
        connection = cast("AsyncSimulatedConnection", self.connection)
        _announce(connection, query)
        self._pgconn = connection.pgconn
        return await super().execute(query, params, **options)


def _announce(connection: _Simulated, statement: Any) -> None:
    text = statement if isinstance(statement, str) else _text(statement)
    label, changes, connection.may_wait, is_judged = _described(text)
    # A statement that waits for a lock itself may not stop others meanwhile.
    connection.may_release = (connection.autocommit or "unlock" in label) and not connection.may_wait
    connection.server.yield_turn("sql", label)
    if changes:
        connection.is_dirty = True
        connection.is_judged |= is_judged
        if connection.autocommit:
            connection.server.committed = True
            connection.server.changed |= is_judged


def _text(statement: Any) -> str:
    return statement.decode() if isinstance(statement, bytes) else cast("sql.Composable", statement).as_string(None)


@lru_cache(maxsize=4096)
def _described(text: str) -> tuple[str, bool, bool, bool]:
    """Return what a log and the judge need to know of a statement.

    It is the verb with the tables, whether the statement may change rows, whether it may wait for a lock, and whether
    the rows may be of tables that are judged.
    """
    verb = _VERB.search(text)
    tables = dict.fromkeys(table.replace('"', "") for table in _TABLE.findall(text))
    named = f"{verb[0].upper() if verb else ';'} {' '.join(list(tables)[:4])}".rstrip()
    changes = not _READ_ONLY.match(text)
    may_wait = changes or "ANALYZE" in text or ("advisory" in text and "unlock" not in text) or "FOR UPDATE" in text
    return named, changes, may_wait, changes and not (tables and tables.keys() <= _NOT_JUDGED)
