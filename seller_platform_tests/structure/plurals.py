"""Finds counts that are followed by a plural, which is wrong for one: "1 rows"."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from seller_platform_tests.structure.source import Module, modules

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
