"""The group of all commands, and how their errors end."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from seller_platform import __version__, interruption
from seller_platform.cli.completion import COMPLETE, complete_names
from seller_platform.cli.output import fail
from seller_platform.cli.terminal.foreseen import foreseen_error
from seller_platform.commands import use_start
from seller_platform.errors import InvalidSettingError, RequestError, SellerPlatformError
from seller_platform.logs import write_json_logs
from seller_platform.settings import read_settings
from seller_platform.traces import send_traces

_LOG = logging.getLogger(__name__)


class _Commands(click.Group):
    def __init__(self, table: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(**options)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in self._table:
            return None
        module, _ = self._table[cmd_name]
        command = getattr(import_module(f"seller_platform.cli.{module}"), cmd_name)
        assert isinstance(command, click.Command)
        if COMPLETE in os.environ:
            complete_names(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:  # click suggests the commands that it has imported: none of ours
            raise click.NoSuchCommand(error.command_name, possibilities=self._table, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=text) for name, (_, text) in self._table.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self._table.items()])


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from importlib.metadata import version  # every other command starts without it

        python, dagster = ".".join(map(str, sys.version_info[:3])), version("dagster")
        click.echo(f"seller-platform {__version__} (Python {python}, Dagster {dagster})")
        context.exit()


def command_group(table: Mapping[str, tuple[str, str]]) -> click.Group:
    """Return the group of all commands.

    Args:
        table: The module of each command, which is imported on first use, and its sentence in `--help`.
    """

    @click.group(cls=_Commands, table=table, context_settings={"help_option_names": ["-h", "--help"]})
    @click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Show the versions of Seller Platform, Python and Dagster, and exit.",
    )
    @click.pass_context
    def seller_platform(context: click.Context) -> None:
        """Load a marketplace seller's API into PostgreSQL through Dagster, check it, and serve it again.

        Exit codes: 0 done, 1 failed, 2 usage, 3 authorise again, 4 upstream unavailable or faulty, 5 a check failed
        or a reading is held, 130 ended by Ctrl-C, 143 ended by SIGTERM.
        """
        interruption.begin()
        with suppress(InvalidSettingError):  # a command that needs settings reports it
            settings = read_settings()
            use_start(settings.home)
            if settings.log_format == "json":
                write_json_logs()
                sys.excepthook = lambda kind, error, traceback: _LOG.critical(
                    "the command failed: %s", kind.__name__, exc_info=(kind, error, traceback)
                )
        is_service = context.invoked_subcommand == "service"
        send_traces("seller-platform-service" if is_service else "seller-platform", os.environ)

    return seller_platform


def run(group: click.Group) -> NoReturn:
    """Run the command line and exit; what was foreseen ends in one line and its exit code."""
    as_json = "--json" in sys.argv
    try:
        code = group.main(standalone_mode=False, complete_var=COMPLETE)
        if interruption.is_ending():  # a command that runs until then
            interruption.finish()
        sys.exit(code)
    except SellerPlatformError as error:
        _end(error, as_json=as_json)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        if interruption.is_ending():
            interruption.finish()
        fail(RequestError("nothing was entered; run the command again, and answer its question"), as_json=as_json)
    except KeyboardInterrupt:
        interruption.finish()
    except Exception as error:
        known = foreseen_error(error)
        if known is None and not interruption.is_ending():
            raise
        _end(known or SellerPlatformError(str(error)), as_json=as_json)


def _end(error: SellerPlatformError, *, as_json: bool) -> NoReturn:
    """Print an error; where a signal has come, the signal is its cause."""
    if interruption.is_ending():
        interruption.finish()
    fail(error, as_json=as_json)
