"""Rotates one grant in many processes, and kills some of them.

Sixteen processes share a grant. In each round the upstream rejects all issued access tokens, and all processes call it
at once: one of them must refresh, and all must get their answer. Then processes are killed at each failpoint of a
rotation and at random moments, and other processes must be able to use the grant.
"""

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from seller_platform.errors import SellerPlatformError
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.installation import Site, begin, temporary_warehouse

PROCESSES = 16
FAILPOINTS = ("intended", "received", "spooled", "replaced", "committed", "cleared")
_NEVER_KEPT = "received"  # the answer is in the process's memory alone, which dies with it
_LONGEST_LIFE_SECONDS = 0.08
_OK = "ok"


@dataclass
class Shared:
    """A grant that several processes use."""

    upstream: independent_upstream.IndependentUpstream
    site: Site

    def expire(self) -> None:
        """Make the upstream reject all access tokens issued so far; refresh tokens stay valid."""
        with self.upstream.lock:
            self.upstream.access.clear()

    def authorise(self) -> None:
        """Store a newly issued grant."""
        with self.upstream.lock:
            issued = self.upstream.issue()
        self.site.connect(issued)

    def answer(self) -> str:
        """Return the outcome of a call in a new process."""
        process, pipe = begin(_ask, self.site)
        answer = str(pipe.recv())
        pipe.close()
        process.join()
        return answer


@contextmanager
def shared_grant(database_url: str, home: Path) -> Iterator[Shared]:
    """Connect to an upstream whose tokens expire only through `expire`."""
    with independent_upstream.open_independent_upstream("http://127.0.0.1:1/cb") as upstream:
        upstream.issue_lasting_tokens()
        shared = Shared(upstream, Site(database_url, home, upstream.application))
        shared.authorise()
        yield shared


def _ask(pipe: Connection, site: Site) -> None:
    with site.open() as (api, _):
        pipe.send(_outcome(lambda: api.get("/user/me").status))


def _ask_soon(pipe: Connection, site: Site) -> None:
    with site.open() as (api, _):
        pipe.send(True)
        api.get("/user/me")


def _ask_on_request(pipe: Connection, site: Site) -> None:
    with site.open() as (api, _):
        while pipe.recv():
            pipe.send(_outcome(lambda: api.get("/user/me").status))


def _outcome(ask: Callable[[], int]) -> str:
    try:
        status = ask()
    except SellerPlatformError as error:
        return f"{type(error).__name__}: {error}"
    return _OK if status == 200 else f"status {status}"


def race(shared: Shared, *, rounds: int, processes: int = PROCESSES) -> list[Figure]:
    """Expire all tokens once in each round, then call from all processes at once."""
    upstream, begun = shared.upstream, [begin(_ask_on_request, shared.site) for _ in range(processes)]
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
    others = [answer for answer in answers if answer != _OK]
    once = refreshes.count(1)
    return [
        Figure(f"expiries under {processes} processes", rounds),
        Figure("rounds with one refresh", once, "all", once == rounds),
        Figure("superseded refresh tokens sent", upstream.replayed, "0", upstream.replayed == 0),
        Figure("calls answered", len(answers) - len(others), f"{rounds * processes:,}", not others),
        *(Figure("other answers", answer, "nothing", is_kept=False) for answer in sorted(set(others))),
        Figure("seconds", f"{seconds:.0f}"),
    ]


def kill_at_failpoints(shared: Shared, *, kills: int) -> list[Figure]:
    """Kill processes at each failpoint of a rotation; use the grant in another process."""
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
    """Kill processes at random moments of a call that rotates the grant.

    Another process then uses the grant.
    """
    rng, upstream = random.Random(seed), shared.upstream
    rotated = lost = unexplained = 0
    for _ in range(kills):
        shared.expire()
        before = upstream.refreshes
        victim, pipe = begin(_ask_soon, shared.site)
        pipe.recv()
        time.sleep(rng.uniform(0, _LONGEST_LIFE_SECONDS))
        victim.kill()
        victim.join()
        pipe.close()
        has_rotated = upstream.refreshes > before
        rotated += has_rotated
        answer = shared.answer()
        if answer != _OK:
            lost += 1
            # A grant may only be lost together with an unreceived answer. The error must then name the next command.
            unexplained += not (upstream.refreshes > before and "seller-platform connect" in answer)
            shared.authorise()
    return [
        Figure("killed at any moment of a call", kills),
        Figure("  the upstream had spent the token by then", rotated),
        Figure("  grants lost with an answer under way", lost),
        Figure("  grants lost otherwise, or without a message to connect", unexplained, "0", unexplained == 0),
    ]


def measure(*, rounds: int = 500, kills: int = 50) -> Promises:
    """Options: rounds, and kills at each failpoint; there are ten times as many at random moments."""
    with temporary_warehouse() as (url, folder), shared_grant(url, folder) as shared:
        figures = [
            *race(shared, rounds=rounds),
            *kill_at_failpoints(shared, kills=kills),
            *kill_at_any_moment(shared, kills=10 * kills),
        ]
    return Promises("Rotations", figures)
