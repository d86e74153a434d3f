"""Reads CSV files of an operator strictly: lines, cells, days and numbers.

All problems of a file are collected, by line and column, and reported together.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path

from seller_platform.counts import count_of
from seller_platform.errors import SheetError

_MOST_PROBLEMS = 20
_SHOWN = 80
_NUMBER = re.compile(r"\d{1,13}(\.\d{1,20})?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@dataclass(frozen=True)
class Line:
    """The position and the cells of one line; absent cells are empty."""

    position: str
    cells: Mapping[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells.get(column, "")


@dataclass
class Problems:
    """Collects the problems of a file, up to a number that people read.

    Attributes:
        most: How many problems are collected before they are raised.
    """

    source: str
    most: int = _MOST_PROBLEMS
    lines: list[str] = field(default_factory=list)

    def add_cell(self, line: Line, column: str, problem: str) -> None:
        self.add(f"{line.position}, column {column}: {problem}")

    def add(self, problem: str) -> None:
        self.lines.append(problem)
        if len(self.lines) >= self.most:
            self.lines.append("and perhaps more")
            self.check()

    def check(self) -> None:
        """Raise the error if there is a problem."""
        if self.lines:
            raise SheetError(self.source, self.lines)


def csv_lines(path: Path, problems_of: Callable[[Sequence[str]], Sequence[str]], problems: Problems) -> Iterator[Line]:
    """Yield the lines of a CSV file in UTF-8 that are not empty.

    A line with more or fewer cells than the header is left out and added to the problems.

    Args:
        problems_of: Returns what is wrong with the columns of the header.

    Raises:
        SheetError: It cannot be read, is not CSV, or its columns are wrong.
    """
    try:
        reader = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), strict=True)
    except OSError as fault:
        raise SheetError(str(path), [f"it cannot be read: {fault.strerror or fault}"]) from fault
    except UnicodeDecodeError as fault:
        line = fault.object.count(b"\n", 0, fault.start) + 1
        raise SheetError(str(path), [f"line {line} is not UTF-8; save the file as CSV in UTF-8"]) from fault
    try:
        columns = [name.strip() for name in next(reader, [])]
        if wrong := problems_of(columns):
            raise SheetError(str(path), wrong)
        began = reader.line_num + 1
        for cells in reader:
            if any(cells):
                position = f"line {began}"
                if len(cells) == len(columns):
                    yield Line(position, dict(zip(columns, cells, strict=True)))
                else:
                    shown = ",".join(cells)[:_SHOWN]
                    problems.add(
                        f"{position}: {shown!r} has {count_of(len(cells), 'cell')} under "
                        f"{count_of(len(columns), 'column')}"
                    )
            began = reader.line_num + 1
    except csv.Error as fault:
        raise SheetError(str(path), [f"line {reader.line_num}: it is not CSV: {fault}"]) from fault


def column_problems(columns: Sequence[str], *, allowed: Sequence[str], required: Sequence[str]) -> list[str]:
    """Return what is wrong with the columns of a file or table."""
    if len(columns) == 1 and ";" in columns[0]:
        return ["its columns are separated by semicolons; separate them by commas"]
    return [
        *(f"column {name!r} is not one of {', '.join(allowed)}" for name in columns if name not in allowed),
        *(f"column {name} occurs twice" for name in sorted({name for name in columns if columns.count(name) > 1})),
        *(f"column {name} is missing" for name in required if name not in columns),
    ]


def day_in(line: Line, column: str, problems: Problems) -> date | None:
    """Return the day in a cell; None where it is none, which is added to the problems."""
    written = line[column].strip()
    try:
        if not _DAY.fullmatch(written):
            raise ValueError
        return date.fromisoformat(written)
    except ValueError:
        problems.add_cell(line, column, f"{written!r} is not a day, written as 2026-03-31")
        return None


def number_in(line: Line, column: str, problems: Problems, *, limit: Decimal, most_decimals: int) -> Decimal | None:
    """Return the number in a cell; None where it is empty, or none, which is added to the problems.

    Args:
        limit: The number must be less.
    """
    written = line[column].strip()
    if not written:
        return None
    number = Decimal(written) if _NUMBER.fullmatch(written) else None
    if number is None or number >= limit or len(written.partition(".")[2].rstrip("0")) > most_decimals:
        decimals = f" with at most {count_of(most_decimals, 'decimal')}" if most_decimals else ""
        allowed = f"a number from 0 to less than {limit}{decimals}"
        example = "1234.50" if most_decimals else "1234"
        problems.add_cell(line, column, f"{written!r} is not {allowed}, written as {example}")
        return None
    return number
