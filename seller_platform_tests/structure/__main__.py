"""Prints the numbers; `test_structure` names the code that makes them too large."""

import argparse
from collections.abc import Iterator

from seller_platform_tests.structure.budgets import BUDGETS, lines_by_floor
from seller_platform_tests.structure.functions import CalledOnce, called_once, function_count
from seller_platform_tests.structure.imports import cycles, imported, imports_inside_functions
from seller_platform_tests.structure.names import (
    broken_paths,
    folders_without_tests,
    imported_conftests,
    largest_folder,
    long_test_names,
    repeated_classes,
    repeated_prefixes,
    unlisted_modules,
)
from seller_platform_tests.structure.page_calls import counted_in_a_new_process
from seller_platform_tests.structure.source import ROOT, folders

_DOZEN = 12
_SHORT, _WORTH_A_NAME = 6, 10


def _numbers() -> Iterator[tuple[str, object]]:
    folder, count = largest_folder()
    yield "modules in the largest folder", f"{count} ({folder.relative_to(ROOT)})"
    yield "folders of more than a dozen modules", _large_folders()
    yield "import cycles, those inside functions counted", len(cycles(imported()))
    yield (
        "imports inside functions without a comment",
        sum(not each.has_a_comment for each in imports_inside_functions()),
    )
    yield "class names with several meanings", len(repeated_classes())
    once, functions = called_once(), function_count()
    yield "private functions called once, of all", f"{len(once)} of {functions}, {len(once) / functions:.1%}"
    yield f"  of {_SHORT} lines or fewer", sum(1 for each in once if each.length <= _SHORT)
    yield f"  of fewer than {_WORTH_A_NAME} lines", sum(1 for each in once if each.length < _WORTH_A_NAME)
    yield "own functions entered to read one page of orders", counted_in_a_new_process()
    for floor, lines in lines_by_floor().items():
        yield f"lines of {floor}, of its budget", f"{lines:,} of {BUDGETS[floor]:,}"
    yield "modules that repeat their folder's or siblings' names", len(repeated_prefixes())
    yield "folders whose docstring does not list what is in them", len(unlisted_modules())
    yield "folders without a test folder of their name", len(folders_without_tests())
    yield "dotted paths and file names that name nothing", len(broken_paths())
    yield "tests with names of more than 70 characters", len(long_test_names())
    yield "imports of conftest modules", len(imported_conftests())


def _large_folders() -> str:
    large = {str(folder.relative_to(ROOT)): len(inside) for folder, inside in folders().items() if len(inside) > _DOZEN}
    return ", ".join(f"{name} {count}" for name, count in sorted(large.items(), key=lambda item: -item[1])) or "none"


def _print_private(once: list[CalledOnce]) -> None:
    for function in once:
        where = f"{function.module.path_in_project}:{function.line}"
        print(f"{where} {function.length:3} {function.use:9} {function.name}")


def main() -> None:
    """Print what the options ask for; the numbers without any."""
    parser = argparse.ArgumentParser(prog="python -m seller_platform_tests.structure", description=__doc__)
    parser.add_argument("--private", action="store_true", help="private functions called once: lines, use, name")
    parser.add_argument("--tests", action="store_true", help="tests with long names")
    asked = parser.parse_args()
    if asked.private:
        _print_private(called_once())
    elif asked.tests:
        print("\n".join(long_test_names()))
    else:
        for name, number in _numbers():
            print(f"{name:56}{number}")


if __name__ == "__main__":
    main()
