"""Waits for a condition, for as long as a busy machine may need."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 240.0
"""Longer than anything takes beside eight busy processes; only a failing test waits that long."""

Seen = TypeVar("Seen")


def wait_for(
    look: Callable[[], Seen],
    holds: Callable[[Seen], object] = bool,
    *,
    explain: Callable[[Seen], object] = lambda seen: seen,
    pause_seconds: float = 0.05,
    seconds: float = PATIENCE_SECONDS,
) -> Seen:
    """Call `look` until its result meets a condition, and return that result.

    Args:
        holds: The condition; by default, that the result is true.
        explain: Returns the message of the failure from the last result.
    """
    deadline = time.monotonic() + seconds
    while not holds(seen := look()):
        assert time.monotonic() < deadline, explain(seen)
        time.sleep(pause_seconds)
    return seen
