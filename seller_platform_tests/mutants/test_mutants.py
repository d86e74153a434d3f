"""Tests the choice of mutants, and the table of modules and verdicts."""

from itertools import islice
from pathlib import Path

import pytest

from seller_platform_tests.mutants.choice import mutants_of, path_of
from seller_platform_tests.mutants.modules import TESTS_OF
from seller_platform_tests.mutants.verdicts import verdicts

_TESTS = Path(__file__).parents[1]


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


def test_a_verdict_has_a_reason_and_is_about_a_line_that_exists() -> None:
    outdated = [
        change
        for change, reason in verdicts().items()
        for line in change.splitlines()[1:]
        if reason.startswith(("-", "+"))
        or (line.startswith("-") and line[2:] not in path_of(change.split()[0]).read_text().splitlines())
    ]

    assert outdated == []
