"""Tests the rules for folders, modules, and names of classes and tests."""

import shutil
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from seller_platform_tests.structure.budgets import (
    BUDGETS,
    MOST_CALLED_ONCE_PERCENT,
    MOST_FUNCTIONS_OF_A_PAGE,
    lines_by_floor,
    raised,
    raised_without_reason,
)
from seller_platform_tests.structure.code import (
    ALLOWED,
    called_once,
    counts_without_singular,
    function_count,
    private_names,
    writers,
)
from seller_platform_tests.structure.imports import beyond_needs, imported, imports_inside_functions
from seller_platform_tests.structure.names import (
    broken_paths,
    imported_conftests,
    largest_folder,
    long_test_names,
    mentioned_paths,
    repeated_classes,
    repeated_prefixes,
    unlisted_modules,
)
from seller_platform_tests.structure.page_calls import counted_in_a_new_process
from seller_platform_tests.structure.source import ROOT, TESTS, tracked_at_the_top

MOST_MODULES = 16


@pytest.mark.parametrize(("floor", "lines"), lines_by_floor().items())
def test_no_floor_has_more_lines_than_its_budget(floor: str, lines: int) -> None:
    assert lines <= BUDGETS[floor], "delete what this change replaces, or raise the budget and say what it is for"


def test_a_commit_that_raises_a_budget_names_what_grows() -> None:
    assert raised('-    "cli": 9_560,\n-LINES = {"a": 7, "b": 2}\n+    "cli": 9_561,\n+LINES = {"a": 6, "b": 3}') == {
        "cli",
        "b",
    }
    if (ROOT / ".git").exists() and shutil.which("git"):
        assert raised_without_reason() == [], "say in the message which budget grows, and for what"


def test_few_private_functions_are_called_from_one_place_only() -> None:
    once = called_once()

    assert 100 * len(once) / function_count() <= MOST_CALLED_ONCE_PERCENT, "\n".join(once)


def test_one_page_of_orders_is_read_by_few_functions() -> None:
    numbers = counted_in_a_new_process()

    assert [name for name, most in MOST_FUNCTIONS_OF_A_PAGE.items() if numbers[name] > most] == [], numbers


def test_the_top_level_has_nothing_but_what_users_know() -> None:
    parts = ["pyproject.toml", "seller_platform", "seller_platform_tests", "workspace.yaml", "dagster.yaml", "docker"]
    known = {*parts, "README.md", "CHANGELOG.md", "LICENSE", "requirements.lock"}

    assert {name for name in tracked_at_the_top() if not name.startswith(".")} <= known


def test_no_folder_has_more_modules_than_a_reader_can_scan() -> None:
    folder, count = largest_folder()

    assert count <= MOST_MODULES, folder


def test_no_module_repeats_its_folders_name_or_a_prefix_of_two_others() -> None:
    assert repeated_prefixes() == []


def test_the_docstring_of_every_folder_lists_what_is_in_it() -> None:
    assert unlisted_modules() == []


def test_modules_import_one_another_in_no_circle() -> None:
    TopologicalSorter(imported()).prepare()  # it raises CycleError with the modules of a circle


def test_the_core_imports_no_capability_and_these_only_what_they_need() -> None:
    assert beyond_needs() == set()


def test_every_import_inside_a_function_gives_its_reason() -> None:
    assert [str(each) for each in imports_inside_functions() if not each.has_a_comment] == []


def test_few_private_names_of_dagster_are_used_in_three_modules() -> None:
    names = private_names()

    assert {module for module, _ in names} == {"dagster_internals", "instance.run_launcher", "storage"}
    assert len(names) <= 10, sorted(names)


def test_no_class_name_has_two_meanings() -> None:
    assert repeated_classes() == {}


def test_counts_are_followed_by_a_noun_that_agrees_with_them() -> None:
    assert [str(count) for count in counts_without_singular()] == []


def test_every_path_named_in_files_and_texts_can_be_imported() -> None:
    paths = {path for _, path in mentioned_paths()}

    assert broken_paths() == []
    assert {
        "seller_platform.cli:main",
        "seller_platform.orchestration.definitions",
        "seller_platform.orchestration.celery_runs",
        "seller_platform.service.app:app_from_environment",
    } <= paths


def test_files_are_written_only_by_the_module_that_survives_a_power_loss() -> None:
    calls = writers()

    assert {call: line for call, line in calls.items() if call not in ALLOWED} == {}
    assert [call for call in ALLOWED if call not in calls] == []


def test_names_of_tests_are_short_enough_to_read() -> None:
    assert long_test_names() == []


def test_one_function_runs_commands_and_checks_documents() -> None:
    own_name = Path(__file__).name

    users = [path.name for path in TESTS.rglob("*.py") if "CliRunner(" in path.read_text() and path.name != own_name]

    assert users == ["command_line.py"]


def test_no_module_imports_a_conftest() -> None:
    assert imported_conftests() == []
