"""Failpoints: named moments at which tests kill a process.

The environment variable `SELLER_PLATFORM_FAILPOINT` names one. Every failpoint is between two steps that must not be
separated by a kill; none is in a loop over rows.
"""

import os
import signal
import sys

VARIABLE = "SELLER_PLATFORM_FAILPOINT"
AUDITED = "seller_platform.failpoint"
"""The audit event (PEP 578) of each failpoint that is reached, with its name."""


def reach(name: str) -> None:
    """Kill this process if the environment names this failpoint."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.audit(AUDITED, name)
