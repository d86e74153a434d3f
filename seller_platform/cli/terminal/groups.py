"""Groups of commands whose `--help` shows the first sentence of each command as a whole."""

import click


class CommandGroup(click.Group):
    """A group whose `--help` wraps the sentences of its commands, where click cuts them."""

    group_class = type
    """Groups inside it are of this class, too."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _first_sentence(command)) for name, command in commands if command is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_sentence(command: click.Command) -> str:
    paragraph = (command.help or "").strip().split("\n\n")[0]
    return " ".join(paragraph.split())
