"""Measures how late the event loop is, while requests are under way.

What a loop does late also waited before it: a request that the loop reads after half a second may be that old. asyncio
does not tell when its bytes arrived. So a timer that fires often compares when it was due with when it fired.
"""

import asyncio
import time
from typing import Self

_PAUSE_SECONDS = 0.01


class Lateness:
    """How late the loop is; measured only while requests are under way, so that an idle process sleeps."""

    def __init__(self) -> None:
        self._under_way, self._seconds, self._due = 0, 0.0, 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def seconds(self) -> float:
        """How much later than due the timer fires, or fired last."""
        if self._timer is None:
            return 0.0
        return max(self._seconds, time.monotonic() - self._due)

    def __enter__(self) -> Self:
        """Begin to measure."""
        self._under_way += 1
        if self._timer is None:
            self._seconds = 0.0
            self._set_timer(asyncio.get_running_loop())
        return self

    def __exit__(self, *_: object) -> None:
        """End measuring, unless other requests are under way."""
        self._under_way -= 1

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop's own time may stand still while its callbacks run.
        self._due = time.monotonic() + _PAUSE_SECONDS
        self._timer = loop.call_later(_PAUSE_SECONDS, self._measure, loop)

    def _measure(self, loop: asyncio.AbstractEventLoop) -> None:
        self._seconds = max(0.0, time.monotonic() - self._due)
        if self._under_way:
            self._set_timer(loop)
        else:
            self._timer = None
