"""Tests the list of commands in the help of a group."""

from collections.abc import Iterator

import click
import pytest

from seller_platform_tests.support.command_line import COMMAND_LINE, invoke


def groups(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Group]]:
    if isinstance(command, click.Group):
        yield " ".join(path), command
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from groups(inner, (*path, name))


@pytest.mark.parametrize("group", [pytest.param(group, id=path) for path, group in groups(COMMAND_LINE) if path])
def test_the_help_of_a_group_cuts_no_sentence(group: click.Group) -> None:
    shown = invoke(group, ["--help"], env={"COLUMNS": "80"}).output

    assert "..." not in shown.partition("Commands:")[2]
    assert all(len(line) <= 80 for line in shown.splitlines())
