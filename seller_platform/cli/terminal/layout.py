"""Tables that fit the width of the terminal without a value that is cut.

A table that is too wide is changed in this order, until it fits:

1. Texts of several words are wrapped.
2. Columns that are not essential are left out, and named below the table.
3. Each row becomes a block with one value on a line.

A single word that is longer than the terminal, such as a URL, is printed whole; the terminal continues it on the next
line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from click import unstyle
from rich.cells import cell_len

from seller_platform.cli.terminal.colours import Colour, colour_of

_GAP = "  "
_RULE = "─"
_NARROWEST = 20  # shorter texts, such as moments, are not wrapped

Paint = Callable[[str, Colour | None], str]
"""Returns a text in a colour."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table.

    Attributes:
        rank: How much the column matters. A narrow terminal leaves out the column with the lowest rank first. Columns
            without a rank are essential.
    """

    name: str
    rank: int | None = None


@dataclass(frozen=True)
class _Grid:
    """The texts of a table, and the positions of the columns that are shown."""

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str] | str]
    numbers: frozenset[int]
    shown: tuple[int, ...]

    def cells(self, position: int) -> Iterator[str]:
        yield self.columns[position].name
        yield from (row[position] for row in self.rows if not isinstance(row, str))


def table_lines(
    columns: Sequence[str | TableColumn], rows: Sequence[Sequence[object] | str], width: int | None, paint: Paint
) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        rows: The values of each row, or a heading of the rows after it.
        width: The cells of a line; None where lines may have any length.
    """
    declared = [column if isinstance(column, TableColumn) else TableColumn(column) for column in columns]
    values = [row for row in rows if not isinstance(row, str)]
    numbers = frozenset(
        position for position in range(len(declared)) if any(isinstance(row[position], int | float) for row in values)
    )
    texts = [row if isinstance(row, str) else [_text(value) for value in row] for row in rows]
    grid = _Grid(declared, texts, numbers, tuple(range(len(declared))))
    while (widths := _widths(grid, width)) is None:
        ranked = [position for position in grid.shown if declared[position].rank is not None]
        if not ranked:
            yield from _blocks(grid, width or 0, paint)
            break
        least = min(ranked, key=lambda position: (declared[position].rank or 0, -position))
        grid = _Grid(declared, texts, numbers, tuple(each for each in grid.shown if each != least))
    else:
        yield from _lines(grid, widths, paint)
    left_out = [column.name for position, column in enumerate(declared) if position not in grid.shown]
    if left_out:
        names = ", ".join(left_out)
        text = f"Left out, because the terminal is narrow: {names}. --json has all columns."
        yield from (paint(line, Colour.FAINT) for line in wrapped(text, width or 0))


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most this width, broken at spaces; a longer word has a line of its own.

    The codes of colours take no width.
    """
    lines: list[str] = []
    if "\n" not in text and cell_len(text) <= width:
        return [text]
    for paragraph in text.split("\n"):
        line, *words = paragraph.split(" ")
        for word in words:
            if line.strip() and cell_len(unstyle(f"{line} {word}")) > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}"
        lines.append(line)
    return lines


def _widths(grid: _Grid, width: int | None) -> dict[int, int] | None:
    """Return the width of each column that is shown; None if they do not fit."""
    natural = {
        position: max(cell_len(line) for cell in grid.cells(position) for line in cell.split("\n"))
        for position in grid.shown
    }
    room = None if width is None else width - len(_GAP) * (len(grid.shown) - 1)
    if room is None or sum(natural.values()) <= room:
        return natural
    least = {
        position: max(
            min(natural[position], _NARROWEST),
            *map(_least, grid.cells(position)),
        )
        for position in grid.shown
    }
    return shared_widths(least, natural, room)


def shared_widths(least: Mapping[int, int], natural: Mapping[int, int], room: int) -> dict[int, int] | None:
    """Return the width of each column in the room of all; None if their least widths do not fit."""
    spare = room - sum(least.values())
    if spare < 0:
        return None
    widths = dict(least)
    by_need = sorted(least, key=lambda position: natural[position] - least[position])
    for number, position in enumerate(by_need):
        given = min(natural[position] - least[position], spare // (len(by_need) - number))
        widths[position] += given
        spare -= given
    return widths


def _least(cell: str) -> int:
    """Return the narrowest width of a cell: its longest word, and the spaces before its text."""
    before = len(cell) - len(cell.lstrip())
    return before + max(map(cell_len, cell.split()), default=0)


def _lines(grid: _Grid, widths: dict[int, int], paint: Paint) -> Iterator[str]:
    heads = [_aligned(grid.columns[each].name, widths[each], right=each in grid.numbers) for each in grid.shown]
    yield paint(_GAP.join(heads).rstrip(), Colour.HEADING)
    yield paint(_GAP.join(_RULE * widths[each] for each in grid.shown), Colour.FAINT)
    for row in grid.rows:
        if isinstance(row, str):
            yield paint(row, Colour.HEADING)
            continue
        cells = {each: wrapped(row[each], widths[each]) for each in grid.shown}
        for number in range(max(map(len, cells.values()), default=0)):
            parts = []
            for each in grid.shown:
                text = cells[each][number] if number < len(cells[each]) else ""
                aligned = _aligned(text, widths[each], right=each in grid.numbers)
                colour = colour_of(row[each])
                parts.append(aligned.replace(text, paint(text, colour), 1) if colour and text else aligned)
            yield _GAP.join(parts).rstrip()


def _blocks(grid: _Grid, width: int, paint: Paint) -> Iterator[str]:
    names = max(cell_len(grid.columns[each].name) for each in grid.shown)
    for number, row in enumerate(grid.rows):
        if number and not isinstance(row, str):
            yield ""
        if isinstance(row, str):
            yield paint(row, Colour.HEADING)
            continue
        for each in grid.shown:
            name, text = grid.columns[each].name, row[each].strip()
            room = max(width - names - len(_GAP), 1)
            lines = wrapped(text, room)
            label = paint(_aligned(name, names, right=False), Colour.FAINT)
            if any(cell_len(line) > room for line in lines):
                yield paint(name, Colour.FAINT)
                lines = wrapped(text, width)
                yield from (paint(line, colour_of(text)) for line in lines)
                continue
            yield f"{label}{_GAP}{paint(lines[0], colour_of(text))}".rstrip()
            yield from (f"{' ' * names}{_GAP}{line}" for line in lines[1:])


def _aligned(text: str, width: int, *, right: bool) -> str:
    space = " " * max(0, width - cell_len(text))
    return f"{space}{text}" if right else f"{text}{space}"


def _text(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case _:
            return str(value)
