"""Renders a page of documentation for the width of a terminal, without cutting a value."""

import re
import sys
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.text import Text

from seller_platform.cli.terminal.layout import new_console, table_lines
from seller_platform.documentation import PAGES, DocumentPage

_WIDEST = 100
COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)
"""Where a generated part of a page begins or ends."""
_IMAGE = re.compile(r"^!\[([^\]]*)\]\([^)]*\)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)#]*)[^)]*\)")


class _Table(TableElement):
    """A table in the form of all tables."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = [str(cell.content) for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        yield Text.from_ansi("\n".join(table_lines(names, rows, options.max_width, console.file)))


class _PageMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": _Table}


def rendered(page: DocumentPage, *, width: int) -> str:
    """Return a page as lines of a terminal.

    Pictures are replaced by their descriptions, and links by their texts; the last line names the linked pages.
    """
    console = new_console(min(width, _WIDEST), sys.stdout)
    text = _IMAGE.sub(r"*(Picture: \1.)*", COMMENT.sub("", page.text))
    paths = [(page.path.parent / target).resolve() for _, target in _LINK.findall(text) if target]
    linked = [each.name for each in PAGES if each.path.resolve() in paths and each.name != page.name]
    with console.capture() as capture:
        console.print(_PageMarkdown(_LINK.sub(r"\1", text), code_theme="ansi_light", hyperlinks=False))
        if linked:
            console.print()
            console.print(f"Linked pages: {', '.join(f'seller-platform docs {name}' for name in linked)}", markup=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())
