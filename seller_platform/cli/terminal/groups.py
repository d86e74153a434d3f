"""Groups of commands that are imported when they run: Dagster alone takes a second to import."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group that imports a command's module when the command runs, and lists its commands without."""

    def __init__(
        self, *arguments: Any, modules: Mapping[str, tuple[str, str]], package: str | None = None, **options: Any
    ) -> None:
        """Take the module of each command, where the command has its own name, and its sentence in `--help`.

        Args:
            package: Where modules are whose names begin with a dot.
        """
        super().__init__(*arguments, **options)
        self._modules, self._package = modules, package

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._modules:
            return None
        module, _ = self._modules[cmd_name]
        command = getattr(import_module(module, self._package), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # click suggests the commands that it has imported: none of ours
            raise click.NoSuchCommand(error.command_name, possibilities=self._modules, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=text) for name, (_, text) in self._modules.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self._modules.items()])
