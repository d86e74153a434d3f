"""YAML files with rules of one's own, read strictly: an error names line, value and what is allowed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from seller_platform.counts import count_of
from seller_platform.errors import InvalidSettingError

Node: TypeAlias = Any
"""A node of PyYAML, which knows its line and whose stubs lack its `id`."""

ANY = "*"
"""The pattern of any text."""

_ENTRY_KEYS = ("type", "description")
_LONGEST_NAME, _LONGEST_PATTERN, _LARGEST_FILE = 63, 200, 1 << 18


@dataclass(frozen=True)
class EntryPattern:
    """Names entries by type and description, in which `*` stands for any text."""

    type: str = ANY
    description: str = ANY


def like_pattern(pattern: str) -> str:
    """Return a pattern as LIKE of PostgreSQL takes it."""
    escaped = pattern.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
    return escaped.replace(ANY, "%")


class RulesFile:
    """Reads the nodes of a YAML file; a method raises a SettingsError for a node that it cannot read."""

    def __init__(self, path: Path, what: str, setting: str) -> None:
        """Begin without reading.

        Args:
            what: What the file holds, in a word.
            setting: The variable that names the file.
        """
        self._path, self._what, self._setting = path, what, setting

    @cached_property
    def content(self) -> str:
        """The text of the whole file."""
        path = self._path
        try:
            if not path.is_file() and path.exists():
                raise self.error(None, "is no regular file")
            with path.open("rb") as file:
                text = file.read(_LARGEST_FILE + 1).decode()
        except (OSError, UnicodeDecodeError) as error:
            problem = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            raise self.error(None, f"cannot be read: {problem}") from None
        if len(text) > _LARGEST_FILE or "\0" in text:
            problem = f"has no {self._what}: it must be text of at most {_LARGEST_FILE:,} characters"
            raise self.error(None, problem)
        return text

    @cached_property
    def root(self) -> Node | None:
        """The node of the whole file; None where it is empty."""
        # Here, because every command would take 20 ms longer.
        import yaml

        try:
            return yaml.compose(self.content, Loader=yaml.SafeLoader)
        except yaml.YAMLError as error:
            raise self.error(None, f"is not YAML: {' '.join(str(error).split())}") from None
        except RecursionError:
            raise self.error(None, "is nested too deeply") from None

    def mapping(self, node: Node | None, keys: Sequence[str], *, required: Sequence[str], what: str) -> dict[str, Node]:
        """Return the nodes of a mapping by key."""
        fields: dict[str, Node] = {}
        if node is None or node.id != "mapping":
            raise self.error(node, f"{what} is no mapping; its keys are {', '.join(keys)}")
        for key_node, value in node.value:
            key = key_node.value if key_node.id == "scalar" else ""
            if key not in keys:
                raise self.error(key_node, f"{what} has the key {key!r}; its keys are {', '.join(keys)}")
            if key in fields:
                raise self.error(key_node, f"{what} has the key {key!r} twice; write it once")
            fields[key] = value
        for key in required:
            if key not in fields:
                raise self.error(node, f"{what} has no key {key!r}; add it")
        return fields

    def sequence(self, node: Node, key: str) -> list[Node]:
        """Return the nodes of a list."""
        if node.id != "sequence":
            raise self.error(node, f"{key} is no list; begin each of its items with `-`")
        return list(node.value)

    def entries(self, node: Node, line: str) -> tuple[EntryPattern, ...]:
        """Return the patterns of the entries that belong to a line."""
        patterns = []
        for each in self.sequence(node, "entries"):
            fields = self.mapping(each, _ENTRY_KEYS, required=(), what="an entry")
            if not fields:
                raise self.error(each, "an entry names nothing; give type, description or both")
            patterns.append(EntryPattern(**{key: self.text(value, key) for key, value in fields.items()}))
        if not patterns:
            raise self.error(node, f"line {line!r} names no entries; give at least a type or description")
        return tuple(patterns)

    def text(self, node: Node, key: str, longest: int = _LONGEST_PATTERN) -> str:
        """Return a text."""
        if node.id != "scalar":
            raise self.error(node, f"{key} is no text; write one value")
        if len(node.value) > longest:
            characters = count_of(len(node.value), "character")
            raise self.error(node, f"{key} has {characters}; at most {longest} are allowed")
        return str(node.value)

    def name(self, node: Node, key: str, *, taken: Sequence[str]) -> str:
        """Return a name of lower-case letters, digits and underscores."""
        name = self.text(node, key)
        allowed = name.isascii() and name.replace("_", "a").isalnum() and name == name.lower()
        if not allowed or len(name) > _LONGEST_NAME:
            problem = f"use lower-case letters, digits and underscores, 1 to {_LONGEST_NAME} characters"
            raise self.error(node, f"{key} is {name!r}; {problem}")
        if name in taken:
            problem = f"which has another meaning; choose a name that is none of {', '.join(taken)}"
            raise self.error(node, f"{key} is {name!r}, {problem}")
        return name

    def error(self, node: Node | None, problem: str) -> InvalidSettingError:
        """Return the error of a node, or of the whole file."""
        line = f", line {node.start_mark.line + 1}" if node else ""
        return InvalidSettingError(self._setting, f"{self._path}{line}: {problem}")
