"""The short form of a figure of faults, and how figures end. The long forms run every night."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.failpoints import VARIABLE
from seller_platform_tests.figures import rotations
from seller_platform_tests.figures.results import Figure, Promises
from seller_platform_tests.figures.rotations import Shared, shared_grant

pytestmark = pytest.mark.slow


def broken_promises(figures: list[Figure]) -> list[Figure]:
    return [each for each in figures if not each.is_kept]


@pytest.fixture
def shared(database_url: str, tmp_path: Path) -> Iterator[Shared]:
    with shared_grant(database_url, tmp_path) as shared:
        yield shared


def test_a_grant_survives_processes_that_are_killed_while_they_rotate_it(shared: Shared) -> None:
    figures = [*rotations.kill_at_failpoints(shared, kills=1), *rotations.kill_at_any_moment(shared, kills=3)]

    assert broken_promises(figures) == []
    assert shared.upstream.refreshes >= len(rotations.FAILPOINTS)


def test_a_broken_promise_is_the_exit_code() -> None:
    kept, broken = Figure("grants lost", 0, "0"), Figure("rows lost", 1_234, "0", is_kept=False)

    codes = Promises("Some", [kept]).exit_code, Promises("Some", [kept, broken]).exit_code

    assert codes == (0, 1)


@pytest.mark.parametrize(("chosen", "code"), [("here", -9), ("there", 0), (None, 0)])
def test_a_failpoint_ends_the_process_that_chose_it(chosen: str | None, code: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    program = "from seller_platform.failpoints import reach; reach('here')"

    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment | ({VARIABLE: chosen} if chosen else {}), check=False
    )

    assert ended.returncode == code
