"""Lenient decoding: reads pages value by value, in every spelling that upstreams use."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from seller_platform.client.decoding.strict import Envelope, Shape, envelope_of
from seller_platform.client.decoding.values import Reader, reader_of, shape_of, text_of
from seller_platform.client.http.responses import ERROR_FIELDS, digits_kept, not_json
from seller_platform.contract import Column, Dataset, Source
from seller_platform.contract.wire import CURRENT_PAGE, LAST_PAGE, PER_PAGE, TOTAL
from seller_platform.errors import ContractViolationError, DayMissingError

_NULL = b"null"
_PERIOD, _FIRST_DAY = "dates", "from_date"

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_SCALAR = msgspec.json.Decoder(int | float | str | None)


@dataclass(frozen=True)
class LenientRows:
    """The rows of a page, without their local days, and how the page was spelled."""

    rows: list[tuple[Any, ...]]
    extras: Mapping[int, str]
    unreadable: Mapping[int, Mapping[str, str]]
    unknown_fields: frozenset[str]
    envelope: Envelope
    shape: Shape


def lenient_rows(dataset: Dataset, body: bytes, zone: ZoneInfo, rows_field: str) -> LenientRows:
    """Return the rows that a body holds. A value that is none of its column's kind is null, and noted as unreadable.

    Raises:
        ContractViolationError: A row is no object; it is named by its position, from 1.
        DayMissingError: The day of a row is missing or cannot be read.
        UnreadableBodyError: The body is not JSON, or carries an error.
    """
    try:
        container, sent, envelope = _opened(dataset, body, rows_field)
        reader = _RowReader(dataset, zone)
        rows = [reader.read(position, row) for position, row in enumerate(sent)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise not_json(error) from None
    return LenientRows(
        rows, reader.extras, reader.unreadable, frozenset(reader.unknown), envelope, reader.shape(container)
    )


def _opened(dataset: Dataset, body: bytes, rows_field: str) -> tuple[str, Sequence[msgspec.Raw], Envelope]:
    """Return the kind of the container, the rows in it, and the envelope."""
    if body.lstrip()[:1] == b"[":
        bare = _ARRAY.decode(body)
        if dataset.source is not Source.PRODUCT_LOOKUP:
            raise ContractViolationError(dataset.name, f"the answer is an array, not an object with {rows_field}")
        return "bare", bare, Envelope()
    page = _OBJECT.decode(body)
    errors = {name: digits_kept(bytes(page.get(name, b"null"))) for name in ERROR_FIELDS}
    counts = {name: _scalar(page.get(name)) for name in (TOTAL, LAST_PAGE, CURRENT_PAGE, PER_PAGE)}
    envelope, sent = envelope_of(SimpleNamespace(**errors, **counts)), bytes(page.get(rows_field, b""))
    match sent[:1]:
        case b"[":
            return "array", _ARRAY.decode(sent), envelope
        case b"{":
            return "keyed", list(_OBJECT.decode(sent).values()), envelope
    problem = f"{rows_field} is {shape_of(sent)}" if sent else f"there is no {rows_field}"
    raise ContractViolationError(dataset.name, f"{problem} in the answer, but the rows should be there")


def repeated_name(body: bytes, rows_field: str) -> str | None:
    """Return a name that the object of rows has twice; None where it has none."""
    sent = bytes(_OBJECT.decode(body)[rows_field])
    if msgspec.json.encode(_OBJECT.decode(sent)) == sent:  # most are written like that
        return None
    try:
        pairs: list[tuple[str, object]] = digits_kept(sent, object_pairs_hook=list)
    except RecursionError as error:
        raise not_json(error) from None
    return next((name for name, count in Counter(name for name, _ in pairs).items() if count > 1), None)


def _scalar(sent: msgspec.Raw | None) -> int | float | str | None:
    try:
        return None if sent is None else _SCALAR.decode(sent)
    except msgspec.ValidationError:
        return None


@dataclass(frozen=True)
class _Field:
    """A column, with the names that its field may have in a row."""

    names: tuple[str, ...]
    kind: str
    read: Reader
    is_required: bool

    @classmethod
    def of(cls, column: Column, zone: ZoneInfo, *, is_required: bool) -> "_Field":
        return cls((column.name, *column.aliases), column.kind.value, reader_of(column.kind, zone), is_required)


class _RowReader:
    """Reads rows one by one and records how they were spelled."""

    def __init__(self, dataset: Dataset, zone: ZoneInfo) -> None:
        self.dataset = dataset
        self.extras: dict[int, str] = {}
        self.unreadable: dict[int, dict[str, str]] = defaultdict(dict)
        self.unknown: set[str] = set()
        self._fields = [_Field.of(column, zone, is_required=column.name == dataset.day) for column in dataset.columns]
        self._known = {name for field in self._fields for name in field.names}
        self._spelled: dict[str, int] = dict.fromkeys(self._known, 0)

    def read(self, position: int, row: msgspec.Raw) -> tuple[Any, ...]:
        """Return the values of a row, in the order of the dataset's columns."""
        if bytes(row)[:1] != b"{":
            problem = f"row {position + 1} of the page: it is {shape_of(bytes(row))}, not an object"
            raise ContractViolationError(self.dataset.name, problem)
        sent = {name: bytes(value) for name, value in _OBJECT.decode(row).items()}
        if not sent.keys() <= self._known:
            if _FIRST_DAY in self._known and sent.get(_PERIOD, b"")[:1] == b"{":
                # Rows are periods of costs; some upstreams send the days of a period in an object of its own.
                days = {name: bytes(value) for name, value in _OBJECT.decode(sent.pop(_PERIOD)).items()}
                sent = days | sent
            self._keep_unknown(position, sent)
        return tuple([self._value(position, field, sent) for field in self._fields])

    def shape(self, container: str) -> Shape:
        """Return the shape with the name that each field had most often."""
        names = (max(field.names, key=self._spelled.__getitem__) for field in self._fields)
        return Shape(tuple(names), container)

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

    def _keep_unknown(self, position: int, sent: Mapping[str, bytes]) -> None:
        extra = {name: value for name, value in sent.items() if name not in self._known}
        if not extra:
            return
        self.unknown.update(extra)
        self.extras[position] = msgspec.json.encode(
            {name: msgspec.Raw(value) for name, value in extra.items()}
        ).decode()
