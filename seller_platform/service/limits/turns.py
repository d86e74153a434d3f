"""Lets a bounded number of requests work at once, and gives those that wait their turns by user.

One user never holds all turns, so that another can begin at once. Of each user one request at a time stands in line, so
that the turns go round among users.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack, asynccontextmanager

from seller_platform.errors import NotAdmittedError

RETRY_SECONDS = 1
WAIT_SECONDS = 10.0
MOST_WAITING = 20


class _Share:
    """The requests of one user: how many there are, the turns that they may hold, and the one in line."""

    def __init__(self, turns: int) -> None:
        self.requests, self.turns, self.line = 0, asyncio.Semaphore(turns), asyncio.Lock()


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
        self._free, self._most_waiting, self._wait_seconds = asyncio.Semaphore(at_once), most_waiting, wait_seconds
        self._shares: dict[Hashable, _Share] = {}

    @asynccontextmanager
    async def turn(self, user: Hashable) -> AsyncIterator[None]:
        """Wait for a turn of a user, which lasts until the block ends.

        Raises:
            NotAdmittedError: As many requests of the user wait as may, or the turn did not come in time.
        """
        own = self._shares.setdefault(user, _Share(self.share))
        if own.requests >= self.share + self._most_waiting:
            problem = (
                f"as many {self.name} of yours wait as may, which is {self._most_waiting}; wait for one to end, or"
            )
            raise _refused(problem, "share", 429)
        own.requests += 1
        try:
            async with AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self._wait_seconds):
                        await held.enter_async_context(own.turns)
                        async with own.line:
                            await held.enter_async_context(self._free)
                except TimeoutError:
                    raise _refused(f"the service has as many {self.name} at work as it can;", "busy", 503) from None
                yield
        finally:
            own.requests -= 1
            if not own.requests:
                del self._shares[user]


def _refused(problem: str, cause: str, status: int) -> NotAdmittedError:
    message = f"{problem} try again in {RETRY_SECONDS} s"
    return NotAdmittedError(message, cause=cause, status=status, retry_after_seconds=RETRY_SECONDS)
