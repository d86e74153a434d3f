"""Tables for a terminal, without a value that is cut."""

from collections.abc import Collection, Sequence
from typing import IO

from rich.cells import cell_len

from seller_platform.cli.terminal.colours import Colour, coloured, shows_colours

_GAP = 2
_HEADING = "\ue000"  # stands for a heading, which would widen the first column


def table_lines(
    names: Sequence[str],
    rows: Sequence[Sequence[str] | str],
    width: int | None,
    stream: IO[str],
    numbers: Collection[int] = (),
) -> list[str]:
    """Return the lines of a table, wider than the terminal where the words do not fit side by side.

    Args:
        rows: The texts of each row, or a heading of the rows after it.
        width: The cells of a line; None where lines may have any length.
        numbers: The positions of the columns that are aligned right.
    """
    from rich import box  # rich takes a tenth of a second to import, and most commands print no table
    from rich.console import Console  # as above
    from rich.table import Table  # as above
    from rich.text import Text  # as above

    headings = [coloured(row, Colour.HEADING, stream) for row in rows if isinstance(row, str)]
    indent, needed = "  " if headings else "", 0
    table = Table(
        box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", border_style="dim"
    )
    for position, name in enumerate(names):
        texts = [name, *(row[position] for row in rows if not isinstance(row, str))]
        longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
        needed += longest + _GAP
        table.add_column(Text(name), justify="right" if position in numbers else "left", min_width=longest)
    for row in rows:
        cells = [_HEADING] if isinstance(row, str) else row
        table.add_row(*map(Text, cells))
    has_colours = shows_colours(stream)
    console = Console(
        file=stream,
        width=max((width or 100_000) - len(indent), needed),
        force_terminal=has_colours,
        color_system="standard" if has_colours else None,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(table, crop=False)
    lines, waiting = capture.get().rstrip("\n").split("\n"), iter(headings)
    return [next(waiting) if _HEADING in line else f"{indent}{line}".rstrip() for line in lines]
