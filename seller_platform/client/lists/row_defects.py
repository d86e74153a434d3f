"""Counts rows that are stored although something is wrong with them, and names the first."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from seller_platform.contract import Dataset

_ROWS_NAMED = 5


class RowDefects:
    """Counts the rows of a slice without their whole key, and those with replaced text.

    Attributes:
        count: Rows so far; one with both defects counts twice.
        notes: The notes `null_keys` and `replaced_text` for the receipt, where there are such rows.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._columns = dict(zip(dataset.key_positions, dataset.key, strict=True))
        self.count = 0
        self.notes: dict[str, Any] = {}

    def add(
        self, rows: Sequence[tuple[Any, ...]], replaced: Mapping[int, Sequence[str]] | None = None, *, page: int
    ) -> None:
        """Count the rows of one page.

        Args:
            replaced: The names of the columns with replaced text, by the row's position.
        """
        for position, names in (replaced or {}).items():
            self._note("replaced_text", page, position, names)
        if not any(None in map(itemgetter(number), rows) for number in self._columns):
            return
        for position, row in enumerate(rows):
            if names := [name for number, name in self._columns.items() if row[number] is None]:
                self._note("null_keys", page, position, names)

    def _note(self, name: str, page: int, position: int, columns: Sequence[str]) -> None:
        self.count += 1
        note = self.notes.setdefault(name, {"rows": 0, "first": []})
        note["rows"] += 1
        if len(note["first"]) < _ROWS_NAMED:
            note["first"].append({"page": page, "row": position + 1, "columns": list(columns)})
