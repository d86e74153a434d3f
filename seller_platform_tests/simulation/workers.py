"""Plays many seeds in several processes, which share a server."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Outcome, Player

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
