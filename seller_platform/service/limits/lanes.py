"""Admits requests to one lane: a bounded number at once, shared fairly among users.

A request that cannot begin within less than a tenth of a second is refused. So no request waits in a long queue, and a
user whose requests take long cannot keep all others out.

A lane may have requests of several kinds, which share a user's turns by time, the shorter kind first. So after one long
request begin as many short ones as take as long together.

A user's queue is no longer than what is likely to begin in that time. Where it was full, the newest request begins
first until the queue is empty, and a new request takes the turn of the oldest, which is refused. Else each admitted
request would have waited almost as long as is allowed, and each refused one too.
"""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from seller_platform.errors import NotAdmittedError

WAIT_SECONDS = 0.06
RETRY_SECONDS = 1
_WAITING_FOR_EACH, _WAITING_FOR_A_SECOND = 3, 20
_WEIGHT = 0.1  # of the newest duration in the mean


@dataclass(frozen=True)
class Turn:
    """A request that has begun; it ends with `leave`."""

    user: Hashable
    kind: str
    began: float


@dataclass
class _Queue:
    """The requests of one user and kind that wait, the oldest first.

    Attributes:
        is_flooded: Whether it was full, and not empty since.
    """

    turns: "deque[asyncio.Future[Turn | None]]" = field(default_factory=deque)
    is_flooded: bool = False


@dataclass
class _User:
    """The requests of one user.

    Attributes:
        queues: The requests that wait, by kind; none is empty.
        reached_seconds: The time that each waiting kind has used at least.
        used_seconds: The time that each kind has used.
    """

    under_way: int = 0
    queues: dict[str, _Queue] = field(default_factory=dict)
    reached_seconds: float = 0.0
    used_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def used(self, kind: str) -> float:
        """Return the time that a kind has used; one that did not wait saves nothing."""
        return max(self.used_seconds[kind], self.reached_seconds)


class Lane:
    """The requests of one process that share what a bounded number of requests may use.

    A user holds at most a share of the lane, so that others can begin at once. A free turn goes to the waiting user
    with the fewest requests under way, and among equals to the one who has waited longest.
    """

    def __init__(
        self,
        name: str,
        at_once: int,
        *,
        share: int | None = None,
        wait_seconds: float = WAIT_SECONDS,
        most_waiting: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare an empty lane.

        Args:
            share: How many requests of one user may run at once; by default three quarters.
            most_waiting: How many requests of one user and kind may wait; by default three for each that may run, and
                at least twenty for each second that they may wait.
            monotonic: Returns seconds, by which requests are measured.
        """
        self.name, self.share = name, share or max(1, at_once - max(1, at_once // 4))
        self.most_waiting = most_waiting or max(
            _WAITING_FOR_EACH * self.share, int(_WAITING_FOR_A_SECOND * wait_seconds)
        )
        self._free, self._wait_seconds, self._monotonic = at_once, wait_seconds, monotonic
        self._mean_seconds: dict[str, float] = {}
        self._users: dict[Hashable, _User] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(len(queue.turns) for user in self._users.values() for queue in user.queues.values())

    def capacity(self, kind: str = "") -> int:
        """Return how many requests of a user and kind may wait now, by how long they take."""
        if kind not in self._mean_seconds:
            return self.most_waiting
        return min(self.most_waiting, max(1, int(self._wait_seconds * self.share / self._mean_seconds[kind])))

    async def enter(self, user: Hashable, kind: str = "", waited_seconds: float = 0.0) -> Turn:
        """Begin a request of a user; each ends with `leave`.

        Args:
            waited_seconds: How long the request may have waited before, for the event loop.

        Raises:
            TooManyUnderWayError: The user's own requests hold the user's share of the lane.
            ServiceBusyError: The requests of others hold the lane.
        """
        wait_seconds = self._wait_seconds - waited_seconds
        # Where a turn is free, nobody waits who may take it: `leave` has given it away.
        if wait_seconds >= 0 and self._free and self._may_begin(user):
            return self._begin(user, kind)
        turn = await self._wait(user, kind, wait_seconds) if wait_seconds >= 0 else None
        if turn is None and self._may_begin(user):
            raise NotAdmittedError(
                f"the service has as many {self.name} under way as it can answer; try again in {RETRY_SECONDS} s",
                cause="busy",
                status=503,
                retry_after_seconds=RETRY_SECONDS,
            )
        if turn is None:
            raise NotAdmittedError(
                f"as many {self.name} of yours are under way as one user may have, which is {self.share}; wait for one "
                f"to end, or try again in {RETRY_SECONDS} s",
                cause="share",
                retry_after_seconds=RETRY_SECONDS,
            )
        return turn

    def leave(self, turn: Turn) -> None:
        """End a request, and begin waiting ones."""
        self._free += 1
        user, seconds = self._users[turn.user], self._monotonic() - turn.began
        mean = self._mean_seconds.get(turn.kind, seconds)
        self._mean_seconds[turn.kind] = mean + _WEIGHT * (seconds - mean)
        user.under_way -= 1
        user.used_seconds[turn.kind] = user.used(turn.kind) + seconds
        self._remove_idle(turn.user)
        while self._free and (next_name := self._next_user()) is not None:
            # A user who waits for more turns goes behind the others.
            next_user = self._users[next_name] = self._users.pop(next_name)
            kind = min(next_user.queues, key=lambda kind: (next_user.used(kind), self._mean_seconds.get(kind, 0.0)))
            queue = next_user.queues[kind]
            first = queue.turns.pop() if queue.is_flooded else queue.turns.popleft()
            if not queue.turns:
                del next_user.queues[kind]
            next_user.reached_seconds = next_user.used(kind)
            first.set_result(self._begin(next_name, kind))

    def _may_begin(self, name: Hashable) -> bool:
        return name not in self._users or self._users[name].under_way < self.share

    def _begin(self, name: Hashable, kind: str) -> Turn:
        self._free -= 1
        self._users.setdefault(name, _User()).under_way += 1
        return Turn(name, kind, self._monotonic())

    def _next_user(self) -> Hashable | None:
        """Return the waiting user whose turn it is; None where all hold their share."""
        may_begin = (name for name, user in self._users.items() if user.queues and user.under_way < self.share)
        return min(may_begin, key=lambda name: self._users[name].under_way, default=None)

    async def _wait(self, name: Hashable, kind: str, wait_seconds: float) -> Turn | None:
        """Return the turn of a request that may begin; None for one that may not."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Turn | None] = loop.create_future()
        user = self._users.setdefault(name, _User())
        if not user.queues:
            self._users[name] = self._users.pop(name)
        queue = user.queues.setdefault(kind, _Queue())
        queue.turns.append(turn)
        while len(queue.turns) > self.capacity(kind):
            queue.is_flooded = True
            self._give_up(name, kind, queue.turns[0])
        timer = loop.call_later(wait_seconds, self._give_up, name, kind, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(name, kind, turn)
            elif (begun := turn.result()) is not None:
                self.leave(begun)
            raise
        finally:
            timer.cancel()

    def _give_up(self, name: Hashable, kind: str, turn: "asyncio.Future[Turn | None]") -> None:
        if not turn.done():
            self._forget(name, kind, turn)
            turn.set_result(None)

    def _forget(self, name: Hashable, kind: str, turn: "asyncio.Future[Turn | None]") -> None:
        queues = self._users[name].queues
        queues[kind].turns.remove(turn)
        if not queues[kind].turns:
            del queues[kind]
            self._remove_idle(name)

    def _remove_idle(self, name: Hashable) -> None:
        if not self._users[name].under_way and not self._users[name].queues:
            del self._users[name]
