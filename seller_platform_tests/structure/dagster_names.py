"""Finds the private names of Dagster that the product uses."""

import ast
import re
from collections.abc import Iterator

from seller_platform_tests.structure.source import Module, modules

_PRIVATE_MODULE = re.compile(r"dagster(_\w+)?(\.\w+)*\._\w+(\.\w+)*|dagster_shared(\.\w+)*")
_OF_PYTHON = {"_args", "_exit", "_run_exitfuncs", "_replace"}


def private_names() -> set[tuple[str, str]]:
    """Return each private name with the module that uses it; a name that another module exports counts once."""
    return {
        (module.name.rpartition(".orchestration.")[2], name)
        for module in modules()
        if module.name.startswith("seller_platform.orchestration")
        for name in (*_imported(module), *_attributes(module))
    }


def _imported(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and _PRIVATE_MODULE.match(node.module or ""):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _PRIVATE_MODULE.match(alias.name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _PRIVATE_MODULE.fullmatch(node.value):
            yield node.value


def _attributes(module: Module) -> Iterator[str]:
    """Yield the private attributes that are read or replaced, and not defined in the module."""
    own = set(_OF_PYTHON)
    attributes = [node for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            own.add(node.target.id)
    own |= {each.attr for each in attributes if isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self"}
    yield from (each.attr for each in attributes if re.match("_[^_]", each.attr) and each.attr not in own)
