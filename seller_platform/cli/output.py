"""Prints tables and messages for people, and one JSON document for programs."""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import IO, Annotated, Any, NoReturn, TypeVar

import click
import msgspec

from seller_platform.cli.terminal.colours import Colour, coloured
from seller_platform.cli.terminal.layout import table_lines
from seller_platform.cli.terminal.progress import Step, hidden, progress
from seller_platform.commands import runnable
from seller_platform.errors import SellerPlatformError
from seller_platform.logs import are_json, facts

_LOG = logging.getLogger(__name__)
_Record = TypeVar("_Record", bound=msgspec.Struct)


Moment = Annotated[
    datetime, msgspec.Meta(tz=True, extra_json_schema={"description": "A moment of RFC 3339, in UTC.", "pattern": "Z$"})
]
"""A moment in a document; every moment is printed in this form, also one in a row."""

MonthText = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d{2}$", description="A month, as 2026-03.")]
"""A month in a document."""


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A JSON object that a command prints with `--json`. Its attributes are its keys, and each key is always there."""


class Outcome(Document, frozen=True):
    """A document that a command prints also if it fails, then with the keys of the failure beside its own."""


class CommandFailure(Document, frozen=True):
    """Why a command failed, and what to do next."""

    error: str
    message: str
    exit_code: int
    next_step: str


class DoneDocument(Document, frozen=True):
    """What a command has done, in a sentence."""

    message: str


class Counted(msgspec.Struct, frozen=True):
    """How many rows something has, as a record of a table."""

    name: str
    rows: int


class Output:
    """Prints tables and messages of a command; with `--json`, only the document.

    A command prints both: the one that was not asked for is left out.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def say(self, text: str) -> None:
        """Print a message to standard error; where logs are JSON, log it. A pipe receives the result alone."""
        if not self.as_json:
            note(runnable(text))

    def table(
        self,
        title: str,
        records: Iterable[_Record],
        columns: Sequence[str],
        heading: Callable[[_Record], str] | None = None,
    ) -> None:
        """Print a table of records that fits the terminal.

        Args:
            columns: The fields to print, in this order; a column has the name that the field has in a document.
            heading: Returns the heading below which a record stands.
        """
        if self.as_json:
            return
        names: dict[str, str] = {}
        numbers = set[int]()
        groups: dict[str | None, list[list[str]]] = {}
        for record in records:
            names = names or {each.name: each.encode_name for each in msgspec.structs.fields(record)}
            values = [(names[column], getattr(record, column)) for column in columns]
            numbers |= {position for position, (_, value) in enumerate(values) if isinstance(value, int | float)}
            group = groups.setdefault(printable(heading(record)) if heading else None, [])
            group.append([_cell(name, value) for name, value in values])
        heads = [names.get(column, column) for column in columns]
        rows: list[Sequence[str] | str] = []
        for text, group in groups.items():
            rows += [*([] if text is None else [text]), *group]
        self.cells(title, [name.replace("_", " ") for name in heads], rows, numbers)

    def cells(
        self, title: str, names: Sequence[str], rows: Sequence[Sequence[str] | str], numbers: Collection[int]
    ) -> None:
        """Print a table of texts, as `table_lines` takes them."""
        self.heading(title)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        lines = table_lines(names, rows, width, sys.stdout, numbers)
        _write("\n".join([*lines, ""]), sys.stdout)

    def heading(self, text: str) -> None:
        """Print the title of what follows."""
        if text and not self.as_json:
            _write(coloured(printable(text), Colour.HEADING, sys.stdout), sys.stdout)

    def line(self, text: str) -> None:
        """Print a line of the result, and flush it."""
        if not self.as_json:
            _write(runnable(text), sys.stdout)

    def result(self, text: str, document: msgspec.Struct) -> None:
        """Print a message to standard error or, with `--json`, the document to standard output."""
        self.document(document)
        self.say(text)

    def done(self, text: str) -> None:
        """Print what the command has done to standard error; with `--json`, as its document."""
        self.result(text, DoneDocument(message=text))

    def document(self, document: msgspec.Struct) -> None:
        """Print the JSON document, with `--json` only."""
        if self.as_json:
            _write_json(document)

    def outcome(self, document: Outcome, error: SellerPlatformError | None) -> None:
        """Print the JSON document, with `--json` only; end with the error, if there is one."""
        if error is not None:
            fail(error, as_json=self.as_json, document=document)
        self.document(document)

    def progress(self, title: str, total: int | None = None) -> AbstractContextManager[Step]:
        """Say in the terminal what is being done while the block runs, and how much of it is done."""
        return progress(title, total)


