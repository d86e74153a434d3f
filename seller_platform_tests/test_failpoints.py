"""Tests how a failpoint ends a process."""

import os
import subprocess
import sys

import pytest

from seller_platform.failpoints import VARIABLE


@pytest.mark.parametrize(("chosen", "code"), [("here", -9), ("there", 0), (None, 0)])
def test_a_failpoint_ends_the_process_that_chose_it(chosen: str | None, code: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    program = "from seller_platform.failpoints import reach; reach('here')"

    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment | ({VARIABLE: chosen} if chosen else {}), check=False
    )

    assert ended.returncode == code
