"""The time, and whether a stored moment is past, even if a wrong clock wrote it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def is_past(moment: datetime, now: datetime, longest: timedelta) -> bool:
    """Return whether a stored moment is reached.

    Args:
        longest: The furthest ahead that such a moment can be. One that is further ahead was stored by a process whose
            clock was wrong; it counts as past, so that nothing waits for it.
    """
    return not now < moment <= now + longest
