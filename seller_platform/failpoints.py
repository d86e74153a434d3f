"""Failpoints: named moments at which tests kill a process.

The environment variable `SELLER_PLATFORM_FAILPOINT` names one. Every failpoint is between two steps that must not be
separated by a kill; none is in a loop over rows.
"""

import os
import signal

VARIABLE = "SELLER_PLATFORM_FAILPOINT"


def reach(name: str) -> None:
    """Kill this process if the environment names this failpoint."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
