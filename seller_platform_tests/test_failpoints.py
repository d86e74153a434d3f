"""Tests how a failpoint ends a process."""

import os
import subprocess
import sys

import pytest

from seller_platform.failpoints import VARIABLE


@pytest.mark.parametrize(("chosen", "code"), [("here", -9), ("there", 0), (None, 0)])
def test_a_failpoint_ends_the_process_that_chose_it(chosen: str | None, code: int) -> None:
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    variables |= {VARIABLE: chosen} if chosen else {}
    command = [sys.executable, "-c", "from seller_platform.failpoints import reach; reach('here')"]

    assert subprocess.run(command, env=variables, check=False).returncode == code
