"""The command line in this process, and the check of every JSON document that a command of a test prints."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import click
import jsonschema
from click.testing import CliRunner, Result

from seller_platform.cli import _COMMANDS
from seller_platform.cli.docs.command import schema_of
from seller_platform.cli.terminal.root import command_group

COMMANDS = tuple(_COMMANDS)
COMMAND_LINE = command_group(_COMMANDS)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*")
_RFC_3339_IN_UTC = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def invoke(command: click.Command, arguments: Sequence[str], **options: Any) -> Result:
    """Run a command in this process, and check its document."""
    result = CliRunner().invoke(command, list(arguments), **options)
    check_document(arguments, result.stdout, command)
    return result


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
