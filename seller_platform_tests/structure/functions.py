"""Finds private functions that are called once."""

import ast
from collections import Counter
from collections.abc import Iterator

from seller_platform_tests.structure.source import Function, Module, modules


def function_count() -> int:
    """Return how many functions the product has, with methods and nested functions."""
    return sum(1 for module in modules() for _ in functions_of(module.tree))


def called_once() -> list[str]:
    """Return the private functions and methods that their module mentions exactly once, with their lines.

    Private names begin with one underscore. Every mention in the module counts, also without a call and inside the
    function itself. A function that only its decorator registers, such as a validator or a sensor, has no mention and
    is not returned. A decorated function with one mention, such as a context manager or a property, is returned.
    """
    return [once for module in modules() for once in _called_once_in(module)]


def functions_of(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield every function with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            yield from functions_of(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from functions_of(child, f"{prefix}{child.name}.")
        else:
            yield from functions_of(child, prefix)


def _called_once_in(module: Module) -> Iterator[str]:
    nodes = [*ast.walk(module.tree)]
    mentions = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    mentions.update(node.attr for node in nodes if isinstance(node, ast.Attribute))
    for qualified, function in functions_of(module.tree):
        name = function.name
        if name.startswith("_") and not name.startswith("__") and mentions[name] == 1:
            last = function.end_lineno or function.lineno
            yield f"{module.path_in_project}:{function.lineno}-{last} {qualified}"
