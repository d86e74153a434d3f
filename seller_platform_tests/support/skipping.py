"""Skips a test that needs something which the machine does not have."""

import os
from typing import NoReturn

import pytest


def skip_except_in_ci(reason: str) -> NoReturn:
    """Skip the test, or fail it where CI is set.

    CI installs everything that tests need.
    """
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
