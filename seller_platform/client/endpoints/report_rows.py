"""Reads the rows of a downloaded report one by one from JSON or CSV.

JSON is an array of objects, or an object with such an array as its `data`; the digits of its numbers are kept. CSV
follows RFC 4180 and has a header, which shows its separator. It has no types: columns that the contract does not name
are kept as text, and an empty cell is null.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from seller_platform.client.decoding.envelopes import check_names
from seller_platform.client.decoding.values import reader_of, shape_of, text_of
from seller_platform.client.endpoints.json_stream import JsonText
from seller_platform.client.http.characters import MARK, sent_bytes, storable_json, variants, variants_of_texts
from seller_platform.client.http.responses import ERROR_FIELDS, check_no_error, digits_kept, shortened
from seller_platform.client.lists.row_defects import RowDefects
from seller_platform.contract import Kind
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.contract.loads import REPLACED_TEXT, UNREADABLE_VALUES
from seller_platform.contract.reports import CSV, FORMULA_STARTS
from seller_platform.contract.wire import ROWS
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, UnreadableBodyError

ReportRow = tuple[Sequence[Any], str | None]
"""The values of the contract's columns that upstreams send, and the JSON text of all other columns."""

_Cells = tuple[list[Any], dict[str, object]]

_LARGEST_CELL = 1 << 20
_LARGEST_LINE = 16 << 20
_NULL = b"null"
_BLANKS = " \t\r\n"
_SEPARATORS = ",;\t|"
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])

# Upstreams do not send the first two columns: the report, and the position of the row in it.
_SENT = REPORT_ROWS.columns[2:]
_SKU = 0


class ReportReader:
    """Reads the rows of one download.

    Attributes:
        other_columns: The columns of the rows read so far that the contract does not name.
        defects: The defects of the rows so far, as of one page.
    """

    def __init__(self, zone: ZoneInfo) -> None:
        self.other_columns: set[str] = set()
        self.defects = RowDefects(REPORT_ROWS)
        self._numbers = {name: number for number, column in enumerate(_SENT) for name in (column.name, *column.aliases)}
        self._readers = [reader_of(column.kind, zone) for column in _SENT]
        self._position, self._unreadable = 0, dict[str, str]()

    def rows(self, text: Iterator[str], form: str) -> Iterator[ReportRow]:
        """Return the rows of a body.

        A body that is JSON is read as JSON, even where CSV was requested.

        Raises:
            ContractViolationError: A row cannot be stored; it is named by its position, from 1.
            UnreadableBodyError: The body is not of that form, has no column of the contract, or was cut.
        """
        start = next((piece for piece in text if piece.strip(_BLANKS)), "")
        first = start.lstrip(_BLANKS)[:1]
        whole = chain([start], text)
        if first in ("[", "{"):
            return self._json_rows(JsonText(whole))
        if form != CSV:
            raise UnreadableBodyError("a body that is not JSON")
        return self._csv_rows(whole)

    def _json_rows(self, text: JsonText) -> Iterator[ReportRow]:
        for self._position, row in enumerate(json_rows(text), start=1):
            rows = [self._json_row(variant) for variant in variants(sent_bytes(row))]
            if len(rows[0][1]) < len(rows[-1][1]):
                raise self._violation("two of its names differ only in text that cannot be stored")
            yield self._noted(rows)

    def _json_row(self, row: bytes) -> _Cells:
        try:
            sent = {name: bytes(value) for name, value in _OBJECT.decode(row).items()}
        except msgspec.ValidationError:
            raise self._violation(f"it is {shape_of(row)}, not an object") from None
        check_names(row, len(sent))
        values: list[Any] = [None] * len(_SENT)
        others: dict[str, object] = {}
        for name, value in sent.items():
            number = self._numbers.get(name)
            if number is None:
                others[name] = msgspec.Raw(value)
            elif value != _NULL:
                values[number] = self._read(number, value)
        return values, others

    def _csv_rows(self, text: Iterator[str]) -> Iterator[ReportRow]:
        csv.field_size_limit(_LARGEST_CELL)
        sent = _lines(text)
        start = next((line for line in sent if line.strip()), "")
        separator = _SEPARATOR_LINE.fullmatch(start)  # spreadsheets write it before the header
        header = next(sent, "") if separator else start
        try:
            delimiter = separator[1] if separator else self._separator_of(header)
            lines = filter(None, csv.reader(chain([header], sent), delimiter=delimiter, strict=True))
            names = list(map(str.strip, next(lines, [])))
            if self._numbers.keys().isdisjoint(names):
                known, shown = ", ".join(self._numbers), shortened(header)
                raise UnreadableBodyError(f"CSV whose header {shown!r} has none of the columns {known}")
            headers = _variants(names)
            if len(set(headers[0])) < len(names):
                raise ContractViolationError("the report", "two of its columns have the same name")
            for self._position, cells in enumerate(lines, start=1):
                if len(cells) != len(names):
                    problem = f"CSV whose row {self._position} has {count_of(len(cells), 'cell')}, not {len(names)}"
                    raise UnreadableBodyError(problem)
                rows = _variants(cells)
                pairs = ((headers[0], rows[0]), (headers[-1], rows[-1]))[: max(len(headers), len(rows))]
                yield self._noted([self._csv_row(header, row) for header, row in pairs])
        except csv.Error as error:
            raise UnreadableBodyError(f"a body that is not CSV ({error})") from None

    def _separator_of(self, header: str) -> str:
        """Return the separator that shows most columns of the contract; the comma where none shows more."""

        def columns(separator: str) -> int:
            try:
                return len(self._numbers.keys() & next(csv.reader([header], delimiter=separator), []))
            except csv.Error:
                return 0

        return max(_SEPARATORS, key=columns)

    def _csv_row(self, names: Sequence[str], cells: Sequence[str]) -> _Cells:
        values: list[Any] = [None] * len(_SENT)
        others: dict[str, object] = {}
        for name, cell in zip(names, cells, strict=True):
            number = self._numbers.get(name)
            if number is None:
                others[name] = _plain(cell) if cell else None
            elif cell:
                text = _plain(cell) if _SENT[number].kind is Kind.TEXT else cell
                values[number] = self._read(number, msgspec.json.encode(text))
        return values, others

    def _read(self, number: int, sent: bytes) -> Any:
        try:
            return self._readers[number](sent)
        except (ValueError, ArithmeticError):
            self._unreadable[_SENT[number].name] = text_of(sent)
            return None

    def _noted(self, variants: Sequence[_Cells]) -> ReportRow:
        """Return the first variant of a row, and note what differs in the second, and what cannot be read."""
        (values, others), *more = variants
        if (sku := values[_SKU]) is not None and MARK in sku:
            self.defects.check_key(_SENT[_SKU].name, sku, variants[-1][0][_SKU], f"row {self._position}")
        for other_values, other_others in more:
            pairs = zip(_SENT, values, other_values, strict=True)
            names = [column.name for column, value, other in pairs if value != other]
            names += ["extra"] if others != other_others else []
            self.defects.add((), {REPLACED_TEXT: {self._position - 1: dict.fromkeys(names, "")}}, page=1)
        if self._unreadable:
            self.defects.add((), {UNREADABLE_VALUES: {self._position - 1: self._unreadable}}, page=1)
            self._unreadable = {}
        if not others:
            return values, None
        if not others.keys() <= self.other_columns:
            self.other_columns.update(others)
        return values, msgspec.json.encode(others).decode()

    def _violation(self, problem: str) -> ContractViolationError:
        return ContractViolationError("the report", f"row {self._position}: {problem}")


