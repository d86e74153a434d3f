"""The command line in this process, and the check of every JSON document that a command of a test prints."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import jsonschema
import pytest
from click.testing import CliRunner, Result

from seller_platform.cli import commands
from seller_platform.cli.docs import schema_of
from seller_platform.cli.terminal.root import command_group, run

COMMANDS = tuple(commands())
COMMAND_LINE = command_group(commands())
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_RFC_3339_IN_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def invoke(command: click.Command, arguments: Sequence[str], **options: Any) -> Result:
    """Run a command in this process, and check its document."""
    result = CliRunner().invoke(command, list(arguments), **options)
    check_document(arguments, result.stdout, command)
    return result


def run_here(
    arguments: Sequence[str], variables: Mapping[str, str], *, folder: Path | None = None, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command in this process as a fresh shell would, with its exit code and the messages of its errors.

    It takes a third of the time of a forked process. Signals and the end of a process need one.
    """
    output, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        patch.dict(os.environ, variables, clear=True),
        patch.multiple(
            sys, argv=["seller-platform", *arguments], stdin=io.StringIO(typed), stdout=output, stderr=errors
        ),
        chdir(folder or Path.cwd()),
        pytest.raises(SystemExit) as ended,
    ):
        run(COMMAND_LINE)
    code = ended.value.code or 0
    assert isinstance(code, int)
    printed, said = (stream.buffer.getvalue().decode() for stream in (output, errors))
    check_document(arguments, printed)
    return subprocess.CompletedProcess(arguments, code, printed, said)


def check_document(arguments: Sequence[str], output: str, command: click.Command = COMMAND_LINE) -> None:
    """Check the document that a command has printed with `--json`, against the schema that `docs --schema` shows."""
    if "--json" not in arguments or not output:
        return
    document = json.loads(output)
    _validator(command, *_words(command, arguments)).validate(document)
    moments = [text for text in _texts(document) if _MOMENT.fullmatch(text)]
    others = [moment for moment in moments if not _RFC_3339_IN_UTC.fullmatch(moment)]
    assert not others, f"these are not RFC 3339 in UTC: {others}"


def all_commands(
    command: click.Command = COMMAND_LINE, names: tuple[str, ...] = ()
) -> Iterator[tuple[click.Command, tuple[str, ...]]]:
    """Yield each command without commands of its own, and the words of its name."""
    if not isinstance(command, click.Group):
        yield command, names
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from all_commands(below, (*names, name))


def _words(command: click.Command | None, arguments: Sequence[str]) -> Iterator[str]:
    """Yield the name of the command that is run, such as `costs` and `plan`."""
    for word in arguments:
        if isinstance(command, click.Group) and word in command.list_commands(click.Context(command)):
            yield word
            command = command.get_command(click.Context(command), word)


@cache
def _validator(command: click.Command, *words: str) -> jsonschema.Draft202012Validator:
    schema = schema_of(words, command)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
