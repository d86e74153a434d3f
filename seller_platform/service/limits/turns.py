"""Lets a bounded number of requests work at once, and gives those that wait their turns by user.

One user never holds all turns, so that another can begin at once. A free turn goes to the waiting user with the fewest
requests at work, and among equals to the one who has waited longest.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Hashable

from seller_platform.errors import NotAdmittedError

RETRY_SECONDS = 1
WAIT_SECONDS = 10.0
MOST_WAITING = 20


class Turns:
    """The turns of one process for requests of one kind."""

    def __init__(
        self, name: str, at_once: int, *, most_waiting: int = MOST_WAITING, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        """Begin with all turns free.

        Args:
            most_waiting: How many requests of one user may wait.
            wait_seconds: How long a request may wait.
        """
        self.name, self.share = name, max(1, at_once - max(1, at_once // 4))
        self._free, self._most_waiting, self._wait_seconds = at_once, most_waiting, wait_seconds
        self._at_work: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    async def begin(self, user: Hashable) -> None:
        """Wait for a turn of a user, which `end` gives back.

        Raises:
            NotAdmittedError: As many requests of the user wait as may, or the turn did not come in time.
        """
        # Where a turn is free, nobody waits who may take it: it was given away as soon as it was free.
        if self._free and self._at_work[user] < self.share:
            self._take(user)
            return
        own = self._waiting.setdefault(user, deque())
        if len(own) >= self._most_waiting:
            raise NotAdmittedError(
                f"as many {self.name} of yours wait as may, which is {self._most_waiting}; wait for one to end, or try "
                f"again in {RETRY_SECONDS} s",
                cause="share",
                retry_after_seconds=RETRY_SECONDS,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        own.append(turn)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled():
                self.end(user)
            elif turn in own:
                own.remove(turn)
                if not own:
                    del self._waiting[user]
            if isinstance(error, TimeoutError):
                raise NotAdmittedError(
                    f"the service has as many {self.name} at work as it can; try again in {RETRY_SECONDS} s",
                    cause="busy",
                    status=503,
                    retry_after_seconds=RETRY_SECONDS,
                ) from None
            raise

    def _take(self, user: Hashable) -> None:
        self._free -= 1
        self._at_work[user] += 1

    def end(self, user: Hashable) -> None:
        """Give a turn back, and begin requests that wait."""
        self._free += 1
        self._at_work[user] -= 1
        if not self._at_work[user]:
            del self._at_work[user]
        while self._free and (waiting := [each for each in self._waiting if self._at_work[each] < self.share]):
            first = min(waiting, key=self._at_work.__getitem__)
            own = self._waiting.pop(first)
            turn = own.popleft()
            if own:
                self._waiting[first] = own  # behind the others
            if not turn.cancelled():
                self._take(first)
                turn.set_result(None)
