"""Plays many seeds in several processes, which share a server."""

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Outcome, Player

_FORK = multiprocessing.get_context("fork")


def play_seeds(
    server: EmbeddedServer, seeds: Sequence[int], processes: int, *, events: int | None = None
) -> Iterator[Outcome]:
    """Play seeds and yield their outcomes; no seed begins after one that failed.

    Args:
        events: After so many events all processes of a run are killed.
    """
    if processes == 1:
        player = Player(server, "worker_0")
        for seed in seeds:
            outcome = player.play(Plan.of(seed, events=events))
            yield outcome
            if outcome.failure is not None:
                return
        return
    stop = _FORK.Event()
    pipes, workers = [], []
    for number in range(processes):
        receiver, sender = _FORK.Pipe(duplex=False)
        arguments = (server, f"worker_{number}", seeds[number::processes], events, sender, stop)
        workers.append(_FORK.Process(target=_play, args=arguments, daemon=True))
        workers[-1].start()
        sender.close()
        pipes.append(receiver)
    while pipes:
        for ready in wait(pipes):
            assert isinstance(ready, Connection)
            try:
                outcome = ready.recv()
            except EOFError:
                pipes.remove(ready)
                continue
            if outcome.failure is not None:
                stop.set()
            yield outcome
    for worker in workers:
        worker.join()


def _play(  # noqa: PLR0917  # a process takes them by position
    server: EmbeddedServer, name: str, seeds: Sequence[int], events: int | None, sender: Connection, stop: Event
) -> None:
    player = Player(server, name)
    for seed in seeds:
        if stop.is_set():
            break
        sender.send(player.play(Plan.of(seed, events=events)))
    sender.close()
