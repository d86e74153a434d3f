"""Rotations of one grant by many processes.

`python -m seller_platform_tests.benchmarks.faults.rotations [--rounds 500] [--kills 50]` prints one table.

Sixteen processes share a grant. In each round the upstream honours none of the access tokens it has issued, and all
processes call it at once: one of them must refresh, and all must get their answer. Then processes are killed at each
failpoint of a rotation, and at any moment of it, and others must go on with the grant they left behind.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from seller_platform.errors import SellerPlatformError
from seller_platform.ingest.connections.upstream import Upstream
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.installation import Site, begin, temporary_warehouse

PROCESSES = 16
FAILPOINTS = ("intended", "received", "spooled", "replaced", "committed", "cleared")
_NEVER_KEPT = "received"  # the answer is in the process's memory alone, which dies with it
_LONGEST_LIFE_SECONDS = 0.08
_OK = "ok"


@dataclass
class Shared:
    """A grant that processes share."""

    upstream: independent_upstream.IndependentUpstream
    site: Site

    def expire(self) -> None:
        """Let the upstream honour no access token that it has issued; refresh tokens stay."""
        with self.upstream.lock:
            self.upstream.access.clear()

    def authorise(self) -> None:
        """Connect, as a person does at first, and again where a grant was lost."""
        with self.upstream.lock:
            issued = self.upstream.issue()
        self.site.connect(issued)

    def answer(self) -> str:
        """Return what a new process is told by the upstream."""
        process, pipe = begin(_ask, self.site)
        told = str(pipe.recv())
        pipe.close()
        process.join()
        return told


@contextmanager
def shared_grant(database_url: str, home: Path) -> Iterator[Shared]:
    """Connect to an upstream whose tokens expire when they are told to."""
    with independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream:
        upstream.issue_lasting_tokens()
        base_url = f"{upstream.url}/api"
        known = Upstream(
            base_url,
            base_url,
            independent_upstream.CLIENT_ID,
            independent_upstream.CLIENT_SECRET,
            upstream.redirect_uri,
        )
        shared = Shared(upstream, Site(database_url, home, known))
        shared.authorise()
        yield shared


def _ask(pipe: Connection, site: Site) -> None:
    with site.open() as (api, _):
        pipe.send(_told(lambda: api.get("/user/me").status))


def _ask_soon(pipe: Connection, site: Site) -> None:
    with site.open() as (api, _):
        pipe.send(True)
        api.get("/user/me")


def _ask_whenever_told(pipe: Connection, site: Site) -> None:
    with site.open() as (api, _):
        while pipe.recv():
            pipe.send(_told(lambda: api.get("/user/me").status))


def _told(ask: Callable[[], int]) -> str:
    try:
        status = ask()
    except SellerPlatformError as error:
        return f"{type(error).__name__}: {error}"
    return _OK if status == 200 else f"status {status}"


def race(shared: Shared, *, rounds: int, processes: int = PROCESSES) -> list[Figure]:
    """Let all tokens expire again and again under processes that call at the same time."""
    upstream, begun = shared.upstream, [begin(_ask_whenever_told, shared.site) for _ in range(processes)]
    started, answers, refreshes = time.monotonic(), [], []
    for _ in range(rounds):
        shared.expire()
        before = upstream.refreshes
        for _, pipe in begun:
            pipe.send(True)
        answers += [pipe.recv() for _, pipe in begun]
        refreshes.append(upstream.refreshes - before)
    seconds = time.monotonic() - started
    for process, pipe in begun:
        pipe.send(False)
        process.join()
        pipe.close()
    others = [told for told in answers if told != _OK]
    once = refreshes.count(1)
    return [
        Figure(f"expiries under {processes} processes", rounds),
        Figure("rounds with one refresh", once, "all", once == rounds),
        Figure("superseded refresh tokens sent", upstream.replayed, "0", upstream.replayed == 0),
        Figure("calls answered", len(answers) - len(others), f"{rounds * processes:,}", not others),
        *(Figure("told instead", told, "nothing", is_kept=False) for told in sorted(set(others))),
        Figure("seconds", f"{seconds:.0f}"),
    ]


def kill_at_failpoints(shared: Shared, *, kills: int) -> list[Figure]:
    """Kill processes at each failpoint of a rotation, and go on with the grant in another."""
    return [figure for failpoint in FAILPOINTS for figure in _killed_at(shared, failpoint, kills)]


def _killed_at(shared: Shared, failpoint: str, kills: int) -> Iterator[Figure]:
    upstream, died, lost, tokens, replayed = shared.upstream, 0, 0, 0, shared.upstream.replayed
    for _ in range(kills):
        shared.expire()
        before = upstream.refreshes
        victim, pipe = begin(_ask, shared.site, failpoint=f"rotation.{failpoint}")
        victim.join()
        pipe.close()
        died += victim.exitcode == -signal.SIGKILL
        if shared.answer() != _OK:
            lost += 1
            shared.authorise()
        tokens += upstream.refreshes - before
    yield Figure(f"killed when {failpoint}", died, str(kills), died == kills)
    if failpoint == _NEVER_KEPT:
        yield Figure("  grants lost: the answer was in no file yet", lost)
    else:
        yield Figure("  grants lost", lost, "0", lost == 0)
        resent = upstream.replayed - replayed
        yield Figure("  refresh tokens spent, and sent twice", f"{tokens}, {resent}", f"{kills}, 0",
                     (tokens, resent) == (kills, 0))  # fmt: skip


def kill_at_any_moment(shared: Shared, *, kills: int, seed: int = 7) -> list[Figure]:
    """Kill processes at random moments of a call with a rotation in it, and go on with the grant in another."""
    chance, upstream = random.Random(seed), shared.upstream
    rotated = lost = unexplained = 0
    for _ in range(kills):
        shared.expire()
        before = upstream.refreshes
        victim, pipe = begin(_ask_soon, shared.site)
        pipe.recv()
        time.sleep(chance.uniform(0, _LONGEST_LIFE_SECONDS))
        victim.kill()
        victim.join()
        pipe.close()
        has_rotated = upstream.refreshes > before
        rotated += has_rotated
        told = shared.answer()
        if told != _OK:
            lost += 1
            # A grant may only be lost with an answer that was under way, and then it must be said what to do.
            unexplained += not (upstream.refreshes > before and "seller-platform connect" in told)
            shared.authorise()
    return [
        Figure("killed at any moment of a call", kills),
        Figure("  the upstream had spent the token by then", rotated),
        Figure("  grants lost with an answer under way", lost),
        Figure("  grants lost otherwise, or without being told to connect", unexplained, "0", unexplained == 0),
    ]


def main() -> int:
    """Run the rounds and print what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--kills", type=int, default=50, help="at each failpoint; ten times as many at any moment")
    chosen = parser.parse_args()
    with temporary_warehouse() as (url, folder), shared_grant(url, folder) as shared:
        figures = [
            *race(shared, rounds=chosen.rounds),
            *kill_at_failpoints(shared, kills=chosen.kills),
            *kill_at_any_moment(shared, kills=10 * chosen.kills),
        ]
    return print_figures("Rotations", figures)


if __name__ == "__main__":
    sys.exit(main())
