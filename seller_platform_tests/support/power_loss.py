"""Every state in which a power loss can leave a folder, from the calls that wrote to it; and calls that fail.

`recorded` wraps functions of the module `os` while the real calls are made. After each of them it compares the folder
with its model, so that it also sees what other functions and programs wrote. POSIX promises no more than this:

- What was written to a file is on disk once the file is synced. Before, all of it may be there, none, a part, or zeros.
- A name that was made, moved or deleted is on disk once its folder is synced. Before, any of these changes may be
  there without the others. One rename is a single change; between two folders, both have to be synced.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import combinations, product
from pathlib import Path
from stat import S_ISDIR, S_ISLNK
from typing import Any

import pytest

from seller_platform.failpoints import AUDITED

CALLS = ("open", "write", "ftruncate", "fsync", "replace", "rename", "link", "symlink", "unlink", "mkdir", "rmdir")
_MOST_PENDING = 6
"""Of how many changes of names all subsets are lost. Of more: one alone, all but one, or the last ones."""

Tree = tuple[tuple[str, bytes | str | None], ...]
"""Sorted paths with their content: bytes of a file, text of a symbolic link, None of a folder."""


@dataclass(eq=False)
class _Node:
    """A file, folder or symbolic link.

    Attributes:
        versions: The content on disk, then later ones that are not synced; of a folder none.
    """

    kind: type
    versions: list[bytes | str | None]

    def contents(self) -> set[bytes | str | None]:
        """Return what it may hold after a power loss."""
        old, new = self.versions[0], self.versions[-1]
        if not isinstance(old, bytes) or not isinstance(new, bytes) or len(self.versions) == 1:
            return {new}
        half = len(new) // 2
        return {*self.versions, new[:half], new[:half] + old[half:], bytes(len(new))}


_Name = tuple[_Node, str]


@dataclass
class _Change:
    """A change of names, and the folders that have to be synced until it is on disk."""

    names: dict[_Name, _Node | None]
    folders: set[_Node]


@dataclass
class Recording:
    """The calls of a block that wrote below a folder, and what a power loss leaves.

    Attributes:
        calls: Names of calls and of their files, in order.
        states: Each state with the last call and the facts that were observed beside it, for the first time.
        reached: The failpoints that were reached.
    """

    root: Path
    observe: Callable[["Recording"], Any]
    fails: tuple[int, int] | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    states: dict[tuple[Any, Tree], str] = field(default_factory=dict)
    reached: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._top = _Node(Path, [None])
        self._nodes = {self.root.stat().st_ino: self._top}
        self._on_disk: dict[_Name, _Node] = {}
        self._names: dict[_Name, _Node] = {}
        self._changes: list[_Change] = []
        self._compare()
        self._changes.clear()
        self._on_disk = dict(self._names)
        for node in self._nodes.values():
            del node.versions[:-1]
        self._keep("nothing")

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Make a call, or let it fail if it is the one that is to fail."""
        path = _path_of(arguments[0], options.get("dir_fd"))
        if path != str(self.root) and not path.startswith(f"{self.root}/"):
            return function(*arguments, **options)
        self.calls.append((name, path))
        if self.fails is not None:
            if len(self.calls) - 1 == self.fails[0]:
                raise OSError(self.fails[1], os.strerror(self.fails[1]))
            return function(*arguments, **options)
        if name == "fsync":
            self._compare()
            self._keep(f"before {name} {path}")
        result = function(*arguments, **options)
        self._compare()
        if name == "fsync" and (node := self._nodes.get(os.fstat(arguments[0]).st_ino)):
            del node.versions[:-1]
            for change in self._changes:
                change.folders.discard(node)
        self._keep(f"{name} {path}")
        return result

    def reach(self, failpoint: str) -> None:
        """Keep the states of this moment, too."""
        self.reached.append(failpoint)
        self._keep(failpoint)

    def _compare(self) -> None:
        """Take over what has changed in the real folder."""
        names, nodes = dict[_Name, _Node](), {self.root.stat().st_ino: self._top}
        self._read(self._top, self.root, names, nodes)
        gone = {name: node for name, node in self._names.items() if names.get(name) is not node}
        for name, node in names.items():
            if self._names.get(name) is node:
                continue
            former = [each for each, moved in gone.items() if moved is node and each not in names]
            for each in former:
                del gone[each]
            gone.pop(name, None)
            change: dict[_Name, _Node | None] = {**dict.fromkeys(former), name: node}
            self._changes.append(_Change(change, {folder for folder, _ in change}))
        self._changes += [_Change({name: None}, {name[0]}) for name in gone]
        self._names, self._nodes = names, nodes

    def _read(self, folder: _Node, path: Path, names: dict[_Name, _Node], nodes: dict[int, _Node]) -> None:
        for each in sorted(path.iterdir()):
            status = each.lstat()
            kind = Path if S_ISDIR(status.st_mode) else str if S_ISLNK(status.st_mode) else bytes
            node = nodes.get(status.st_ino) or self._nodes.get(status.st_ino)
            if node is None or node.kind is not kind:
                node = _Node(kind, [b"" if kind is bytes else None])
            names[folder, each.name] = nodes[status.st_ino] = node
            if kind is Path:
                self._read(node, each, names, nodes)
                continue
            content = str(each.readlink()) if kind is str else each.read_bytes()
            if kind is str:
                node.versions = [content]
            elif content != node.versions[-1]:
                node.versions.append(content)

    def _keep(self, last: str) -> None:
        if self.fails is not None:
            return
        facts = self.observe(self)
        while self._changes and not self._changes[0].folders:
            _apply(self._changes.pop(0), self._on_disk)
        pending = [number for number, change in enumerate(self._changes) if change.folders]
        for lost in _subsets(pending):
            names = dict(self._on_disk)
            for number, change in enumerate(self._changes):
                if number not in lost:
                    _apply(change, names)
            for tree in self._trees(names):
                self.states.setdefault((facts, tree), last)

    def _trees(self, names: dict[_Name, _Node]) -> Iterator[Tree]:
        paths = list(_walk(self._top, "", names))
        nodes = list(dict.fromkeys(node for _, node in paths))
        for contents in product(*(sorted(node.contents(), key=repr) for node in nodes)):
            content = dict(zip(nodes, contents, strict=True))
            yield tuple(sorted((path, content[node]) for path, node in paths))


