"""Reads the CSV of reports as pages of JSON, which the decoder of lists reads as every other page.

CSV follows RFC 4180 and has a header, which shows its separator. It has no types: all cells are texts, and an empty one
is null.
"""

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

from seller_platform.client.http.characters import sent_bytes
from seller_platform.client.http.responses import shortened
from seller_platform.contract.datasets.reports import REPORT_ROWS
from seller_platform.contract.reports import FORMULA_STARTS
from seller_platform.contract.wire import ROWS
from seller_platform.counts import count_of
from seller_platform.errors import ContractViolationError, UnreadableBodyError

PAGE_ROWS = 500
_LARGEST_CELL = 1 << 20
_LARGEST_LINE = 16 << 20
_SEPARATORS = ",;\t|"
_ESCAPE = re.compile(f"^'(?= *({'|'.join(map(re.escape, FORMULA_STARTS))}))")
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\s*", re.IGNORECASE)

ROWS_OF_ONE_REPORT = replace(REPORT_ROWS, columns=REPORT_ROWS.columns[2:])
"""The rows as upstreams send them: without the number of the report, and without their position in it."""

_COLUMNS = {name: None for column in ROWS_OF_ONE_REPORT.columns for name in (column.name, *column.aliases)}
"""The names of the contract's columns, in their order."""


def csv_pages(text: Iterator[str]) -> Iterator[bytes]:
    """Yield the rows of CSV as bodies of pages in JSON.

    Raises:
        ContractViolationError: Two columns have the same name.
        UnreadableBodyError: The text is no CSV, has no column of the contract, or was cut.
    """
    csv.field_size_limit(_LARGEST_CELL)
    sent = _lines(text)
    start = next((line for line in sent if line.strip()), "")
    separator = _SEPARATOR_LINE.fullmatch(start)  # spreadsheets write it before the header
    header = next(sent, "") if separator else start
    try:
        by_separator = {each: next(csv.reader([header], delimiter=each), []) for each in _SEPARATORS}
        most = max(_SEPARATORS, key=lambda each: len(_COLUMNS.keys() & by_separator[each]))
        delimiter = separator[1] if separator else most
        lines = filter(None, csv.reader(chain([header], sent), delimiter=delimiter, strict=True))
        names = list(map(str.strip, next(lines, [])))
        if _COLUMNS.keys().isdisjoint(names):
            columns, shown = ", ".join(_COLUMNS), shortened(header)
            raise UnreadableBodyError(f"CSV whose header {shown!r} has none of the columns {columns}")
        if len(set(names)) < len(names):
            raise ContractViolationError("the report", "two of its columns have the same name")
        rows = (_row(names, cells, number) for number, cells in enumerate(lines, start=1))
        while page := list(islice(rows, PAGE_ROWS)):
            yield sent_bytes(json.dumps({ROWS: page}, ensure_ascii=False))
    except csv.Error as error:
        raise UnreadableBodyError(f"a body that is not CSV ({error})") from None


def _row(names: list[str], cells: list[str], number: int) -> dict[str, str | None]:
    """Return the cells by the names of their columns, without the apostrophes before formulas."""
    if len(cells) != len(names):
        raise UnreadableBodyError(f"CSV whose row {number} has {count_of(len(cells), 'cell')}, not {len(names)}")
    return {name: _ESCAPE.sub("", cell) or None for name, cell in zip(names, cells, strict=True)}


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
