"""The group of all commands, and how their errors end."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

import click

from seller_platform import __version__, interruption
from seller_platform.capabilities import capabilities
from seller_platform.cli.terminal.groups import LazyGroup
from seller_platform.commands import DEMO
from seller_platform.errors import InvalidSettingError, RequestError, SellerPlatformError

_LOG = logging.getLogger(__name__)

_DEMO_OPTION = "--demo"


class _Commands(LazyGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `--demo` also after the name of a command."""
        options = args[: args.index("--")] if "--" in args else args
        if _DEMO_OPTION in options:
            args = [_DEMO_OPTION, *(each for each in options if each != _DEMO_OPTION), *args[len(options) :]]
        return super().parse_args(ctx, args)


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        # Every other command starts without them.
        from importlib.metadata import version

        from seller_platform.warehouse.postgres.versions import revisions

        python, dagster = ".".join(map(str, sys.version_info[:3])), version("dagster")
        click.echo(f"seller-platform {__version__} (tables {revisions()[-1]}, Python {python}, Dagster {dagster})")
        context.exit()


def command_group(modules: Mapping[str, tuple[str, str]]) -> click.Group:
    """Return the group of all commands.

    Args:
        modules: The module of each command, which is imported on first use, and its sentence in `--help`.
    """

    @click.group(cls=_Commands, modules=modules, context_settings={"help_option_names": ["-h", "--help"]})
    @click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Show the versions of Seller Platform, its tables, Python and Dagster, and exit.",
    )
    @click.option(
        _DEMO_OPTION,
        "uses_demo",
        is_flag=True,
        envvar=DEMO,
        help="Use the data of `demo` and `dev`, as SELLER_PLATFORM_DEMO=1 does.",
    )
    @click.pass_context
    def seller_platform(context: click.Context, *, uses_demo: bool) -> None:
        """Load a marketplace seller's API into PostgreSQL through Dagster, check it, and serve it again.

        Exit codes: 0 done, 1 failed, 2 usage, 3 authorise again, 4 upstream unavailable or faulty, 5 a check failed
        or a reading is held, 130 ended by Ctrl-C, 143 ended by SIGTERM.
        """
        interruption.begin()
        makes_demo = any(context.invoked_subcommand in each.demonstrations for each in capabilities())
        uses_demo = uses_demo and not makes_demo
        # Imported here because `--help` needs none of them, and they take most of its time.
        from seller_platform.commands import use_start
        from seller_platform.logs import write_json_logs
        from seller_platform.settings import read_settings

        os.environ.pop(DEMO, None)
        if any(name.lower().endswith("_proxy") for name in os.environ):
            from seller_platform.network import except_this_machine  # it imports httpx, as few commands do

            except_this_machine(os.environ)
        if uses_demo:
            from seller_platform.cli.installation import use_demo  # imports SQLAlchemy, as above

            use_demo(os.environ)
        with suppress(InvalidSettingError):  # a command that needs settings reports it
            context.obj = settings = read_settings()
            if not uses_demo:
                use_start(settings.home)
            if settings.log_format == "json":
                write_json_logs()
                sys.excepthook = lambda kind, error, traceback: _LOG.critical(
                    "the command failed: %s", kind.__name__, exc_info=(kind, error, traceback)
                )

    return seller_platform


def run(group: click.Group) -> NoReturn:
    """Run the command line and exit; foreseen errors end in one line and their exit code."""
    as_json = "--json" in sys.argv
    try:
        code = group.main(standalone_mode=False)
        if interruption.is_ending():  # a command that runs until then
            interruption.finish()
        sys.exit(code)
    except SellerPlatformError as error:
        _end(error, as_json=as_json)
    except click.ClickException as error:
        if as_json:
            _end(RequestError(error.format_message()), as_json=True)
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as abort:
        if isinstance(abort.__cause__, EOFError):  # click takes any EOFError for the end of the input
            raise abort.__cause__ from None
        nothing = RequestError("nothing was entered; run the command again, and answer its question")
        _end(nothing, as_json=as_json)
    except KeyboardInterrupt:
        interruption.finish()
    except Exception as error:
        from seller_platform.cli.terminal.foreseen import foreseen_error  # `--help` needs none of it

        known = foreseen_error(error)
        if known is None and not interruption.is_ending():
            raise
        _end(known or SellerPlatformError(str(error)), as_json=as_json)


def _end(error: SellerPlatformError, *, as_json: bool) -> NoReturn:
    """Print an error; where a signal has come, the signal is its cause."""
    if interruption.is_ending():
        interruption.finish()
    from seller_platform.cli.output import fail  # as above

    fail(error, as_json=as_json)
