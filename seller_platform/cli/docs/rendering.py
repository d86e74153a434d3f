"""Renders a page of documentation for the width of a terminal, without cutting a value."""

import re
import sys
from collections.abc import Iterator
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.text import Text

from seller_platform.cli.terminal.layout import add_column, fitting_lines, new_console, new_table
from seller_platform.documentation import PAGES, DocumentPage

_WIDEST = 100
COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)
"""Where a generated part of a page begins or ends."""
_IMAGE = re.compile(r"^!\[([^\]]*)\]\([^)]*\)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#]*)[^)]*\)")


class _Table(TableElement):
    """A table; where its longest words do not fit side by side, one block of lines for each row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        table = new_table()
        for position, name in enumerate(names):
            add_column(table, name, [row[position] for row in rows])
        for row in rows:
            table.add_row(*row)
        if fitting_lines(new_console(options.max_width, console.file), table) is None:
            yield from self._blocks(names, rows)
        else:
            yield table

    def _blocks(self, names: list[Text], rows: list[list[Text]]) -> Iterator[Padding | Text]:
        for first, *others in rows:
            first.stylize("bold")
            yield first
            for name, value in zip(names[1:], others, strict=True):
                yield Padding(Text.assemble(name, ": ", value), (0, 0, 0, 2))
            yield Text()


class _PageMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _Table}


def rendered(page: DocumentPage, *, width: int) -> str:
    """Return a page as lines of a terminal.

    Pictures are replaced by their descriptions, and links by their texts; the last line names the linked pages.
    """
    console = new_console(min(width, _WIDEST), sys.stdout)
    text = _IMAGE.sub(r"*(Picture: \1.)*", COMMENT.sub("", page.text))
    linked = _linked_pages(page, text)
    with console.capture() as capture:
        console.print(_PageMarkdown(_LINK.sub(r"\1", text), code_theme="ansi_light", hyperlinks=False))
        if linked:
            console.print()
            console.print(f"Linked pages: {', '.join(f'seller-platform docs {name}' for name in linked)}", markup=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _linked_pages(page: DocumentPage, text: str) -> list[str]:
    """Return the names of the pages that a page links, in their order."""
    by_path = {other.path.resolve(): other.name for other in PAGES}
    paths = [(page.path.parent / target).resolve() for _, target in _LINK.findall(text) if target]
    return [name for path, name in by_path.items() if path in paths and name != page.name]
