"""Prints tables and progress for people, and one JSON document for programs."""

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from seller_platform.commands import runnable
from seller_platform.errors import SellerPlatformError
from seller_platform.logs import are_json, facts

_LOG = logging.getLogger(__name__)

_FILE_WIDTH = 160


class ShowProgress(Protocol):
    """Shows in a progress bar how much is done."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


class Output:
    """Prints tables and messages of a command; with `--json`, only the document.

    A command prints both: the one that was not asked for is left out.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        # Messages go to standard error, so that a pipe receives the result alone.
        self.console = Console(stderr=True, quiet=as_json, highlight=False, soft_wrap=True)
        self._result = Console(quiet=as_json, highlight=False, width=None if sys.stdout.isatty() else _FILE_WIDTH)

    def say(self, text: str) -> None:
        """Print a message to standard error; where logs are JSON, log it."""
        if are_json() and not self.as_json:
            _LOG.info("%s", runnable(text))
        else:
            self.console.print(runnable(text), markup=False)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table; numbers are aligned right."""
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for index, name in enumerate(columns):
            is_number = any(isinstance(row[index], int | float) for row in rows)
            table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(_cell(value) for value in row))
        self._result.print(table)

    def table_by_account(self, title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
        """Print a table grouped by account.

        Args:
            columns: The keys of the rows to print after `account` and `dataset`.
        """
        lines: list[Sequence[object]] = []
        for account in dict.fromkeys(row["account"] for row in rows):
            lines.append((account, *[""] * len(columns)))
            of_account = [row for row in rows if row["account"] == account]
            lines += [(f"  {row['dataset']}", *(row[name] for name in columns)) for row in of_account]
        self.table(title, ("account, dataset", *columns), lines)

    def line(self, text: str) -> None:
        """Print a line of the result without formatting, and flush it."""
        if not self.as_json:
            click.echo(runnable(text))
            sys.stdout.flush()

    def result(self, text: str, document: Mapping[str, Any]) -> None:
        """Print a message to standard error; with `--json`, only the document."""
        self.document(document)
        self.say(text)

    def document(self, document: Mapping[str, Any]) -> None:
        """Print the JSON document, with `--json` only."""
        if self.as_json:
            click.echo(json.dumps(_runnable(document), indent=2, default=str, ensure_ascii=False))
            sys.stdout.flush()

    @contextmanager
    def progress(self, title: str, total: int | None) -> Iterator[ShowProgress]:
        """Show a bar while the block runs."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(
            *columns, TimeElapsedColumn(), console=self.console, transient=True, disable=not self.console.is_terminal
        ) as progress:
            task = progress.add_task(title, total=total)
            yield lambda done, total=None: progress.update(task, completed=done, total=total)


json_option = click.option(
    "--json",
    "output",
    is_flag=True,
    callback=lambda _context, _option, as_json: Output(as_json=as_json),
    help="Print one JSON document instead.",
)
"""Passes the command its `output`."""


def fail(error: SellerPlatformError, *, as_json: bool, document: Mapping[str, Any] | None = None) -> NoReturn:
    """Print an error with its next step, and exit with its code.

    Args:
        document: The result up to the error; with `--json` it is printed in the same document.
    """
    name, next_step = type(error).__name__, runnable(error.next_step)
    if as_json:
        failure = {"error": name, "message": str(error), "exit_code": error.exit_code, "next_step": next_step}
        click.echo(json.dumps(_runnable({**(document or {}), **failure}), indent=2, default=str, ensure_ascii=False))
    elif are_json():
        _LOG.error("%s", error, extra=facts(error=name, exit_code=error.exit_code, next_step=next_step))
    else:
        click.echo(f"error: {error}", err=True)
    sys.exit(error.exit_code)


def printable(text: str) -> str:
    """Return a text in which characters that would move a terminal's cursor are escape sequences."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _runnable(value: Any) -> Any:
    """Return a document whose messages name commands that can be run as they are printed."""
    match value:
        case str():
            return runnable(value)
        case Mapping():
            return {name: _runnable(each) for name, each in value.items()}
        case list() | tuple():
            return [_runnable(each) for each in value]
        case _:
            return value


def _cell(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.1f}"
        case _:
            # Titles may contain brackets, which rich would read as markup.
            return str(value).replace("[", "\\[")
