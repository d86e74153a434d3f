"""Lenient decoding: every spelling of a page that upstreams are known to use, one value at a time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from seller_platform.client.shapes import Envelope, Shape, envelope_of, required_fields
from seller_platform.client.values import decoded_value, holds_nul, shape_of
from seller_platform.contract import Column, Dataset
from seller_platform.contract.envelope import CURRENT_PAGE, LAST_PAGE, PER_PAGE, TOTAL
from seller_platform.errors import ContractViolationError, UnreadableBodyError

_NULL = b"null"
_PERIOD = "dates"

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_SCALAR = msgspec.json.Decoder(int | float | str | None)


@dataclass(frozen=True)
class LenientRows:
    """The rows of a page without their place, and how the page was spelled."""

    rows: list[tuple[Any, ...]]
    extras: Mapping[int, str]
    unknown_fields: frozenset[str]
    envelope: Envelope
    shape: Shape


def lenient_rows(dataset: Dataset, body: bytes, zone: ZoneInfo, rows_field: str) -> LenientRows:
    """Return the rows that a body holds.

    Raises:
        ContractViolationError: A row is not what the API promises; it is named by its position, from 1.
        UnreadableBodyError: The body is not JSON.
    """
    try:
        container, sent, envelope = _opened(dataset, body, rows_field)
        reader = _RowReader(dataset, zone)
        rows = [reader.read(position, row) for position, row in enumerate(sent)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableBodyError("a body that is not JSON") from None
    return LenientRows(rows, reader.extras, frozenset(reader.unknown), envelope, reader.shape(container))


def _opened(dataset: Dataset, body: bytes, rows_field: str) -> tuple[str, Sequence[msgspec.Raw], Envelope]:
    """Return what kind of container holds the rows, the rows in it, and the envelope around them."""
    if body.lstrip()[:1] == b"[":
        return "bare", _ARRAY.decode(body), Envelope()
    page = _OBJECT.decode(body)
    sent = bytes(page.get(rows_field, b""))
    envelope = envelope_of(
        SimpleNamespace(**{name: _scalar(page.get(name)) for name in (TOTAL, LAST_PAGE, CURRENT_PAGE, PER_PAGE)})
    )
    match sent[:1]:
        case b"[":
            return "array", _ARRAY.decode(sent), envelope
        case b"{":
            return "keyed", list(_OBJECT.decode(sent).values()), envelope
    found = f"{rows_field} is {shape_of(sent)}" if sent else f"there is no {rows_field}"
    raise ContractViolationError(dataset.name, f"{found} in the answer, but the rows should be there")


def _scalar(sent: msgspec.Raw | None) -> int | float | str | None:
    try:
        return None if sent is None else _SCALAR.decode(sent)
    except msgspec.ValidationError:
        return None


class _RowReader:
    """Reads rows one by one, and remembers how they were spelled."""

    def __init__(self, dataset: Dataset, zone: ZoneInfo) -> None:
        self.dataset, self.zone = dataset, zone
        self.extras: dict[int, str] = {}
        self.unknown: set[str] = set()
        self._required = required_fields(dataset)
        self._names = [(column, (column.name, *column.aliases)) for column in dataset.columns]
        self._known = {name for _, names in self._names for name in names}
        self._spelled: Counter[str] = Counter()

    def read(self, position: int, sent: msgspec.Raw) -> tuple[Any, ...]:
        if bytes(sent)[:1] != b"{":
            raise self._violation(position, f"it is {shape_of(bytes(sent))}, not an object")
        fields = self._flat(_OBJECT.decode(sent))
        self._keep_unknown(position, fields)
        return tuple(self._value(position, column, names, fields) for column, names in self._names)

    def shape(self, container: str) -> Shape:
        """Return the shape in which most fields were spelled."""
        names = (max(names, key=lambda name: self._spelled[name]) for _, names in self._names)
        return Shape(tuple(names), container)

    def _flat(self, fields: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
        """Return the fields with those of a period's `dates` among them, where the dataset's rows are periods."""
        if _PERIOD not in fields or "from_date" not in self._known or bytes(fields[_PERIOD])[:1] != b"{":
            return fields
        rest = {name: value for name, value in fields.items() if name != _PERIOD}
        return _OBJECT.decode(fields[_PERIOD]) | rest

    def _value(self, position: int, column: Column, names: tuple[str, ...], fields: Mapping[str, msgspec.Raw]) -> Any:
        sent = [(name, bytes(fields[name])) for name in names if name in fields]
        values = []
        for name, text in sent:
            self._spelled[name] += 1
            try:
                values.append(decoded_value(column.kind, text, self.zone))
            except ValueError as error:
                raise self._violation(position, f"{name}: {error}") from None
        told = [value for value in values if value is not None]
        if not told and column.name in self._required:
            problem = "is null" if sent else "is missing"
            raise self._violation(position, f"{column.name} {problem}, but a row cannot do without it")
        if any(value != told[0] for value in told):
            raise self._violation(position, f"{' and '.join(name for name, _ in sent)} differ, but are one field")
        return told[0] if told else None

    def _keep_unknown(self, position: int, fields: Mapping[str, msgspec.Raw]) -> None:
        if fields.keys() <= self._known:
            return
        extra = {name: value for name, value in fields.items() if name not in self._known}
        text = msgspec.json.encode(extra)
        if holds_nul(text):
            raise self._violation(position, "a field that the API does not name holds a NUL character")
        self.unknown.update(extra)
        self.extras[position] = text.decode()

    def _violation(self, position: int, problem: str) -> ContractViolationError:
        return ContractViolationError(self.dataset.name, f"row {position + 1} of the page: {problem}")
