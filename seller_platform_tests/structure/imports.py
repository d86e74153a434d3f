"""Reads the imports between modules of the product, and finds the cycles among them."""

import ast
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from seller_platform_tests.structure.source import Module, modules


@dataclass(frozen=True)
class Import:
    """One imported module.

    Attributes:
        target: The dotted name of the module.
        is_inside_a_function: It runs when a function does, not when the module is imported.
    """

    module: Module
    target: str
    line: int
    is_inside_a_function: bool

    @property
    def has_a_comment(self) -> bool:
        """Whether a comment is beside or above the statement; successive imports share it."""
        lines, number = self.module.lines, self.line - 1
        while number >= 0:
            statement = lines[number].strip()
            if "#" in statement:
                return True
            if number != self.line - 1 and statement and not statement.startswith(("import ", "from ")):
                return False
            number -= 1
        return False


def imports_of(module: Module, names: Set[str]) -> Iterator[Import]:
    """Yield the imports of a module, without those for the type checker.

    Args:
        names: The modules that count; others are left out.
    """
    yield from _imports_in(module, module.tree, names, is_inside=False)


def _imports_in(module: Module, node: ast.AST, names: Set[str], *, is_inside: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            for target in sorted(set(_targets(child, names))):
                yield Import(module, target, child.lineno, is_inside)
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports_in(module, child, names, is_inside=is_inside or is_function)


def _targets(statement: ast.Import | ast.ImportFrom, names: Set[str]) -> Iterator[str]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            target = alias.name
        else:
            inner = f"{statement.module}.{alias.name}"
            target = inner if inner in names else str(statement.module)
        if not names or target in names:
            yield target


def imported() -> Mapping[str, frozenset[str]]:
    """Return which modules of the product each of them imports."""
    names = {module.name for module in modules()}
    return {module.name: frozenset(each.target for each in imports_of(module, names)) for module in modules()}


def imports_inside_functions() -> list[Import]:
    """Return the imports inside functions of the product, of any library."""
    return [each for module in modules() for each in imports_of(module, frozenset()) if each.is_inside_a_function]
