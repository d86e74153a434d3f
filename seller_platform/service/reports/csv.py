"""Writes rows as CSV (RFC 4180, UTF-8) without cells that a spreadsheet runs as formulas.

Values are written as in JSON; null is an empty cell. A text that a spreadsheet would run as a formula gets an
apostrophe before it, which spreadsheets do not show. Numbers are not changed, even negative ones.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

import anyio.to_thread

from seller_platform.contract.wire import FORMULA_STARTS


def csv_lines(columns: Sequence[str], chunk: bytes) -> bytes:
    """Return the lines of rows.

    Args:
        chunk: The rows as JSON objects with commas between.
    """
    rows: list[Mapping[str, object]] = json.loads(b"[%b]" % chunk, parse_float=_Number, parse_int=_Number)
    return _lines([_cell(row.get(column)) for column in columns] for row in rows)


async def csv_parts(columns: Sequence[str], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the first line, then the lines of each chunk, which a thread writes.

    Args:
        columns: The first columns; fields that the first row has beside them follow.
    """
    is_first = True
    async for chunk in chunks:
        if is_first:
            first_row = json.JSONDecoder().raw_decode(chunk.decode())[0]
            columns = [*dict.fromkeys((*columns, *first_row))]
            yield _lines([columns])
            is_first = False
        yield await anyio.to_thread.run_sync(csv_lines, columns, chunk)
    if is_first:
        yield _lines([columns])


class _Number(str):
    """A number in the digits in which it was written."""

    __slots__ = ()


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case _Number():
            return value
        case str():
            return f"'{value}" if value.lstrip(" ").startswith(FORMULA_STARTS) else value
        case _:
            return json.dumps(value, ensure_ascii=False)
