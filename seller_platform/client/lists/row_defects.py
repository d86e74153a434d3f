"""Counts rows that are stored although something is wrong with them, and names the first."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from seller_platform.client.decoding.pages import Defects
from seller_platform.client.http.characters import MARK
from seller_platform.contract import Dataset, Kind
from seller_platform.contract.cost_periods import SKU
from seller_platform.contract.loads import REPLACED_TEXT, UNREADABLE_VALUES
from seller_platform.errors import ContractViolationError

_ROWS_NAMED = 5
"""How many rows a note names."""


class RowDefects:
    """Counts the rows of a slice that have a defect: no whole key, replaced text, values that cannot be read.

    Attributes:
        notes: Notes for the receipt, by the name of the defect.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset.name
        self._columns = dataset.columns
        self._unreadable: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self._sent_keys: dict[tuple[str, str], str] = {}
        self.notes: dict[str, Any] = {}

    def add(self, rows: Sequence[tuple[Any, ...]], defects: Defects, *, page: int, before: int = 0) -> bool:
        """Count the rows of one page, and return whether they have no defect, and no mark in a key or an SKU.

        Args:
            before: Rows of the page that were added before.

        Raises:
            ContractViolationError: Two keys or SKUs differ only in text that is replaced.
        """
        replaced, is_plain = defects.get(REPLACED_TEXT, {}), not defects
        for name, positions in defects.items():
            for position, columns in positions.items():
                self._note(name, page, before + position, columns)
        absent: dict[int, dict[str, str]] = defaultdict(dict)
        for number, column in enumerate(self._columns):
            # Rows of most lists are joined by their SKU, whether it is their key or not.
            if not column.key and column.name != SKU:
                continue
            values = list(map(itemgetter(number), rows))
            # One search in all texts is faster than one in each.
            is_marked = column.kind is Kind.TEXT and MARK in "".join(filter(None, values))
            if not is_marked and not (column.key and None in values):
                continue  # as in most pages
            is_plain = False
            for position, value in enumerate(values):
                if value is None and column.key:
                    absent[position][column.name] = ""
                elif is_marked and MARK in (value or ""):
                    # What was sent has a mark of its own for each character that was replaced.
                    sent = replaced.get(position, {}).get(column.name, value)
                    if self._sent_keys.setdefault((column.name, value), sent) != sent:
                        difference = "characters that cannot be stored, as of a charset that is not declared"
                        raise ContractViolationError(
                            self._dataset,
                            f"row {before + position + 1} of page {page}: its {column.name} differs from that of "
                            f"another row only in {difference}",
                        )
        for position, columns in sorted(absent.items()):
            self._note("null_keys", page, before + position, columns)
        return is_plain

    def check(self, what: str, rows: int) -> None:
        """Return unless most values of a column may be of another form than the contract's.

        Raises:
            ContractViolationError: More than three values of a column, and more than a tenth, cannot be read.
        """
        for column, count in self._unreadable.items():
            if count > 3 and 10 * count > rows:
                problem = f"{count} of {rows} values of {column} cannot be read; {self._first[column]}"
                raise ContractViolationError(what, f"{problem}. More than a tenth is no list that can be believed")

    def _note(self, name: str, page: int, position: int, columns: Mapping[str, str]) -> None:
        if name == UNREADABLE_VALUES:
            self._unreadable.update(columns.keys())
            for column, sent in columns.items():
                self._first.setdefault(column, f"the first is {sent} in row {position + 1} of page {page}")
        note = self.notes.setdefault(name, {"rows": 0, "first": []})
        note["rows"] += 1
        if len(note["first"]) < _ROWS_NAMED:
            shown = [f"{column} {'' if name == REPLACED_TEXT else sent}".rstrip() for column, sent in columns.items()]
            note["first"].append({"page": page, "row": position + 1, "columns": shown})
