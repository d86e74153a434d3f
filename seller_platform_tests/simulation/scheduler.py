"""Gives the turn to one actor at a time.

An actor is a greenlet, so only one of them runs, and it runs until it reaches a yield point. A statement that waits for
a lock of another actor ends the turn, too; the actor has a turn again when PostgreSQL has granted the lock.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from greenlet import getcurrent, greenlet

from seller_platform_tests.simulation.clock import EVENT_SECONDS, VirtualClock


class EventLog:
    """Numbers the events of a run and keeps them."""

    def __init__(self) -> None:
        self._events: list[tuple[float, str, str, object]] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, seconds: float, actor: str, kind: str, subject: object) -> None:
        """Add an event."""
        self._events.append((seconds, actor, kind, subject))

    def lines(self) -> Iterator[str]:
        """Yield the events as text."""
        for number, (seconds, actor, kind, subject) in enumerate(self._events, start=1):
            yield f"{number:05d} {seconds:12.2f} {actor:<12} {kind:<8} {subject}"


# A clock that was advanced to a moment may stand a little before it.
_ROUNDING_SECONDS = 1e-6


class KilledError(BaseException):
    """Ends an actor whose process is killed. No code of the product catches it."""


class StuckError(Exception):
    """No actor can go on, and none sleeps."""


@dataclass(eq=False)
class Actor:
    """One thread of a simulated process.

    Attributes:
        point: The kind and the subject of the yield point that it waits at.
        wakes_at: The world's time at which it may go on.
        may_go_on: Whether what it waits for has happened; None where it waits for nothing.
    """

    name: str
    process: str
    greenlet: greenlet
    point: tuple[str, object] = ("start", "")
    wakes_at: float = 0.0
    may_go_on: Callable[[], bool] | None = None
    is_killed: bool = False
    children: int = field(default=0)


class Scheduler:
    """Chooses whose turn it is, by a generator of random numbers.

    Args:
        stickiness: How probable it is that the actor of the last event goes on.
        after_event: Called after each event.
    """

    def __init__(self, clock: VirtualClock, log: EventLog, random: Random, stickiness: float) -> None:
        self.clock, self.log = clock, log
        self.actors: list[Actor] = []
        self._random, self._stickiness = random, stickiness
        self._hub = getcurrent()
        self._last: Actor | None = None

    @property
    def current(self) -> Actor | None:
        """The actor whose turn it is; None within the simulation itself."""
        running = getcurrent()
        return getattr(running, "actor", None)

    def start(self, process: str, name: str, work: Callable[[], None]) -> Actor:
        """Add an actor, which begins when it has its first turn."""

        def live() -> None:
            with suppress(KilledError):
                work()

        running = greenlet(live, parent=self._hub)
        actor = Actor(name, process, running)
        running.actor = actor
        self.actors.append(actor)
        return actor

    def yield_turn(self, kind: str, subject: object = "") -> None:
        """End the turn of the current actor, which goes on from here when it has the turn again."""
        actor = self.current
        if actor is None:
            return
        self._park(actor, kind, subject)

    def sleep(self, seconds: float) -> None:
        """End the turn until the world's time has moved on by so many seconds."""
        actor = self.current
        assert actor is not None
        actor.wakes_at = self.clock.monotonic() + seconds
        self._park(actor, "sleep", f"{seconds:.2f}")

    def wait_until(self, is_over: Callable[[], bool], kind: str, subject: object = "") -> None:
        """End the turn until a condition holds."""
        actor = self.current
        assert actor is not None
        actor.may_go_on = is_over
        try:
            self._park(actor, kind, subject)
        finally:
            actor.may_go_on = None

    def _park(self, actor: Actor, kind: str, subject: object) -> None:
        if actor.is_killed:
            raise KilledError
        actor.point = (kind, subject)
        self._hub.switch()

    def run_event(self) -> Actor | None:
        """Let one actor go on to its next yield point, and return it; None where none is left."""
        ready = self._ready()
        if not ready:
            sleeping = [each.wakes_at for each in self.actors if each.may_go_on is None]
            if not sleeping:
                if self.actors:
                    waiting = "; ".join(f"{each.name} waits at {each.point[0]} {each.point[1]}" for each in self.actors)
                    raise StuckError(f"no actor can go on: {waiting}")
                return None
            self.clock.advance(max(0.0, min(sleeping) - self.clock.monotonic()))
            ready = self._ready()
        if self._last in ready and self._random.random() < self._stickiness:
            actor = self._last
        else:
            actor = ready[self._random.randrange(len(ready))]
        assert actor is not None
        self._last = actor
        self.log.add(self.clock.monotonic(), actor.name, *actor.point)
        self.clock.advance(EVENT_SECONDS)
        actor.greenlet.switch()
        self._remove_dead()
        return actor

    def kill(self, process: str) -> None:
        """Unwind all actors of a process."""
        for actor in self.of_process(process):
            actor.is_killed = True
        for actor in list(self.of_process(process)):
            with suppress(KilledError):  # an actor that has not begun raises it here
                actor.greenlet.throw(KilledError)
        self.actors = [actor for actor in self.actors if actor.process != process]

    def throw(self, actor: Actor, error: Exception) -> None:
        """Raise an error at the yield point of an actor, which goes on from there to its next one."""
        actor.greenlet.throw(error)
        self._remove_dead()

    def of_process(self, process: str) -> Iterator[Actor]:
        """Yield the actors of a process."""
        return (actor for actor in self.actors if actor.process == process)

    def _ready(self) -> list[Actor]:
        now = self.clock.monotonic() + _ROUNDING_SECONDS
        return [each for each in self.actors if each.wakes_at <= now and (each.may_go_on is None or each.may_go_on())]

    def _remove_dead(self) -> None:
        self.actors = [actor for actor in self.actors if not actor.greenlet.dead]