def json_rows(text: JsonText) -> Iterator[str]:
    """Yield the JSON text of each row of an array, or of an object's array of rows."""
    if text.peek() == "[":
        yield from text.elements()
        text.end()
        return
    names: set[str] = set()
    for name in text.names():
        if name in names:
            raise UnreadableBodyError(f"an object that has the name {name!r} twice")
        names.add(name)
        if name == ROWS:
            if text.peek() != "[":
                raise ContractViolationError("the report", f"its {ROWS} is no array, but its rows should be there")
            yield from text.elements()
        elif name in ERROR_FIELDS:
            check_no_error({name: digits_kept(storable_json(sent_bytes(text.value())))})
        else:
            text.value()
    text.end()
    if ROWS not in names:
        raise ContractViolationError("the report", f"there is no {ROWS} in the answer, but its rows should be there")


def _variants(cells: Sequence[str]) -> list[Sequence[str]]:
    if all(map(str.isascii, cells)) and not any("\0" in cell for cell in cells):  # as most are
        return [cells]
    return [*variants_of_texts(list(map(sent_bytes, cells)))]


def _plain(cell: str) -> str:
    """Return the text of a cell without the apostrophe before a formula."""
    if cell[0] == "'" and cell[1:].lstrip(" ").startswith(FORMULA_STARTS):
        return cell[1:]
    return cell


def _lines(text: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a text with their line ends."""
    rest = ""
    for piece in text:
        *whole, rest = (rest + piece).split("\n")
        yield from (f"{line}\n" for line in whole)
        if len(rest) > _LARGEST_LINE:
            raise UnreadableBodyError(f"a body that is not CSV, or has a line beyond {_LARGEST_LINE >> 20} MiB")
    if rest:
        yield rest