def _walk(folder: _Node, prefix: str, names: dict[_Name, _Node]) -> Iterator[tuple[str, _Node]]:
    for (parent, name), node in names.items():
        if parent is folder:
            yield f"{prefix}{name}", node
            yield from _walk(node, f"{prefix}{name}/", names)


def _apply(change: _Change, names: dict[_Name, _Node]) -> None:
    for name, node in change.names.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _subsets(pending: list[int]) -> Iterator[set[int]]:
    """Yield which of the changes are lost."""
    if len(pending) <= _MOST_PENDING:
        for count in range(len(pending) + 1):
            yield from map(set, combinations(pending, count))
        return
    for number, change in enumerate(pending):
        yield {change}
        yield set(pending) - {change}
        yield set(pending[number:])
    yield set()


def _path_of(target: Any, folder: int | None = None) -> str:
    if isinstance(target, int):
        return str(Path(f"/proc/self/fd/{target}").readlink())
    path = os.fsdecode(target)
    return path if folder is None else str(Path(_path_of(folder)) / path)


_listeners: list[Callable[[str], None]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == AUDITED:
        for listener in _listeners:
            listener(arguments[0])


sys.addaudithook(_audit)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Call a function with the name of each failpoint that this process reaches in the block."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def recorded(
    root: Path, *, observe: Callable[[Recording], Any] = lambda _: None, fails: tuple[int, int] | None = None
) -> Iterator[Recording]:
    """Record the calls of the block that write below a folder.

    Args:
        observe: Returns facts of this moment outside of the folder; it is called at each state.
        fails: The number of a call that is not made, and the number of the error that it raises. Then no states are
            kept.
    """
    recording = Recording(root, observe, fails)
    with pytest.MonkeyPatch.context() as patched, listening(recording.reach):
        for name in CALLS:
            call = partial(recording.call, name, function := getattr(os, name))
            patched.setattr(os, name, wraps(function)(call))
        yield recording


@contextmanager
def unsynced() -> Iterator[None]:
    """Let nothing wait for the disk: the recording stands for it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", wraps(os.fsync)(lambda _: None))
        yield


def restore(tree: Tree, folder: Path) -> Path:
    """Write a state into a new folder, and return it."""
    folder.mkdir(mode=0o700)
    for name, content in tree:
        path = folder / name
        if content is None:
            path.mkdir(mode=0o700)
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            path.chmod(0o600)
    return folder
