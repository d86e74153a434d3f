"""Tests the command that prints figures."""

import subprocess
import sys

import pytest

from seller_platform_tests.figures.__main__ import FIGURES
from seller_platform_tests.figures.results import Samples


def figures(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "seller_platform_tests.figures", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_lists_every_figure_with_a_sentence() -> None:
    listed = " ".join(figures("--help").stdout.split())

    assert len(FIGURES) > 5
    assert [name for name, text in FIGURES.items() if f"{name} {text.splitlines()[0]}" not in listed] == []


def test_the_arguments_of_a_figure_are_its_options() -> None:
    shown, refused = figures("rotations", "--help"), figures("rotations", "--rounds", "many")

    assert "--rounds ROUNDS  default: 500" in shown.stdout
    assert (refused.returncode, "invalid int value: 'many'" in refused.stderr) == (2, True)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "arguments",
    [
        "growth --rows 200 --others 2 --partitions 2 --runs 1 --repeats 1",
        "row_costs --months-of-each 1 --rows 500 --runs 1",
    ],
    ids=lambda arguments: arguments.partition(" ")[0],
)
def test_slow_figures_are_printed_in_a_small_form(arguments: str) -> None:
    shown = figures(*arguments.split())

    assert (shown.stderr, "│" in shown.stdout) == ("", True)  # so few rows may break a promise


def test_samples_are_shown_as_medians_and_ratios() -> None:
    samples = Samples("Some", ratio_of=[("COPY", "seconds")])
    for seconds in (1.0, 4.0, 2.0):
        samples.add("COPY", seconds=seconds)
        samples.add("sync", seconds=3 * seconds, own_CPU=0.5)

    cells = [list(column.cells) for column in samples.table.columns]

    assert cells == [["COPY", "sync"], ["2.00", "6.00"], ["–", "0.50"], ["1.00", "3.00"]]