class JsonOption(click.Option):
    """The option `--json`, with the documents of which the command prints one."""

    def __init__(self, param_decls: Sequence[str], *, documents: Sequence[Any], **options: Any) -> None:
        super().__init__(param_decls, **options)
        self.documents = documents


fail_on_option = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    help="Which problems end the command with an exit code, by default errors; those that are acknowledged never do.",
)


def json_option(
    *documents: Any, help: str = "Print one JSON document instead."
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add `--json`, which passes the command its `output`.

    Args:
        documents: The types of what the command prints; `seller-platform docs --schema` shows their JSON Schema.
    """
    return click.option(
        "--json",
        "output",
        cls=JsonOption,
        documents=documents,
        is_flag=True,
        callback=lambda _context, _option, as_json: Output(as_json=as_json),
        help=help,
    )


def fail(error: SellerPlatformError, *, as_json: bool, document: Outcome | None = None) -> NoReturn:
    """Print an error with its next step, and exit with its code.

    Args:
        document: The result up to the error; with `--json` it is printed in the same document.
    """
    name, next_step = error.code, runnable(error.next_step)
    if as_json:
        failure = CommandFailure(error=name, message=str(error), exit_code=error.exit_code, next_step=next_step)
        _write_json(*([failure] if document is None else [document, failure]))
    elif are_json():
        _LOG.error("%s", error, extra=facts(error=name, exit_code=error.exit_code, next_step=next_step))
    else:
        _write(f"{coloured('error:', Colour.ERROR, sys.stderr)} {error}", sys.stderr)
    sys.exit(error.exit_code)


def note(text: str) -> None:
    """Print a message about the installation to standard error, also with `--json`."""
    if are_json():
        _LOG.info("%s", text)
    else:
        _write(text, sys.stderr)


def with_title(account: str, titles: Mapping[str, str]) -> str:
    """Return an account as people read it: its title, and its key in brackets."""
    title = titles.get(account)
    return f"{title} ({account})" if title and title != account else account


def moment_text(moment: datetime) -> str:
    """Return a moment as people read it, in UTC to the second."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def printable(text: str) -> str:
    """Return a text in which characters that would move a terminal's cursor are escape sequences."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _write_json(*documents: msgspec.Struct) -> None:
    """Write the keys of all documents as one JSON object."""
    parts = [msgspec.to_builtins(document, builtin_types=(datetime, bytes, Decimal)) for document in documents]
    whole = {name: _as_printed(value) for part in parts for name, value in part.items()}
    # Decimals are the only values that JSON does not have.
    _write(json.dumps(whole, indent=2, ensure_ascii=False, default="{:f}".format), sys.stdout)


def _as_printed(value: Any) -> Any:
    """Return a value whose moments have one form, and whose messages name commands that can be run as they are."""
    match value:
        case str():
            return runnable(value)
        case bytes():
            return value.hex()
        case datetime():
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case Mapping():
            return {name: _as_printed(each) for name, each in value.items()}
        case list() | tuple():
            return [_as_printed(each) for each in value]
        case _:
            return value


def _cell(name: str, value: object) -> str:
    """Return a value of a field as people read it."""
    match value:
        case bool():
            text = "yes" if value else "no"
        case int():
            text = str(value) if name.endswith(("_id", "number")) else f"{value:,}"
        case float():
            text = f"{value:,.1f}"
        case datetime():
            text = moment_text(value)
        case Enum():
            text = str(value.value)
        case list():
            text = ", ".join(_cell(name, each) for each in value)
        case dict():
            text = ", ".join(f"{key}: {_cell(key, each)}" for key, each in value.items())
        case msgspec.Struct():
            text = " -> ".join(map(str, msgspec.structs.astuple(value)))
        case _:
            text = "" if value is None else printable(str(value))
    return text or "–"


def _write(text: str, stream: IO[str]) -> None:
    """Write a line, in place of the progress. Colours are in the text where the stream shows them."""
    stream = getattr(stream, "rich_proxied_file", stream)  # the progress replaces standard error
    with hidden():
        click.echo(text, file=stream, color=True)
        stream.flush()
