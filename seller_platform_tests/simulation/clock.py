"""The clock of a simulated world: it moves only when the simulation moves it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

START = datetime(2040, 3, 20, 12, tzinfo=UTC)
"""Later than the clock of any machine: statements that compare with `now()` of PostgreSQL are not decided by it."""

EVENT_SECONDS = 0.05
"""How long each event takes."""


class VirtualClock:
    """The time of a world."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        """Return the time in UTC."""
        return START + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        """Return the seconds since the start of the world."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self._seconds += seconds


def replace_sleep(
    sleep: Callable[[float], None], monotonic: Callable[[], float], is_simulated: Callable[[], bool]
) -> None:
    """Let `time.sleep` and `time.monotonic` of this process use the world's time within actors."""
    real_sleep, real_monotonic = time.sleep, time.monotonic

    def sleep_or_wait(seconds: float) -> None:
        (sleep if is_simulated() else real_sleep)(seconds)

    def monotonic_or_real() -> float:
        return monotonic() if is_simulated() else real_monotonic()

    time.sleep, time.monotonic = sleep_or_wait, monotonic_or_real  # type: ignore[assignment]  # it takes floats alone
