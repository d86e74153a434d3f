"""Retrying: how often and how long a request is tried, and how long to pause in between."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from seller_platform.client.faults import PassingFault
from seller_platform.errors import UpstreamUnavailableError

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0

_LOG = logging.getLogger(__name__)

Result = TypeVar("Result")


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    """Time, as far as requests have to do with it."""

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = _utc_now


@dataclass(frozen=True)
class RetryPolicy:
    """How long a request is tried: bounded in attempts and in seconds.

    Attributes:
        seconds: No attempt begins later than this after the first.
    """

    attempts: int
    seconds: float
    clock: Clock = field(default_factory=Clock)

    def run(self, request: str, attempt: Callable[[], Result], *, twice_is_harmless: bool = True) -> Result:
        """Return what an attempt returns, tried again after each passing fault.

        Args:
            request: What is attempted, for messages.
            twice_is_harmless: Whether the request may reach the upstream twice. If not, it is only tried again
                where it surely did not reach it.

        Raises:
            UpstreamUnavailableError: The last fault, once attempts or seconds are used up.
        """
        began = self.clock.monotonic()
        for number in range(1, self.attempts + 1):
            try:
                return attempt()
            except PassingFault as fault:
                pause = self._pause(number, fault)
                left = self.seconds - (self.clock.monotonic() - began)
                may_try_again = twice_is_harmless or fault.was_untouched
                if number == self.attempts or pause > left or not may_try_again:
                    raise UpstreamUnavailableError(
                        request, fault.problem, attempts=number, retry_after_seconds=fault.retry_after_seconds
                    ) from None
                _LOG.info("%s: %s; trying again in %.1f s", request, fault.problem, pause)
                self.clock.sleep(pause)
        raise ValueError(f"{self.attempts} attempts are none")

    @staticmethod
    def _pause(number: int, fault: PassingFault) -> float:
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
        jittered = longest * random.uniform(0.5, 1)  # noqa: S311  # it parts callers, it hides nothing
        return max(jittered, fault.retry_after_seconds or 0)
