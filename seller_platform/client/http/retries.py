"""Retries: repeats a request after passing faults, with growing pauses, within limits."""

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import stamina

from seller_platform.client.http.responses import PassingFault
from seller_platform.clocks import Clock, utc_now
from seller_platform.errors import ContractViolationError, UpstreamUnavailableError

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0

NOTICE_SECONDS = 5.0
"""How long a request takes, with its pauses, before the wait is reported; shorter ones are common."""

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
class Wait:
    """A request that waits for its upstream.

    Attributes:
        problem: What happened, such as `status 503`.
        attempt: The number of the attempt that failed or is under way.
        next_at: When the next attempt begins; None while the attempt is under way.
        last_at: No attempt begins later.
    """

    request: str
    problem: str
    attempt: int
    attempts: int
    next_at: datetime | None
    last_at: datetime

    def __str__(self) -> str:
        until = f"no attempt begins after {self.last_at.astimezone(UTC):%H:%M:%S} UTC"
        state = "goes on"
        if self.next_at is not None:
            state = f"failed, the next begins at {self.next_at.astimezone(UTC):%H:%M:%S} UTC"
        return f"{self.request}: {self.problem}; attempt {self.attempt} of {self.attempts} {state}, {until}"


OnWait = Callable[[Wait], None]
"""Receives waits; it is called in the thread of the request or in one of its own."""


@dataclass(frozen=True)
class RetryPolicy:
    """Limits how often and how long a request is repeated.

    Attributes:
        seconds: No attempt begins later than this after the first.
        on_wait: Receives the waits of requests that have taken longer than `NOTICE_SECONDS`.
    """

    attempts: int
    seconds: float
    clock: RequestClock = field(default_factory=RequestClock)
    on_wait: OnWait | None = None

    def run(
        self, request: str, attempt: Callable[[], Result], *, twice_is_harmless: bool = True, digest: bytes = b""
    ) -> Result:
        """Return the result of an attempt, which is repeated after each passing fault.

        Args:
            twice_is_harmless: As `SellerApi.request` takes it.
            digest: That of a body that came before and cannot be read.

        Raises:
            ContractViolationError: Two bodies in a row were the same, and cannot be read.
            UpstreamUnavailableError: The last fault, when attempts or seconds are used up.
        """
        began, number = self.clock.monotonic(), 0

        def report(problem: str, pause: float | None = None) -> None:
            """Report the attempt under way, or the pause after it."""
            if self.on_wait is not None:
                now = self.clock.now()
                last_at = now + timedelta(seconds=began + self.seconds - self.clock.monotonic())
                next_at = None if pause is None else now + timedelta(seconds=pause)
                self.on_wait(Wait(request, problem, number, self.attempts, next_at, last_at))

        def pause_after(error: Exception) -> float | bool:
            """Return the pause in seconds; False where the request is not repeated."""
            if not isinstance(error, PassingFault) or not (twice_is_harmless or error.was_untouched):
                return False
            longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
            jittered = longest * random.uniform(0.5, 1)  # noqa: S311  # it spreads requests, it protects nothing
            pause = max(jittered, error.retry_after_seconds or 0)
            waited = self.clock.monotonic() - began
            if number == self.attempts or pause > self.seconds - waited:
                return False
            _LOG.info("%s: %s; trying again in %.1f s", request, error.problem, pause)
            if waited + pause >= NOTICE_SECONDS:
                report(error.problem, pause)
            return pause

        try:
            for each in stamina.retry_context(on=pause_after, attempts=self.attempts, timeout=None):
                with each:
                    number = each.num
                    timer = threading.Timer(NOTICE_SECONDS, report, [f"no complete answer in {NOTICE_SECONDS:g} s"])
                    timer.daemon = True
                    if self.on_wait is not None:
                        timer.start()
                    try:
                        return attempt()
                    except PassingFault as fault:
                        if fault.digest and fault.digest == digest:
                            problem = f"unreadable: {fault.problem}; it came twice"
                            raise ContractViolationError(request, problem) from None
                        digest = fault.digest or digest  # an attempt without a body says nothing of it
                        raise
                    finally:
                        timer.cancel()
        except PassingFault as fault:
            step, pause = None, fault.retry_after_seconds
            if pause is not None and pause > self.seconds:
                # To the next full minute, so that requests of the same minute have the same message.
                over_at = self.clock.now().astimezone(UTC) + timedelta(seconds=pause + 59)
                step = (
                    f"The upstream asks for a pause of {pause:,.0f} s, and a request is repeated for "
                    f"{self.seconds:,.0f} s at most: try again after {over_at:%Y-%m-%d %H:%M} UTC."
                )
            raise UpstreamUnavailableError(
                request, fault.problem, attempts=number, retry_after_seconds=pause, step=step
            ) from None
        raise AssertionError("stamina ends with a result or an error")
