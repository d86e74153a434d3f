"""Admits requests of one cost: a bounded number at once, shared fairly among users.

A request that cannot begin within less than a tenth of a second is refused. So no request waits in a long queue, and a
user whose requests take long cannot keep all others out.

A user's queue is no longer than what is likely to begin in that time. Where it was full, the newest request begins
first until the queue is empty, and a new request takes the turn of the oldest, which is refused. Else each admitted
request would have waited almost as long as is allowed, and each refused one too.
"""

import asyncio
import time
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from seller_platform.errors import ServiceBusyError, TooManyUnderWayError

WAIT_SECONDS = 0.06
RETRY_SECONDS = 1
_WAITING_FOR_EACH, _WAITING_FOR_A_SECOND = 3, 20
_WEIGHT = 0.1  # of the newest duration in the mean


@dataclass
class _Queue:
    """The requests of one user that wait, the oldest first.

    Attributes:
        is_flooded: Whether it was full, and not empty since.
    """

    turns: "deque[asyncio.Future[bool]]" = field(default_factory=deque)
    is_flooded: bool = False


class Lane:
    """The requests of one cost in one process.

    A user holds at most a share of the lane, so that others can begin at once. A free turn goes to the waiting user
    with the fewest requests under way, and among equals to the oldest request.
    """

    def __init__(
        self, name: str, at_once: int, *, wait_seconds: float = WAIT_SECONDS, most_waiting: int | None = None
    ) -> None:
        """Prepare an empty lane.

        Args:
            most_waiting: How many requests of one user may wait; by default three for each that may run, and at least
                twenty for each second that they may wait.
        """
        self.name, self.share = name, max(1, at_once - max(1, at_once // 4))
        self.most_waiting = most_waiting or max(
            _WAITING_FOR_EACH * self.share, int(_WAITING_FOR_A_SECOND * wait_seconds)
        )
        self._free, self._wait_seconds = at_once, wait_seconds
        self._mean_seconds = 0.0
        self._under_way: dict[Hashable, deque[float]] = {}
        self._waiting: dict[Hashable, _Queue] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(len(queue.turns) for queue in self._waiting.values())

    @property
    def capacity(self) -> int:
        """How many requests of a user may wait now, by how long requests take."""
        if not self._mean_seconds:
            return self.most_waiting
        return min(self.most_waiting, int(self._wait_seconds * self.share / self._mean_seconds))

    async def enter(self, user: Hashable, waited_seconds: float = 0.0) -> None:
        """Begin a request of a user; each ends with `leave`.

        Args:
            waited_seconds: How long the request may have waited before, for the event loop.

        Raises:
            TooManyUnderWayError: The user's own requests hold the user's share of the lane.
            ServiceBusyError: The requests of others hold the lane.
        """
        wait_seconds = self._wait_seconds - waited_seconds
        is_late = wait_seconds < 0
        # Where a turn is free, nobody waits who may take it: `leave` has given it away.
        if self._free and self._count(user) < self.share and not is_late:
            self._begin(user)
        elif is_late or not await self._wait(user, wait_seconds):
            if self._count(user) >= self.share:
                raise TooManyUnderWayError(self.name, most=self.share, retry_after_seconds=RETRY_SECONDS)
            raise ServiceBusyError(self.name, retry_after_seconds=RETRY_SECONDS)

    def leave(self, user: Hashable) -> None:
        """End a request of a user, and begin a waiting one."""
        self._free += 1
        # Which of a user's requests ends does not matter: the mean is the same.
        seconds = time.monotonic() - self._under_way[user].popleft()
        self._mean_seconds += (_WEIGHT if self._mean_seconds else 1) * (seconds - self._mean_seconds)
        if not self._under_way[user]:
            del self._under_way[user]
        while self._free and (next_user := self._next_user()) is not None:
            self._begin(next_user)
            self._take_first(next_user).set_result(True)

    def _begin(self, user: Hashable) -> None:
        self._free -= 1
        self._under_way.setdefault(user, deque()).append(time.monotonic())

    def _count(self, user: Hashable) -> int:
        """Return how many requests of a user are under way."""
        return len(self._under_way.get(user, ()))

    def _next_user(self) -> Hashable | None:
        """Return the waiting user whose turn it is; None where all hold their share."""
        may_begin = [user for user in self._waiting if self._count(user) < self.share]
        return min(may_begin, key=self._count, default=None)

    def _take_first(self, user: Hashable) -> "asyncio.Future[bool]":
        """Take the request of a user whose turn it is out of the queue."""
        # A user who waits for more turns goes behind the others.
        queue = self._waiting.pop(user)
        first = queue.turns.pop() if queue.is_flooded else queue.turns.popleft()
        if queue.turns:
            self._waiting[user] = queue
        return first

    async def _wait(self, user: Hashable, wait_seconds: float) -> bool:
        """Return whether the request may begin, which it then has."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        queue = self._waiting.setdefault(user, _Queue())
        queue.turns.append(turn)
        capacity = self.capacity
        while len(queue.turns) > capacity:
            queue.is_flooded = True
            self._give_up(user, queue.turns[0])
        timer = loop.call_later(wait_seconds, self._give_up, user, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(user, turn)
            elif turn.result():
                self.leave(user)
            raise
        finally:
            timer.cancel()

    def _give_up(self, user: Hashable, turn: "asyncio.Future[bool]") -> None:
        if not turn.done():
            self._forget(user, turn)
            turn.set_result(False)

    def _forget(self, user: Hashable, turn: "asyncio.Future[bool]") -> None:
        queue = self._waiting[user]
        queue.turns.remove(turn)
        if not queue.turns:
            del self._waiting[user]
