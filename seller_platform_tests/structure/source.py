"""The modules of the product and of its tests, parsed."""

import ast
import gc
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import seller_platform
import seller_platform_tests

ROOT = Path(seller_platform.__file__).parent.parent
PRODUCT = Path(seller_platform.__file__).parent
TESTS = Path(seller_platform_tests.__file__).parent

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True)
class Module:
    """One file of Python.

    Attributes:
        name: The dotted name; that of the package for its `__init__`.
    """

    name: str
    path: Path

    @property
    def path_in_project(self) -> str:
        """The path below the project's folder."""
        return str(self.path.relative_to(ROOT))

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def tree(self) -> ast.Module:
        tree = ast.parse(self.text)
        gc.freeze()  # it stays; the garbage collector would look through all trees again and again
        return tree


@cache
def modules(package: Path = PRODUCT) -> tuple[Module, ...]:
    """Return the modules of a package by name, numbered migrations left out."""
    paths = sorted(path for path in package.rglob("*.py") if path.parts[-3:-1] != ("migrations", "versions"))
    return tuple(Module(_dotted(path), path) for path in paths)


def folders(package: Path = PRODUCT) -> dict[Path, list[Module]]:
    """Return the folders of a package with the modules in them, their `__init__` left out."""
    inside: dict[Path, list[Module]] = {module.path.parent: [] for module in modules(package)}
    for module in modules(package):
        if not module.is_package:
            inside[module.path.parent].append(module)
    return inside


def docstrings(tree: ast.Module) -> Iterator[tuple[Documented, ast.Constant]]:
    """Yield what has a docstring, with the docstring's node."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield node, first.value


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tracked_at_the_top() -> set[str]:
    """Return the names at the top of the project that git tracks; none without a repository."""
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-tree", "--name-only", "HEAD"]
    return {*subprocess.run(git, check=False, capture_output=True, text=True).stdout.splitlines()}
