"""Bounds how many passwords are hashed and verified at once.

Each takes a core and 64 MiB of memory for a moment. A short queue is served in order; whoever finds it full is asked
to come back.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from seller_platform.errors import LoginsBusyError
from seller_platform.service.users.passwords import LONGEST_PASSWORD, hash_password, verify_password

AT_ONCE = 2
MOST_WAITING = 8
MOST_OF_A_NETWORK = 3
_RETRY_AFTER_SECONDS = 5


class PasswordQueue:
    """The seats for requests that hash or verify a password, in one process."""

    def __init__(self, *, longest_wait_seconds: float = 2.0) -> None:
        self._turn, self._longest_wait_seconds = anyio.Semaphore(AT_ONCE), longest_wait_seconds
        self._seated: Counter[str] = Counter()

    @asynccontextmanager
    async def seat(self, network: str) -> AsyncIterator[None]:
        """Wait for a turn, which lasts until the block ends.

        Args:
            network: The network of the request's address, which may hold three seats at most.

        Raises:
            LoginsBusyError: All seats are taken, or the turn did not come in time.
        """
        if self._seated.total() >= AT_ONCE + MOST_WAITING or self._seated[network] >= MOST_OF_A_NETWORK:
            raise LoginsBusyError(_RETRY_AFTER_SECONDS)
        self._seated[network] += 1
        try:
            with anyio.move_on_after(self._longest_wait_seconds) as waiting:
                await self._turn.acquire()
            if waiting.cancelled_caught:
                raise LoginsBusyError(_RETRY_AFTER_SECONDS)
            try:
                yield
            finally:
                self._turn.release()
        finally:
            self._seated[network] -= 1
            if not self._seated[network]:
                del self._seated[network]


async def is_right(password_hash: str | None, password: str) -> bool:
    """Whether a password belongs to a hash; the caller holds a seat."""
    if len(password) > LONGEST_PASSWORD:
        return False
    return await anyio.to_thread.run_sync(verify_password, password_hash, password)


async def hash_of_password(password: str) -> str:
    """Return the hash of a new password; the caller holds a seat."""
    return await anyio.to_thread.run_sync(hash_password, password)
