"""Tests that the commands in the documents exist, with their arguments and options."""

import inspect
from collections.abc import Sequence

import click
import pytest

from seller_platform import errors
from seller_platform.errors import SellerPlatformError
from seller_platform_tests.documents.markdown import Document, commands_of, documents, others
from seller_platform_tests.support.command_line import COMMAND_LINE

_TYPED = [(document.name, line) for document in documents() for line in document.lines]
_HELP = ("--help", "--version")


def _problem(words: Sequence[str], *, is_whole: bool) -> str | None:
    """Return why click does not accept a command, if it does not.

    Args:
        is_whole: Whether its required arguments must be there.
    """
    command: click.Command = COMMAND_LINE
    context = click.Context(command, info_name="seller-platform")
    rest = [word for word in words[1:] if word != "--demo"]  # every command takes it, before and after its name
    while isinstance(command, click.Group) and rest and rest[0] not in _HELP:
        below = command.get_command(context, rest[0])
        if below is None:
            return f"there is no command {rest[0]!r} in {context.command_path!r}"
        context = click.Context(below, info_name=rest.pop(0), parent=context)
        command = below
    if isinstance(command, click.Group):
        return "a command of the group is missing" if is_whole and not set(rest) & set(_HELP) else None
    try:
        values, _, _ = command.make_parser(context).parse_args([word.strip("[]") for word in rest])
    except click.UsageError as error:
        return error.format_message()
    if set(rest) & set(_HELP) or not is_whole:
        return None
    missing = [param.name for param in command.params if param.required and not values.get(param.name or "")]
    return f"these are missing: {missing}" if missing else None


@pytest.mark.parametrize(("page", "line"), _TYPED, ids=[f"{page}: {line}" for page, line in _TYPED])
def test_every_command_that_a_reader_types_is_accepted(page: str, line: str) -> None:
    ours = [words for words in commands_of(line) if words[0] == "seller-platform"]

    assert [problem for words in ours if (problem := _problem(words, is_whole=True))] == []


@pytest.mark.parametrize("document", [*documents(), *others()], ids=lambda document: document.name)
def test_every_command_that_the_prose_names_exists(document: Document) -> None:
    named = [words for words in document.mentioned_commands if words[1] != "COMMAND"]

    problems = {" ".join(words): _problem(words, is_whole=False) for words in named}

    assert {command: problem for command, problem in problems.items() if problem} == {}


def test_every_error_says_what_it_means_and_what_to_do_next() -> None:
    for name, error in inspect.getmembers(errors, inspect.isclass):
        if issubclass(error, SellerPlatformError):
            assert error.__doc__, name
            assert error.__doc__.strip().endswith("."), name
            assert error.next_step.endswith("."), name
            assert error.exit_code in range(1, 6), name
            # An error without subclasses needs a next step of its own, or that of an error within its category.
            is_category = bool(error.__subclasses__())
            assert is_category or "next_step" in vars(error) or len(error.__mro__) > 6, name
