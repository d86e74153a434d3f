"""The throttle of the login: failed attempts counted by account and by address, in a moving window."""

import math
import time

from limits import RateLimitItemPerMinute
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import MovingWindowRateLimiter

from seller_platform.errors import TooManyAttemptsError

_PER_ACCOUNT = RateLimitItemPerMinute(10, 15, namespace="account")
_PER_ADDRESS = RateLimitItemPerMinute(50, 15, namespace="address")


class LoginThrottle:
    """Counts the failed logins that this process saw; each worker counts its own."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def check(self, user: str, address: str) -> None:
        """Return if another attempt is allowed.

        Raises:
            TooManyAttemptsError: There were too many; it tells when the next is allowed.
        """
        for limit, subject in ((_PER_ACCOUNT, user), (_PER_ADDRESS, address)):
            if not await self._limiter.test(limit, subject):
                stats = await self._limiter.get_window_stats(limit, subject)
                wait = max(1, math.ceil(stats.reset_time - time.time()))
                minutes = max(1, math.ceil(wait / 60))
                raise TooManyAttemptsError(
                    f"There were too many attempts to log in. Try again in {minutes} minute{'s'[: minutes > 1]}.",
                    retry_after_seconds=wait,
                )

    async def count_failure(self, user: str, address: str) -> None:
        """Count a failed attempt."""
        await self._limiter.hit(_PER_ACCOUNT, user)
        await self._limiter.hit(_PER_ADDRESS, address)

    async def forget(self, user: str) -> None:
        """Forget the failures of an account whose user has logged in."""
        await self._limiter.clear(_PER_ACCOUNT, user)
