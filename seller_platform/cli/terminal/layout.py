"""Sentences and tables that fit the width of the terminal without a value that is cut."""

from collections.abc import Collection, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Literal

from click import unstyle
from rich.cells import cell_len

from seller_platform.cli.terminal.colours import Colour, colour_of, coloured, shows_colours

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_ANY_WIDTH = 100_000
_GAP = 2
_UNBROKEN = 12  # shorter texts, such as states, are not wrapped
_HEADING = "\ue000"  # stands for a heading, which would widen the first column


def table_lines(
    names: Sequence[str],
    rows: Sequence[Sequence["str | Text"] | str],
    width: int | None,
    stream: IO[str],
    numbers: Collection[int] = (),
) -> list[str]:
    """Return the lines of a table; where its words do not fit side by side, a block of lines for each row.

    Args:
        rows: The texts of each row, or a heading of the rows after it.
        width: The cells of a line; None where lines may have any length.
        numbers: The positions of the columns that are aligned right.
    """
    from rich import box  # rich takes a tenth of a second to import, and most commands print no table
    from rich.table import Table  # as above
    from rich.text import Text  # as above

    headings = [coloured(row, Colour.HEADING, stream) for row in rows if isinstance(row, str)]
    indent = "  " if headings else ""
    room = (width or _ANY_WIDTH) - len(indent)
    table = Table(
        box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", border_style="dim"
    )
    for position, name in enumerate(names):
        texts = [name, *(str(row[position]) for row in rows if not isinstance(row, str))]
        longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
        natural = max(cell_len(line) for text in texts for line in text.split("\n"))
        least = max(longest, min(natural, _UNBROKEN))
        justify: Literal["right", "left"] = "right" if position in numbers else "left"
        table.add_column(Text(name), justify=justify, min_width=least, no_wrap=least == natural, overflow="fold")
    for row in rows:
        cells = [_HEADING] if isinstance(row, str) else row
        table.add_row(
            *(
                Text.from_ansi(coloured(each, colour_of(each), stream)) if isinstance(each, str) else each
                for each in cells
            )
        )
    lines = _fitting(new_console(room, stream), table)
    if lines is None:
        return list(_blocks(names, rows, room, stream))[:-1]
    waiting = iter(headings)
    return [next(waiting) if _HEADING in line else f"{indent}{line}" for line in lines]


def new_console(width: int, stream: IO[str]) -> "Console":
    """Return what renders for a stream, with colours where the stream shows them."""
    from rich.console import Console  # as above

    has_colours = shows_colours(stream)
    return Console(
        file=stream,
        width=width,
        force_terminal=has_colours,
        color_system="standard" if has_colours else None,
        highlight=False,
    )


def _fitting(console: "Console", table: "Table") -> list[str] | None:
    """Return the lines of a table; None if its words do not fit side by side."""
    least = sum((column.min_width or 0) + _GAP for column in table.columns) - _GAP
    if least > console.width:  # rich would leave columns out
        return None
    with console.capture() as capture:
        console.print(table, crop=False)
    lines = [line.rstrip() for line in capture.get().rstrip("\n").split("\n")]
    return lines if all(cell_len(unstyle(line)) <= console.width for line in lines) else None


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


def _blocks(
    names: Sequence[str], rows: Sequence[Sequence["str | Text"] | str], width: int, stream: IO[str]
) -> Iterator[str]:
    for row in rows:
        if isinstance(row, str):
            yield coloured(row, Colour.HEADING, stream)
            continue
        for name, text in zip(names, map(str, row), strict=True):
            label = coloured(f"{name}:", Colour.FAINT, stream)
            yield from wrapped(f"{label} {coloured(text, colour_of(text), stream)}", width)
        yield ""
