"""Counts rows in which a key column is null; they are stored like all others."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from seller_platform.contract import Dataset

_ROWS_NAMED = 5


class NullKeys:
    """Counts the rows of a slice without their whole key, and names the first of them.

    Attributes:
        count: Rows since the last restart.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._columns = [(number, column.name) for number, column in enumerate(dataset.columns) if column.key]
        self.restart()

    def restart(self) -> None:
        """Forget every row."""
        self.count = 0
        self._first: list[dict[str, object]] = []

    def add(self, rows: Sequence[tuple[Any, ...]], *, page: int) -> None:
        """Count the rows of one page."""
        lacking = [(number, name) for number, name in self._columns if None in map(itemgetter(number), rows)]
        if not lacking:
            return
        for position, row in enumerate(rows, start=1):
            names = [name for number, name in lacking if row[number] is None]
            if names:
                self.count += 1
                if len(self._first) < _ROWS_NAMED:
                    self._first.append({"page": page, "row": position, "columns": names})

    @property
    def notes(self) -> dict[str, object]:
        """The note `null_keys` for the receipt; empty where every row has its key."""
        return {"null_keys": {"rows": self.count, "first": list(self._first)}} if self.count else {}
