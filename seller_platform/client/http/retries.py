"""Retries: repeats a request after passing faults, with growing pauses, within limits."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from typing import TypeVar

import stamina

from seller_platform.client.http.responses import PassingFault
from seller_platform.clocks import Clock, utc_now
from seller_platform.errors import LongPause, UpstreamUnavailableError

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0

_LOG = logging.getLogger(__name__)

# This module logs retries itself. Where structlog is installed, stamina would print them to standard output, among
# the documents that commands print there.
stamina.instrumentation.set_on_retry_hooks([])

Result = TypeVar("Result")


@dataclass(frozen=True)
class RequestClock:
    """The clocks of requests: one for waiting, one for dates."""

    monotonic: Callable[[], float] = time.monotonic
    now: Clock = utc_now


@dataclass(frozen=True)
class RetryPolicy:
    """Limits how often and how long a request is repeated.

    Attributes:
        seconds: No attempt begins later than this after the first.
    """

    attempts: int
    seconds: float
    clock: RequestClock = field(default_factory=RequestClock)

    def run(self, request: str, attempt: Callable[[], Result], *, twice_is_harmless: bool = True) -> Result:
        """Return the result of an attempt, which is repeated after each passing fault.

        Args:
            request: The name of the request, for messages.
            twice_is_harmless: Whether the upstream may act upon the request twice. If not, it is repeated only where
                the upstream certainly did not act upon it.

        Raises:
            UpstreamUnavailableError: The last fault, when attempts or seconds are used up.
        """
        began, last = self.clock.monotonic(), self.attempts

        def pause_after(error: Exception) -> float | bool:
            """Return the pause in seconds; False where the request is not repeated."""
            if not isinstance(error, PassingFault) or not (twice_is_harmless or error.was_untouched):
                return False
            longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
            jittered = longest * random.uniform(0.5, 1)  # noqa: S311  # it spreads requests, it protects nothing
            pause = max(jittered, error.retry_after_seconds or 0)
            if number == last or pause > self.seconds - (self.clock.monotonic() - began):
                return False
            _LOG.info("%s: %s; trying again in %.1f s", request, error.problem, pause)
            return pause

        number = 0
        try:
            for attempt_number in stamina.retry_context(on=pause_after, attempts=last, timeout=None):
                with attempt_number:
                    number = attempt_number.num
                    return attempt()
        except PassingFault as fault:
            pause = fault.retry_after_seconds
            raise UpstreamUnavailableError(
                request, fault.problem, attempts=number, retry_after_seconds=pause, long_pause=self._too_long(pause)
            ) from None
        raise AssertionError("stamina ends with a result or an error")

    def _too_long(self, pause_seconds: float | None) -> LongPause | None:
        """Return the pause that an upstream asks for, if it is longer than a request is repeated."""
        if pause_seconds is None or pause_seconds <= self.seconds:
            return None
        # To the next full minute, so that requests of the same minute have the same message.
        over_at = self.clock.now().astimezone(UTC) + timedelta(seconds=pause_seconds + 59)
        return LongPause(self.seconds, over_at.replace(second=0, microsecond=0))
