"""Plays many seeds in several processes, which share a server."""

import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Outcome, Player

_FORK = multiprocessing.get_context("fork")


def play_seeds(server: EmbeddedServer, seeds: Sequence[int], processes: int) -> Iterator[Outcome]:
    """Play seeds and yield their outcomes; no seed begins after one that failed."""
    if processes == 1:
        player = Player(server, "worker_0")
        for seed in seeds:
            outcome = player.play(Plan.of(seed))
            yield outcome
            if outcome.failure is not None:
                return
        return
    stop = _FORK.Event()
    pipes, workers = [], []
    for number in range(processes):
        receiver, sender = _FORK.Pipe(duplex=False)
        arguments = (server, f"worker_{number}", seeds[number::processes], sender, stop)
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


def _play(server: EmbeddedServer, name: str, seeds: Sequence[int], sender: Connection, stop: Event) -> None:
    player = Player(server, name)
    for seed in seeds:
        if stop.is_set():
            break
        sender.send(player.play(Plan.of(seed)))
    sender.close()
