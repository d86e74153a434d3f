"""Counts rows that are stored although something is wrong with them, and names the first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from seller_platform.client.decoding.pages import Defects
from seller_platform.contract import Dataset
from seller_platform.contract.loads import REPLACED_TEXT, UNREADABLE_VALUES
from seller_platform.errors import ContractViolationError

_ROWS_NAMED = 5
_MOST_UNREADABLE = 3
_ROWS_FOR_EACH = 10
"""A list is refused where more than three values of a column cannot be read, and more than one of ten rows."""

_NULL_KEYS = "null_keys"


class RowDefects:
    """Counts the rows of a slice that have a defect: no whole key, replaced text, values that cannot be read.

    Attributes:
        count: Rows so far; one with several defects counts for each.
        notes: Notes for the receipt, by the name of the defect.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset.name
        self._key = dict(zip(dataset.key_positions, dataset.key, strict=True))
        self._unreadable: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._sent_keys: dict[tuple[str, str], str] = {}
        self.count = 0
        self.notes: dict[str, Any] = {}

    def add(self, rows: Sequence[tuple[Any, ...]], defects: Defects, *, page: int) -> None:
        """Count the rows of one page.

        Raises:
            ContractViolationError: The values of a key differ only in text that is replaced.
        """
        for position, sent in defects.get(REPLACED_TEXT, {}).items():
            for number, column in self._key.items():
                stored = rows[position][number] if column in sent else None
                if stored is not None and self._sent_keys.setdefault((column, stored), sent[column]) != sent[column]:
                    where, difference = f"row {position + 1} of page {page}", "characters that cannot be stored"
                    raise ContractViolationError(
                        self._dataset, f"{where}: its {column} differs from that of another row only in {difference}"
                    )
        for name, positions in defects.items():
            for position, columns in positions.items():
                self._note(name, page, position, columns)
        for number in self._key:
            if None in map(itemgetter(number), rows):
                break
        else:  # as in most pages
            return
        for position, row in enumerate(rows):
            if absent := {name: "" for number, name in self._key.items() if row[number] is None}:
                self._note(_NULL_KEYS, page, position, absent)

    def check(self, what: str, rows: int) -> None:
        """Return unless most values of a column may be of another form than the contract's.

        Args:
            what: Names the list.
            rows: How many rows it has.

        Raises:
            ContractViolationError: More than three values of a column, and more than a tenth, cannot be read.
        """
        for column, count in self._unreadable.items():
            if count > _MOST_UNREADABLE and _ROWS_FOR_EACH * count > rows:
                problem = f"{count} of {rows} values of {column} cannot be read; {self._first[column]}"
                raise ContractViolationError(what, f"{problem}. More than a tenth is no list that can be believed")

    def _note(self, name: str, page: int, position: int, columns: Mapping[str, str]) -> None:
        self.count += 1
        if name == UNREADABLE_VALUES:
            self._unreadable.update(columns.keys())
            for column, sent in columns.items():
                self._first.setdefault(column, f"the first is {sent} in row {position + 1} of page {page}")
        note = self.notes.setdefault(name, {"rows": 0, "first": []})
        note["rows"] += 1
        if len(note["first"]) < _ROWS_NAMED:
            shown = [f"{column} {'' if name == REPLACED_TEXT else sent}".rstrip() for column, sent in columns.items()]
            note["first"].append({"page": page, "row": position + 1, "columns": shown})
