"""Short forms of the benchmarks of faults; every promise must be kept."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.failpoints import VARIABLE
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.benchmarks.faults import loads, report_jobs, rotations, walks
from seller_platform_tests.benchmarks.faults.figures import Figure, print_figures
from seller_platform_tests.benchmarks.faults.rotations import Shared, shared_grant

pytestmark = pytest.mark.slow


def broken_promises(figures: list[Figure]) -> list[Figure]:
    return [each for each in figures if not each.is_kept]


@pytest.fixture
def shared(database_url: str, tmp_path: Path) -> Iterator[Shared]:
    with shared_grant(database_url, tmp_path) as shared:
        yield shared


def test_one_of_many_processes_refreshes_an_expired_grant(shared: Shared) -> None:
    figures = rotations.race(shared, rounds=4)

    assert broken_promises(figures) == []
    assert shared.upstream.refreshes == 4


def test_a_grant_survives_processes_that_are_killed_while_they_rotate_it(shared: Shared) -> None:
    figures = [*rotations.kill_at_failpoints(shared, kills=1), *rotations.kill_at_any_moment(shared, kills=3)]

    assert broken_promises(figures) == []
    assert shared.upstream.refreshes >= len(rotations.FAILPOINTS)


def test_readers_never_see_a_mixed_slice_while_loaders_are_killed(database_url: str) -> None:
    figures = loads.kill_loaders(database_url, kills=6, failpoint_kills=1)

    assert broken_promises(figures) == []


def test_no_walk_loses_a_row_or_keeps_one_twice_without_saying_so() -> None:
    tallies = walks.walk_lists(4 * len(walks.KINDS) * len(walks.CHANGES))

    assert broken_promises(walks.figures_of(tallies)) == []


def test_no_report_is_forgotten_or_loaded_twice(database: Database) -> None:
    figures = report_jobs.follow_reports(database, jobs=12, seed=14)

    assert broken_promises(figures) == []


def test_a_broken_promise_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    kept, broken = Figure("grants lost", 0, "0"), Figure("rows lost", 1_234, "0", is_kept=False)

    codes = print_figures("Some", [kept]), print_figures("Some", [kept, broken])

    assert codes == (0, 1)
    assert "1,234" in capsys.readouterr().out


@pytest.mark.parametrize(("chosen", "code"), [("here", -9), ("there", 0), (None, 0)])
def test_a_failpoint_ends_the_process_that_chose_it(chosen: str | None, code: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    program = "from seller_platform.failpoints import reach; reach('here')"

    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment | ({VARIABLE: chosen} if chosen else {}), check=False
    )

    assert ended.returncode == code
