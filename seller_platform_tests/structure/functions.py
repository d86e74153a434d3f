"""Finds private functions that are called once."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from seller_platform_tests.structure.source import Function, Module, modules


@dataclass(frozen=True)
class CalledOnce:
    """A private function that its module mentions once.

    Attributes:
        name: The qualified name.
        length: Lines from `def` to the end, without decorators.
        use: How it is mentioned: "called", "passed" without a call, or "decorated".
    """

    module: Module
    name: str
    line: int
    length: int
    use: str


def function_count() -> int:
    """Return how many functions the product has, with methods and nested functions."""
    return sum(1 for module in modules() for _ in functions_of(module.tree))


def called_once() -> list[CalledOnce]:
    """Return the private functions and methods that their module mentions exactly once.

    Private names begin with one underscore. Every mention in the module counts, also without a call and inside the
    function itself. A function that only its decorator registers, such as a validator or a sensor, has no mention and
    is not returned. A decorated function with one mention, such as a context manager or a property, is returned.
    """
    return sorted(
        (once for module in modules() for once in _called_once_in(module)),
        key=lambda once: (once.module.path_in_project, once.line),
    )


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


def _called_once_in(module: Module) -> Iterator[CalledOnce]:
    mentions: Counter[str] = Counter()
    calls: set[str] = set()
    for node in ast.walk(module.tree):
        if name := _mentioned(node):
            mentions[name] += 1
        if isinstance(node, ast.Call):
            calls.add(_mentioned(node.func))
    for qualified, function in functions_of(module.tree):
        name = function.name
        if name.startswith("_") and not name.startswith("__") and mentions[name] == 1:
            use = "decorated" if function.decorator_list else "called" if name in calls else "passed"
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            yield CalledOnce(module, qualified, function.lineno, length, use)


def _mentioned(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""
