"""Lenient decoding: reads pages value by value, in every spelling that upstreams use."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from seller_platform.client.decoding.envelopes import KEYED, NO_JSON, CutBody
from seller_platform.client.decoding.values import Reader, reader_of, shape_of, text_of
from seller_platform.client.http.responses import not_json
from seller_platform.contract import Dataset
from seller_platform.errors import ContractViolationError, DayMissingError

_NULL = b"null"
_PERIOD, _FIRST_DAY = "dates", "from_date"

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True)
class _Field:
    """A column, with the names that its field may have in a row."""

    names: tuple[str, ...]
    kind: str
    read: Reader
    is_required: bool


class LenientReader:
    """Reads the rows of a page one by one, without their local days, and records how they were spelled.

    Attributes:
        unreadable: Values that are none of their column's kind, which are null, by position of the row and column.
        unknown: The fields that the contract does not know.
    """

    def __init__(self, dataset: Dataset, zone: ZoneInfo) -> None:
        self.dataset = dataset
        self.extras: dict[int, str] = {}
        self.unreadable: dict[int, dict[str, str]] = defaultdict(dict)
        self.unknown: set[str] = set()
        self._fields = [
            _Field((each.name, *each.aliases), each.kind.value, reader_of(each.kind, zone), each.name == dataset.day)
            for each in dataset.columns
        ]
        self._known = {name for field in self._fields for name in field.names}
        self._spelled: dict[str, int] = dict.fromkeys(self._known, 0)

    def read(self, cut: CutBody) -> list[tuple[Any, ...]]:
        """Return the rows of a body, with their values in the order of the dataset's columns.

        Raises:
            ContractViolationError: A row is no object; it is named by its position, from 1.
            DayMissingError: The day of a row is missing or cannot be read.
            UnreadableBodyError: The rows are not JSON.
        """
        try:
            rows = list(_OBJECT.decode(cut.rows).values()) if cut.container == KEYED else _ARRAY.decode(cut.rows)
            return [self._row(position, row) for position, row in enumerate(rows)]
        except NO_JSON as error:
            raise not_json(error) from None

    def _row(self, position: int, row: msgspec.Raw) -> tuple[Any, ...]:
        if bytes(row)[:1] != b"{":
            problem = f"row {position + 1} of the page: it is {shape_of(bytes(row))}, not an object"
            raise ContractViolationError(self.dataset.name, problem)
        sent = {name: bytes(value) for name, value in _OBJECT.decode(row).items()}
        if not sent.keys() <= self._known:
            if _FIRST_DAY in self._known and sent.get(_PERIOD, b"")[:1] == b"{":
                # Rows are periods of costs; some upstreams send the days of a period in an object of its own.
                days = {name: bytes(value) for name, value in _OBJECT.decode(sent.pop(_PERIOD)).items()}
                sent = days | sent
            extra = {name: msgspec.Raw(value) for name, value in sent.items() if name not in self._known}
            if extra:
                self.unknown.update(extra)
                self.extras[position] = msgspec.json.encode(extra).decode()
        return tuple([self._value(position, field, sent) for field in self._fields])

    @property
    def names(self) -> tuple[str, ...]:
        """The name that the field of each column had most often."""
        return tuple(max(field.names, key=self._spelled.__getitem__) for field in self._fields)

    def _value(self, position: int, field: "_Field", fields: Mapping[str, bytes]) -> Any:
        values, unreadable = [], list[str]()
        for name in field.names:
            sent = fields.get(name, _NULL)
            if sent == _NULL:
                continue
            self._spelled[name] += 1
            try:
                values.append(field.read(sent))
            except (ValueError, ArithmeticError):
                unreadable.append(text_of(sent))
        if len(set(values)) == 1:
            return values[0]
        if not values and field.is_required:
            problem = f"{unreadable[0]}, which is no {field.kind}" if unreadable else "missing or null"
            problem = f"row {position + 1} of the page: {field.names[0]} is {problem}"
            raise DayMissingError(self.dataset.name, f"{problem}, but a row cannot do without it")
        if values or unreadable:
            self.unreadable[position][field.names[0]] = " and ".join([*map(str, values), *unreadable])
        return None
