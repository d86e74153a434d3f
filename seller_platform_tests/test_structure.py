"""Tests the rules for folders, modules and imports, and that what files name is there."""

import ast
import dataclasses
import re
import shutil
from collections.abc import Iterator, Mapping, Set
from graphlib import TopologicalSorter
from pkgutil import resolve_name

import pytest
from grimp import build_graph

from seller_platform import cli
from seller_platform.capabilities import capabilities
from seller_platform_tests.structure.budgets import (
    BUDGETS,
    MOST_FUNCTIONS_OF_A_PAGE,
    lines_by_floor,
    raised,
    raised_without_reason,
)
from seller_platform_tests.structure.page_calls import counted_in_a_new_process
from seller_platform_tests.structure.source import PRODUCT, ROOT, Module, modules

MOST_MODULES = 16
MOST_CALLED_ONCE_PERCENT = 12
_FILES_WITH_PATHS = (
    *("dagster.yaml", "workspace.yaml", "pyproject.toml", "README.md", "seller_platform/docs/**/*.md", ".ci/run"),
    *(".github/*.md", ".github/workflows/*", "docker/*", "docker/helm/*"),
)
_DOTTED = re.compile(r"(?<![\w./-])seller_platform(?:_tests)?(?!\.toml)(?:\.[A-Za-z_]\w*)+(?::\w+)?(?![\w/-])")
# Tags of runs look like folders of the package. A path has two parts below the package, or ends like a file or folder.
_FILE = re.compile(r"(?<![\w./-])seller_platform(?:_tests)?(?:(?:/\w+)+\.py|(?:/\w+)+/|(?:/\w+){2,})")
_WRITING = re.compile(
    r"\.(?:write_text|write_bytes|unlink|rename|touch|mkdir|symlink_to|hardlink_to)\(|\.replace\((?:\w+|\w+\[[^]]*\])\)"
    r"|\b(?:os\.(?:open|link|truncate)|shutil\.(?:move|copy\w*)|tempfile\.mk\w+)\(|\bopen\([^)]*\"[wax]b?\+?\""
)
WRITERS = {
    "seller_platform.files": "all files that must survive a power loss",
    "seller_platform.ingest.connections.token_rotation": "a token pair in the warehouse",
    "seller_platform.lake.partitions": "slices of a Delta table",
    "seller_platform.sandbox.commands.processes": "the log of a program",
    "seller_platform.reports.commands": "a draft of `files.replacing`",
    "seller_platform.warehouse.postgres.embedded": "the folder and the name of a socket",
    "seller_platform.warehouse.postgres.root_user": "a draft of `files.draft_folder_beside`",
}
"""The modules that write files, each with what it writes."""


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
    functions = [
        (module, function)
        for module in modules()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    once = [
        f"{module.name}:{each.lineno} {each.name}" for module, each in functions if _is_called_once(module, each.name)
    ]

    assert 100 * len(once) / len(functions) <= MOST_CALLED_ONCE_PERCENT, "\n".join(once)


def test_one_page_of_orders_is_read_by_few_functions() -> None:
    numbers = counted_in_a_new_process()

    assert [name for name, most in MOST_FUNCTIONS_OF_A_PAGE.items() if numbers[name] > most] == [], numbers


def _is_called_once(module: Module, name: str) -> bool:
    """Return whether a module mentions a private function of its own exactly once, beside the definition."""
    is_private = name.startswith("_") and not name.startswith("__")
    return is_private and len(re.findall(rf"\b(?<!def ){name}\b", module.text)) == 1


def test_folders_have_few_modules_and_their_docstrings_list_them() -> None:
    wrong = []
    for package in (each for each in modules() if each.is_package):
        folder = package.path.parent
        inside = {each.stem for each in folder.glob("*.py")} - {"__init__", "__main__"}
        folders = {each.parent.name for each in folder.glob("*/__init__.py")}
        listed = {*re.findall(r"^- `(\w+)`: ", ast.get_docstring(package.tree) or "", re.MULTILINE)}
        if len(inside) > MOST_MODULES or not folders | inside <= listed | {"versions"}:
            wrong.append(f"{package.name}: {sorted((folders | inside) - listed)}")
        wrong += [
            f"{package.name} lists {each}" for each in listed if not [*folder.glob(each), *folder.glob(f"{each}.py")]
        ]

    assert wrong == []


def _imported() -> Mapping[str, Set[str]]:
    """Return which modules of the product each of them imports, or names in a text that is imported on first use.

    Imports for the type checker alone are left out.
    """
    graph = build_graph(PRODUCT.name, exclude_type_checking_imports=True, cache_dir=None)
    found = {module: {*graph.find_modules_directly_imported_by(module)} for module in graph.modules}
    for each in capabilities():
        fields = [getattr(each, field.name) for field in dataclasses.fields(each)]
        named = [value for field in fields if isinstance(field, Mapping) for value in field.values()]
        texts = [text for text in fields if isinstance(text, str)]
        texts += [value if isinstance(value, str) else value[0] for value in named]
        found[f"{PRODUCT.name}.{each.name}.capability"] |= {text.partition(":")[0] for text in texts} & {*found}
    found[cli.__name__] |= {module for module, _ in cli.commands().values() if module.startswith(cli.__name__)}
    return found


def test_modules_import_one_another_in_no_circle() -> None:
    TopologicalSorter(_imported()).prepare()  # it raises CycleError with the modules of a circle


def test_the_core_imports_no_capability_and_these_only_what_they_need() -> None:
    """Routes of a capability import the service, which loads them, and are removed with it."""
    allowed = {each.name: {each.name, *each.needs} for each in capabilities()}
    routes = {(each.routes.partition(":")[0], "service") for each in capabilities() if each.routes}

    assert [
        f"{module} -> {other}"
        for module, others in _imported().items()
        for other in others
        if (folder := _folder(other)) in allowed and folder not in allowed.get(_folder(module), ())
        if (module, folder) not in routes
    ] == []


def _folder(module: str) -> str:
    return f"{module}..".split(".")[1]


def test_one_module_imports_what_is_private_to_dagster() -> None:
    """`ruff` lists the modules that use private attributes, in `pyproject.toml`."""
    private = re.compile(r"^\s*(?:from|import) (?:dagster_shared|dagster\S*\._)", re.MULTILINE)

    assert [each.name for each in modules() if private.search(each.text)] == [
        "seller_platform.orchestration.dagster_internals"
    ]


def test_files_are_written_only_by_the_module_that_survives_a_power_loss() -> None:
    assert {each.name for each in modules() if _WRITING.search(each.text)} == {*WRITERS}


def _mentioned_paths() -> Iterator[tuple[str, str]]:
    """Yield the places and the dotted paths and file names that the project mentions."""
    for pattern in _FILES_WITH_PATHS:
        for path in (path for path in ROOT.glob(pattern) if path.is_file()):
            mentioned = [
                *_DOTTED.findall(path.read_text()),
                *(_FILE.findall(path.read_text()) if path.suffix == ".md" else ()),
            ]
            yield from ((str(path), each) for each in mentioned)
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                # Other texts with this beginning are keys of a request, such as "seller_platform.request_id".
                paths = (each for each in _DOTTED.findall(node.value) if (PRODUCT / re.split("[.:]", each)[1]).is_dir())
                yield from ((f"{module.name}:{node.lineno}", each) for each in paths)


def test_every_path_named_in_files_and_texts_is_there() -> None:
    broken = []
    for where, path in _mentioned_paths():
        try:
            assert (ROOT / path.rstrip(".")).exists() if "/" in path else resolve_name(path)
        except (AssertionError, ImportError, AttributeError):
            broken.append(f"{where} names {path}")

    assert broken == []
