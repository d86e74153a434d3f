"""Tests the choice of mutants, how their tests end, and the table of modules and verdicts."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from seller_platform_tests.mutants.choice import mutants_of, path_of
from seller_platform_tests.mutants.modules import TESTS_OF
from seller_platform_tests.mutants.play import Played
from seller_platform_tests.mutants.verdicts import verdicts

_TESTS = Path(__file__).parents[1]
_RUN = """
import sys
from seller_platform_tests.mutants.choice import Mutant, path_of
from seller_platform_tests.mutants.play import _run
from seller_platform_tests.mutants.recording import Plugin

module, mistake, test = "service.limits.rates", *sys.argv[1:]
mutant = Mutant(module, f"{path_of(module).read_text()}\\n{mistake}\\n", None, change=mistake)
chosen = {f"seller_platform_tests/service/limits/test_rates.py::{test}": 0}
sys.exit(_run(mutant, [f"seller_platform.{module}"], Plugin(None, None, chosen=chosen)))
"""


@pytest.mark.parametrize("module", TESTS_OF)
def test_a_module_and_its_tests_exist(module: str) -> None:
    assert path_of(module).exists()
    assert [path for path in TESTS_OF[module] if not (_TESTS / path).exists()] == []


def test_a_seed_chooses_the_same_mutants_each_time() -> None:
    first, again, other = (
        [mutant.change for mutant in islice(mutants_of("warehouse.loads.retention", seed=seed), 3)]
        for seed in (1, 1, 2)
    )

    assert first == again != other


def test_a_mutant_has_one_change_in_a_named_function() -> None:
    mutant = next(mutants_of("warehouse.loads.retention", seed=1))
    name, *lines = mutant.change.splitlines()

    assert name.startswith("warehouse.loads.retention ")
    assert [line[0] for line in lines] == ["-", "+"]
    assert lines[1].removeprefix("+ ") in mutant.code


@pytest.mark.parametrize(
    ("code", "is_killed"), [(0, False), (1, True), (2, False), (3, False), (4, False), (5, False), (-9, True)]
)
def test_what_is_no_failed_test_and_no_crash_kills_no_mutant(code: int, is_killed: bool) -> None:
    assert Played("", code, tests=1, seconds=0).is_killed is is_killed


@pytest.mark.parametrize(
    ("mistake", "test", "code"),
    [("raise ValueError", "test_each_key_has_a_quota_of_its_own", 1), ("", "test_of_another_name", 5)],
)
def test_only_a_module_that_cannot_be_imported_counts_as_a_failed_test(mistake: str, test: str, code: int) -> None:
    ended = subprocess.run([sys.executable, "-c", _RUN, mistake, test], check=False)

    assert ended.returncode == code


def test_a_verdict_has_a_reason_and_is_about_a_line_that_exists() -> None:
    outdated = [
        change
        for change, reason in verdicts().items()
        for line in change.splitlines()[1:]
        if reason.startswith(("-", "+"))
        or not line.startswith(("-", "+"))
        or (line.startswith("-") and line[2:] not in path_of(change.split()[0]).read_text().splitlines())
    ]

    assert outdated == []
