"""Finds calls that write files without the module `files`, functions, plurals and private names."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from seller_platform_tests.structure.source import Function, Module, modules

_FILES = "seller_platform.files"
_FUNCTIONS = {
    "os": {"open", "rename", "replace", "link", "symlink", "unlink", "remove", "mkdir", "makedirs", "truncate"},
    "shutil": {"move", "copy", "copy2", "copyfile", "copytree"},
    "tempfile": {"mkdtemp", "mkstemp"},
}
_METHODS = {"write_text", "write_bytes", "unlink", "rename", "mkdir", "touch", "symlink_to", "hardlink_to"}
_WRITING = set("wax+")
ALLOWED = {
    "seller_platform.ingest.connections.token_rotation .replace": "a token pair in the warehouse",
    "seller_platform.lake.partitions .replace": "slices of a Delta table",
    "seller_platform.sandbox.commands.processes .open": "the log of a program",
    "seller_platform.reports.commands .open": "a draft of `files.replacing`",
    "seller_platform.warehouse.postgres.embedded tempfile.mkdtemp": "the folder of a socket",
    "seller_platform.warehouse.postgres.embedded .symlink_to": "the socket's name with the port of its URLs",
    "seller_platform.warehouse.postgres.embedded .unlink": "the former one",
    "seller_platform.warehouse.postgres.root_user shutil.copytree": "a draft of `files.draft_folder_beside`",
}
"""Calls that may stay, each with what it writes."""


def writers() -> dict[str, int]:
    """Return the calls of all other modules that write files: module and call, and the first line."""
    return {
        f"{module.name} {call}": line
        for module in reversed(modules())
        if module.name != _FILES
        for call, line in _calls(module.tree)
    }


def _calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
                yield "open", node.lineno
            continue
        name, owner = node.func.attr, node.func.value
        library = owner.id if isinstance(owner, ast.Name) else ""
        if name in _FUNCTIONS.get(library, ()):
            yield f"{library}.{name}", node.lineno
        elif name in _METHODS or (name == "open" and _is_writing(node)) or _is_move(node, name):
            yield f".{name}", node.lineno


def _is_move(call: ast.Call, name: str) -> bool:
    """Whether a call may be one of `Path.replace`; that of a text has two arguments."""
    return name == "replace" and len(call.args) == 1 and not call.keywords


def _is_writing(call: ast.Call) -> bool:
    """Whether a mode of a call of `open` is one for writing."""
    modes = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    constants = (each.value for mode in modes for each in ast.walk(mode) if isinstance(each, ast.Constant))
    return any(isinstance(mode, str) and len(mode) <= 3 and _WRITING & set(mode) for mode in constants)


_PLURAL = re.compile(
    r"^ (?:(?:more|other|new|earlier|open|such|former|of \d+) )*"
    r"((?:accounts|attempts|causes|cells|characters|clients|columns|connections|datasets|days|decimals|errors|events"
    r"|fields|grants|groups|hours|keys|loads|messages|minutes|months|pages|partitions|polls"
    r"|prerequisites|problems|products|queries|readings|reports|requests|rows|runs|seconds|secrets|SKUs|slices|tables|tags"
    r"|tokens|units|users|windows))\b"
)


@dataclass(frozen=True)
class Count:
    """A text in which a value is followed by a plural."""

    module: Module
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.module.path_in_project}:{self.line} {self.text}"


def counts_without_singular() -> Iterator[Count]:
    """Yield the f-strings whose value, which may be 1, is followed by a plural.

    Constants, which are written in capitals, are not 1.
    """
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.JoinedStr):
                for value, after in zip(node.values, node.values[1:], strict=False):
                    is_plural = isinstance(after, ast.Constant) and _PLURAL.match(str(after.value))
                    if is_plural and _is_count(value):
                        yield Count(module, value.lineno, f"{ast.unparse(value)}{ast.unparse(after)[:40]}")


def _is_count(value: ast.expr) -> bool:
    if not isinstance(value, ast.FormattedValue):
        return False
    names = [node.id for node in ast.walk(value.value) if isinstance(node, ast.Name)]
    return not (names and all(name.isupper() for name in names)) and "count_of" not in names


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
