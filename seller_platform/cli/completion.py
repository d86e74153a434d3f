"""`seller-platform completion`, and the names of datasets, accounts and marts that a shell completes."""

import io
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, suppress
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, get_completion_class

from seller_platform.commands import DEMO
from seller_platform.errors import SellerPlatformError

COMPLETE = "_SELLER_PLATFORM_COMPLETE"
"""The variable by which the script of a shell asks for completions."""

_PROGRAM = "seller-platform"

Names = Iterator[tuple[str, str | None]]
"""Names, each with the sentence that zsh and fish show beside it."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    r"""Print the script by which a shell completes commands, options and names.

    \b
    bash: cd ~/.local/share/bash-completion/completions
          seller-platform completion bash >seller-platform
    zsh:  seller-platform completion zsh >"${fpath[1]}/_seller-platform"
    fish: cd ~/.config/fish/completions
          seller-platform completion fish >seller-platform.fish

    The next shell that you open completes with Tab. An account is completed by its key and by its title.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, _PROGRAM, COMPLETE).source())


def answer_shell(program: click.Group) -> NoReturn:
    """Print what the script of a shell asks for, and exit."""
    shell, _, _ = os.environ[COMPLETE].partition("_")
    kind = get_completion_class(shell)
    if kind is None:
        sys.exit(f"{COMPLETE} is {os.environ[COMPLETE]}; run `seller-platform completion bash`, or zsh, or fish")
    completer = kind(program, {}, _PROGRAM, COMPLETE)
    # What a command writes there would appear in the line that a person is typing.
    with redirect_stderr(io.StringIO()):
        words, _ = completer.get_completion_args()
        if "--demo" in words or os.environ.get(DEMO):
            from seller_platform.cli.installation import use_demo  # the completion of commands does not need it

            with suppress(SellerPlatformError):
                use_demo(os.environ)
        complete_names(program, words)
        click.echo(completer.complete())
    sys.exit(0)


def complete_names(program: click.Group, words: Sequence[str]) -> None:
    """Let the command in these words complete names of datasets, accounts and marts.

    The commands of `service` are left out: they are about the accounts of the service's database.
    """
    command: click.Command = program
    for word in words:
        if word == "service" or not isinstance(command, click.Group):
            return
        inner = command.get_command(click.Context(command), word)
        if inner is not None:
            command = inner
            _complete_parameters(command)


def _complete_parameters(command: click.Command) -> None:
    for parameter in command.params:
        # An option is known by what a person types, an argument by its only name.
        name = max(parameter.opts, key=len).lstrip("-").removesuffix("s")
        if name in _NAMES and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = _Name(_NAMES[name])


class _Name(click.ParamType[str]):
    name = "text"

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  # click's signature
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002  # click's signature
        # The line is not run: what stands in the way of names is reported by the command itself.
        with suppress(SellerPlatformError):
            return [
                CompletionItem(_as_word(name), help=sentence)
                for name, sentence in self._names()
                if name.casefold().startswith(incomplete.casefold())
            ]
        return []


def _as_word(name: str) -> str:
    """Return a name as the script of the shell takes it; those of zsh and fish quote it themselves."""
    if not os.environ[COMPLETE].startswith("bash"):
        return name
    # Two backslashes: the script's `read` removes one, and the other quotes the character on the line.
    return re.sub(r"([^\w@%+=:,./-])", r"\\\\\1", name)


def _datasets() -> Names:
    # Imported here because the completion of commands does not need it.
    from seller_platform.contract import REFRESHED

    for dataset in REFRESHED:
        yield dataset.name, dataset.doc


def _accounts() -> Names:
    # Imported here because the completion of commands needs no database.
    from seller_platform.settings import read_settings
    from seller_platform.warehouse.connections.accounts import accounts
    from seller_platform.warehouse.postgres.database import Database
    from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, warehouse_url

    settings = read_settings()
    if settings.database_url is None and not (settings.home / EMBEDDED_FOLDER).is_dir():
        return
    with Database(warehouse_url(settings)) as database:
        listed = accounts(database)
    titles = Counter(each.account.title for each in listed)
    for each in listed:
        yield each.key, each.account.title
        if titles[each.account.title] == 1:
            yield each.account.title, each.key


def _marts() -> Names:
    # Imported here because the completion of commands does not need it.
    from seller_platform.warehouse.marts import MARTS

    for mart in MARTS:
        yield mart.name, mart.doc


_NAMES = {"account": _accounts, "dataset": _datasets, "mart": _marts}
