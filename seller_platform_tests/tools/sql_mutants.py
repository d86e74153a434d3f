"""Mistakes in the text of SQL, as operators of cosmic-ray, whose own operators leave strings alone."""

import re
from collections.abc import Iterator
from typing import Any

from cosmic_ray.operators.operator import Example, Operator

_IS_SQL = re.compile(r"\b(SELECT|FROM|WHERE|JOIN|CASE WHEN|EXISTS|ORDER BY|GROUP BY|RETURNING)\b")
_VALUE = r"(?:[\w.:]+|%\(\w+\)s(?:::\w+)?|'[^']*')"
_CONDITION = rf"(?:NOT )?[\w.]+ (?:=|<>|<=|>=|<|>) {_VALUE}(?= AND| OR|\)|\n|$)"

_MISTAKES: dict[str, tuple[tuple[str, str], ...]] = {
    "comparison": (
        (r" <= ", " < "),
        (r" >= ", " > "),
        (r" < ", " <= "),
        (r" > ", " >= "),
        (r" = ", " <> "),
        (r" <> ", " = "),
        (r"IS NULL", "IS NOT NULL"),
        (r"IS NOT NULL", "IS NULL"),
        (r"IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        (r"IS NOT DISTINCT FROM", "IS DISTINCT FROM"),
        (r"(?<!NOT )EXISTS", "NOT EXISTS"),
        (r"NOT (EXISTS|IN)\b", r"\1"),
        (r"<@", "&&"),
    ),
    "condition": (
        (rf" AND {_CONDITION}", ""),
        (rf"(?<=WHERE ){_CONDITION}", "true"),
        (r"(?<!BETWEEN) AND (?=NOT|[\w.]+ )", " OR "),
        (r" OR ", " AND "),
        (r" FILTER \(WHERE [^()]*\)", ""),
        (r"(?<!ON )\b(true|false)\b", r"NOT \1"),
    ),
    "join": (
        (r"LEFT JOIN (?!LATERAL)", "JOIN "),
        (r"FULL JOIN", "LEFT JOIN"),
        (r"(?<=\n)(\s*)JOIN ", r"\1LEFT JOIN "),
        (r"UNION ALL", "UNION"),
        (r"EXCEPT", "UNION"),
    ),
    "order": (
        (r" DESC\b", ""),
        (r"ORDER BY ([\w.]+)(?=[,)\n])", r"ORDER BY \1 DESC"),
        (r"NULLS FIRST", "NULLS LAST"),
        (r"NULLS LAST", "NULLS FIRST"),
        (r"\bmin\(", "max("),
        (r"\bmax\(", "min("),
        (r"\bleast\(", "greatest("),
        (r"\bgreatest\(", "least("),
    ),
    "column": (
        (r"((?:GROUP|PARTITION) BY [\w.]+), [\w.]+", r"\1"),
        (r"(DISTINCT ON \([\w.]+), [\w.]+", r"\1"),
        (r"(?<!IS )(?<!NOT )DISTINCT (?!ON|FROM)", ""),
        (r"\bsum\(", "max("),
        (r"coalesce\(([\w.]+), [\w.']+\)", r"\1"),
        (r" \+ ", " - "),
        (r" - ", " + "),
        (r"(?<=[ (])([1-9])(?=[ ,)\n])", r"1\1"),
    ),
}


def _mistakes(kind: str, node: Any) -> list[str]:
    """Return the texts with one mistake that a leaf of the syntax tree can have."""
    if node.type not in ("string", "fstring_string") or not _IS_SQL.search(node.value):
        return []
    return [
        node.value[: match.start()] + match.expand(mistake) + node.value[match.end() :]
        for pattern, mistake in _MISTAKES[kind]
        for match in re.finditer(pattern, node.value)
        if "--" not in node.value[node.value.rfind("\n", 0, match.start()) + 1 : match.start()]
    ]


class _SqlMistake(Operator):  # type: ignore[misc]  # the library has no types
    """Plants one mistake of a kind in a text of SQL."""

    kind = ""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the position of the text, once for each mistake."""
        yield from ((node.start_pos, node.end_pos) for _ in _mistakes(self.kind, node))

    def mutate(self, node: Any, index: int) -> Any:
        """Return the text with a mistake."""
        node.value = _mistakes(self.kind, node)[index]
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return none: the library asks for them in its own tests."""
        return ()


class Provider:
    """What cosmic-ray finds by the entry point."""

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the kinds."""
        return iter(_MISTAKES)

    def __getitem__(self, kind: str) -> type[_SqlMistake]:
        """Return the operator of a kind."""
        return type(kind, (_SqlMistake,), {"kind": kind})
