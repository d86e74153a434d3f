"""Plays runs, also in several processes, and makes failing ones smaller."""

import gc
import logging
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from seller_platform.clocks import using_clock
from seller_platform.failpoints import AUDITED
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.simulation.clock import replace_sleep
from seller_platform_tests.simulation.connections import Server
from seller_platform_tests.simulation.facts import Violation
from seller_platform_tests.simulation.marts import create_mart
from seller_platform_tests.simulation.plan import PROCESSES, Plan
from seller_platform_tests.simulation.reach import count_errors
from seller_platform_tests.simulation.scheduler import StuckError
from seller_platform_tests.simulation.tables import empty_tables
from seller_platform_tests.simulation.threads import replace_threads
from seller_platform_tests.simulation.walks import CALLER
from seller_platform_tests.simulation.world import World
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import copied

_TEMPLATE = "simulation_template"
_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit", "autovacuum", "jit")
_MOST_SECONDS = 1_800  # on a machine that has much else to do
_RUNS_BETWEEN_TRUNCATIONS = 100
_RUNS_BETWEEN_COLLECTIONS = 20
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Outcome:
    """The end of a run.

    Attributes:
        failure: What was broken; None where nothing was.
        reached: The failpoints, verdicts, rules and errors that it met, as in `reach`.
    """

    plan: Plan
    failure: str | None
    details: str
    lines: tuple[str, ...]
    events: int
    reached: frozenset[str] = frozenset()


@contextmanager
def served() -> Iterator[EmbeddedServer]:
    """Start a server whose databases need not survive a crash, with a migrated template."""
    with temporary_folder(_SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None) as folder:
        server = EmbeddedServer(folder / "postgres")
        try:
            with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
                for name in _SETTINGS:
                    connection.execute(f"ALTER SYSTEM SET {name} = off")
                connection.execute("SELECT pg_reload_conf()")
            with Database(server.database(_TEMPLATE)) as template:
                migrate(template, partitions=1)  # there is one account
                create_mart(template)
                with template.begin() as connection:
                    driver_of(connection).execute(CALLER)
            yield server
        finally:
            server.close()


def _give_up(*_: object) -> None:
    raise StuckError(f"the run takes longer than {_MOST_SECONDS} real seconds")


class Player:
    """Plays runs one after the other in this process."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        logging.disable(logging.CRITICAL)
        self._server = Server(copied(server, name, _TEMPLATE))
        self._databases = {process: self._server.database(process) for process in (*PROCESSES, "quiet")}
        for database in self._databases.values():
            with database.connect():
                pass  # SQLAlchemy's first connection holds a lock while it looks at the server
        self._server.sever(lambda _: True)
        self._folder = server.folder.parent / f"{name}-home"
        self._world: World | None = None
        self._played = 0
        signal.signal(signal.SIGALRM, _give_up)
        replace_threads()
        replace_sleep(self._sleep, self._monotonic, self._is_simulated)
        sys.addaudithook(self._reached)
        count_errors(self._met)
        gc.disable()

    def play(self, plan: Plan, *, with_log: bool = False) -> Outcome:
        """Play a run and return its end."""
        anew = self._played % _RUNS_BETWEEN_TRUNCATIONS == 0
        self._world = None
        if self._played % _RUNS_BETWEEN_COLLECTIONS == 0:
            self._collect(anew=anew or self._played == _RUNS_BETWEEN_COLLECTIONS)  # caches are full after some runs
        self._played += 1
        empty_tables(self._server.own, anew=anew)
        world = self._world = World(self._server, self._databases, self._folder, plan)
        with using_clock(world.clock.now):
            failure, details = None, ""
            signal.setitimer(signal.ITIMER_REAL, _MOST_SECONDS)
            try:
                world.play()
            except (Violation, StuckError) as error:
                failure = str(error)
            except Exception as error:  # any other error is one that the product should not have raised
                failure, details = f"{type(error).__name__}: {error}".partition("\n")[0], traceback.format_exc()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._server.is_down = False
                for process in world.processes:
                    world.scheduler.kill(process)
                self._server.sever(lambda _: True)
        lines = tuple(world.log.lines()) if with_log or failure else ()
        return Outcome(plan, failure, details, lines, len(world.log), frozenset(world.met))

    def _collect(self, *, anew: bool) -> None:
        """Free what former runs have left. It happens between runs alone, so that no log depends on it."""
        if anew:
            gc.unfreeze()
        gc.collect()
        if anew:
            gc.freeze()

    def _sleep(self, seconds: float) -> None:
        assert self._world is not None
        self._world.scheduler.sleep(seconds)

    def _monotonic(self) -> float:
        assert self._world is not None
        return self._world.clock.monotonic()

    def _is_simulated(self) -> bool:
        return self._world is not None and self._world.scheduler.current is not None

    def _reached(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == AUDITED and self._world is not None:
            self._world.reached(arguments[0])

    def _met(self, name: str) -> None:
        if self._world is not None:
            self._world.met.add(name)


_players: list[Player] = []  # the one of this process


def play_seeds(
    server: EmbeddedServer, seeds: Sequence[int], processes: int, *, events: int | None = None
) -> Iterator[Outcome]:
    """Play seeds and yield their outcomes; after one that failed only those that wait for a process are played.

    Args:
        events: After so many events all processes of a run are killed.
    """
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork"), _begin, (server,)) as pool:
        played = [pool.submit(_play, Plan.of(seed, events=events)) for seed in seeds]
        for ended in as_completed(played):
            if not ended.cancelled():
                outcome = ended.result()
                if outcome.failure is not None:
                    for each in played:
                        each.cancel()
                yield outcome


def _begin(server: EmbeddedServer) -> None:
    _players.append(Player(server, f"worker_{os.getpid()}"))


def _play(plan: Plan) -> Outcome:
    return _players[0].play(plan)


_MOST_RUNS = 80


def shrunk(outcome: Outcome, play: Callable[[Plan], Outcome]) -> Outcome:
    """Return the smallest failing run that is found, which fails as the given one or otherwise."""
    smallest, runs = outcome, 0
    kept = [item.number for item in outcome.plan.kept]
    parts = 2
    while len(kept) > 1 and runs < _MOST_RUNS:
        size = -(-len(kept) // parts)
        for first in range(0, len(kept), size):
            rest = [*kept[:first], *kept[first + size :]]
            runs += 1
            tried = play(replace(outcome.plan, keep=frozenset(rest)))
            if tried.failure is not None:
                smallest, kept, parts = tried, rest, max(2, parts - 1)
                break
        else:
            if parts >= len(kept):
                break
            parts = min(len(kept), 2 * parts)
    return smallest
