"""Reads the imports between modules of the product, and finds those inside functions."""

import ast
import dataclasses
from collections.abc import Mapping, Set
from dataclasses import dataclass

from grimp import build_graph

from seller_platform import cli
from seller_platform.capabilities import capabilities
from seller_platform_tests.structure.source import PRODUCT, Module, modules


@dataclass(frozen=True)
class Import:
    """A statement that runs when a function does, not when its module is imported."""

    module: Module
    line: int

    def __str__(self) -> str:
        return f"{self.module.path_in_project}:{self.line} {self.module.lines[self.line - 1].strip()}"

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


def imported() -> Mapping[str, Set[str]]:
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


def beyond_needs() -> Set[str]:
    """Return the imports of capabilities by the core, and of capabilities by others that do not need them.

    Routes of a capability import the service, which loads them, and are removed with it.
    """
    allowed = {each.name: {each.name, *each.needs} for each in capabilities()}
    routes = {(each.routes.partition(":")[0], "service") for each in capabilities() if each.routes}
    return {
        f"{module} -> {other}"
        for module, others in imported().items()
        for other in others
        if (folder := _folder(other)) in allowed and folder not in allowed.get(_folder(module), ())
        if (module, folder) not in routes
    }


def _folder(module: str) -> str:
    return f"{module}..".split(".")[1]


def imports_inside_functions() -> Set[Import]:
    """Return the imports inside functions of the product, of any library."""
    return {
        Import(module, statement.lineno)
        for module in modules()
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    }
