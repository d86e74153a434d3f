"""Finds calls that write, create, move or delete files without the module `files`."""

import ast
from collections.abc import Iterator

from seller_platform_tests.structure.source import modules

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
    "seller_platform.warehouse.exports.partitions .replace": "slices of a Delta table",
    "seller_platform.cli.processes .open": "the log of a program",
    "seller_platform.cli.reports .open": "a draft of `files.replacing`",
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
