"""Waits for what a test watches, for as long as a busy machine may take."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_SECONDS = 240.0
"""Longer than anything takes beside eight busy processes; only a test that fails waits for so long."""

Seen = TypeVar("Seen")


def wait_for(
    look: Callable[[], Seen],
    holds: Callable[[Seen], object] = bool,
    *,
    explain: Callable[[Seen], object] = lambda seen: seen,
    pause_seconds: float = 0.05,
    seconds: float = PATIENCE_SECONDS,
) -> Seen:
    """Look again and again until a condition holds, and return what was seen then.

    Args:
        holds: The condition; by default, that something is seen.
        explain: Makes the message of the failure from what was seen last.
    """
    deadline = time.monotonic() + seconds
    while not holds(seen := look()):
        assert time.monotonic() < deadline, explain(seen)
        time.sleep(pause_seconds)
    return seen
