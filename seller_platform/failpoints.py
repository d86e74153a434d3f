"""Failpoints: named moments at which a process can be told to die, for those who test what it leaves behind.

The environment variable `SELLER_PLATFORM_FAILPOINT` names one. Each lies between two steps that a kill must not part;
none lies in a loop over rows.
"""

import os
import signal

VARIABLE = "SELLER_PLATFORM_FAILPOINT"


def reach(name: str) -> None:
    """End this process as a power cut would, if it was told to die at the failpoint of that name."""
    if os.environ.get(VARIABLE) == name:
        os.kill(os.getpid(), signal.SIGKILL)
