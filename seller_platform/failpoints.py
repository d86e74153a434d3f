"""Failpoints: named moments at which tests kill a process.

The environment variable `SELLER_PLATFORM_FAILPOINT` names one. Every failpoint is between two steps that must not be
separated by a kill; none is in a loop over rows.
"""

import os
import signal
from collections.abc import Callable

VARIABLE = "SELLER_PLATFORM_FAILPOINT"

_observers: list[Callable[[str], None]] = []


def reach(name: str) -> None:
    """Kill this process if the environment names this failpoint."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
    for observe in _observers:
        observe(name)


def observe_failpoints(observer: Callable[[str], None]) -> None:
    """Call a function with the name of each failpoint that this process reaches from now on."""
    _observers.append(observer)
