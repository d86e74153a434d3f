"""`seller-platform query`: rows of a SELECT, as a table, CSV or JSON."""

import csv
import json
import re
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import click

from seller_platform.cli.installation import expect_home
from seller_platform.cli.output import Output, json_option, printable
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.reading import open_stored
from seller_platform.warehouse.readers.statements import Result, ResultColumn, open_result, statement_error
from seller_platform.warehouse.schema.readers import reader_url

_INTEGERS = ("int2", "int4", "int8", "oid")
_FLOATS = ("float4", "float8")
_NUMBERS = (*_INTEGERS, *_FLOATS, "numeric")


def _no_option(_: click.Context, __: click.Parameter, statement: str | None) -> str | None:
    """Refuse a mistyped option; a statement may begin with a comment, which has the form of one, and has blanks."""
    if statement and re.fullmatch(r"--\w\S*", statement):
        raise click.NoSuchOption(statement)
    return statement


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("statement", required=False, callback=_no_option)
@click.option(
    "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Read the statement from a file."
)
@click.option(
    "--csv", "as_csv", is_flag=True, help='Print every row as CSV. NULL is an empty field, an empty text is "".'
)
@json_option(list[dict[str, Any]], help="Print every row as JSON, in one array of objects.")
@click.option(
    "--rows", "limit", default=1_000, show_default=True, type=click.IntRange(1), help="The most rows of the table."
)
@click.option(
    "--timeout",
    "seconds",
    default=300.0,
    show_default=True,
    type=click.FloatRange(0.001, 86_400),
    help="Seconds that PostgreSQL may work on the first rows, and on each further block.",
)
def query(
    *, statement: str | None, file: Path | None, as_csv: bool, output: Output, limit: int, seconds: float
) -> None:
    """Run a SELECT on the warehouse, and print its rows.

    STATEMENT is SQL, or - for standard input. It logs in as a reader of `seller-platform database reader`, who reads
    the schemas seller, history and marts, and of platform the receipts. It changes nothing. Times are in UTC.

    \b
    seller-platform query "SELECT account, count(*) FROM seller.orders GROUP BY 1"
    seller-platform query --csv - < orders.sql > orders.csv
    """  # noqa: D301  # click reads the backspace, which keeps the lines of a paragraph apart
    if as_csv and output.as_json:
        raise click.UsageError("--csv and --json are two forms of the output; give one of them")
    settings, text = expect_home(), _text(statement, file)
    with (
        open_stored(settings) as database,
        open_result(reader_url(database, settings), text, seconds=seconds) as result,
    ):
        if as_csv:  # PostgreSQL's CSV: RFC 4180, with NULL and the empty text apart
            csv.writer(sys.stdout, lineterminator="\n").writerow(result.names)
            for block in result.blocks:
                sys.stdout.writelines(f"{','.join(map(_csv_cell, row))}\n" for row in block)
        elif output.as_json:
            _print_json(result)
        else:
            rows = list(islice((row for block in result.blocks for row in block), limit + 1))
            shown = [["–" if cell is None else printable(cell) for cell in row] for row in rows[:limit]]
            numbers = {index for index, column in enumerate(result.columns) if column.kind in _NUMBERS}
            if not result.columns:
                raise statement_error("the statement returns no columns")
            output.cells("", list(map(printable, result.names)), shown, numbers)
            count = count_of(len(shown), "row")
            more = "There are more: `--rows` shows more of them, `--csv` and `--json` print all."
            output.say(f"{count}." if len(rows) <= limit else f"The first {count}. {more}")


def _text(statement: str | None, file: Path | None) -> str:
    if (statement is None) == (file is None):
        raise click.UsageError('give a statement, such as "SELECT * FROM seller.accounts", or --file')
    if file is None and statement != "-":
        content = str(statement).encode(errors="surrogateescape")  # as the shell sent it
    else:
        content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"the statement is not UTF-8 (byte {error.start + 1}); save it as UTF-8") from None
    if "\0" in text:
        raise RequestError("the statement holds a NUL character, which PostgreSQL does not read; leave it out")
    return text


def _csv_cell(value: str | None) -> str:
    if value is None:
        return ""
    if value and not any(letter in value for letter in ',"\r\n') and value == value.strip():
        return value
    return '"' + value.replace('"', '""') + '"'


def _print_json(result: Result) -> None:
    keys = [json.dumps(name, ensure_ascii=False) for name in result.names]
    start = "[\n"
    for block in result.blocks:
        for row in block:
            cells = (
                f"{key}: {_json_cell(column, value)}"
                for key, column, value in zip(keys, result.columns, row, strict=True)
            )
            sys.stdout.write(f"{start}{{{', '.join(cells)}}}")
            start = ",\n"
    sys.stdout.write("[]\n" if start == "[\n" else "\n]\n")


def _json_cell(column: ResultColumn, value: str | None) -> str:
    """Return a value as JSON. A numeric is a text, because readers of JSON would round it."""
    if value is None:
        return "null"
    if column.kind == "bool":
        return "true" if value == "t" else "false"
    is_finite = value not in ("NaN", "Infinity", "-Infinity")
    if column.kind in ("json", "jsonb", *_INTEGERS) or (column.kind in _FLOATS and is_finite):
        return value
    if column.kind in ("timestamp", "timestamptz") and value[:1].isdigit():
        value = re.sub(r"\+00$", "Z", value.replace(" ", "T", 1))
    return json.dumps(value, ensure_ascii=False)
