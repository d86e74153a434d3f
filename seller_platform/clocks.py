"""The time, and whether a stored moment is past, even if a wrong clock wrote it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

Clock = Callable[[], datetime]

_clock: Clock = partial(datetime.now, UTC)


def utc_now() -> datetime:
    """Return the time in UTC, by the clock of this process."""
    return _clock()


@contextmanager
def using_clock(clock: Clock) -> Iterator[None]:
    """Let this process take its time from another clock, such as that of a simulation, until the block ends."""
    global _clock  # noqa: PLW0603  # one clock for the process, like the machine's
    former, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = former


def is_past(moment: datetime, now: datetime, longest: timedelta) -> bool:
    """Return whether a stored moment is reached.

    Args:
        longest: The furthest ahead that such a moment can be. One that is further ahead was stored by a process whose
            clock was wrong; it counts as past, so that nothing waits for it.
    """
    return not now < moment <= now + longest
