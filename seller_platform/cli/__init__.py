"""The `seller-platform` command: parses arguments, joins the floors, prints.

- `connect`: authorises a connection
- `sync`: loads through Dagster
- `status`: coverage, refusals, age and grants
- `inspection`: commands that show stored rows, their source and their changes
- `verify`: compares the upstream with a replica
- `costs`: product costs, planned and applied
- `marts`: tables that are computed from the lists
- `reports`: reports that the upstream writes
- `metrics`: metrics for Prometheus
- `database`: `migrate`, `backup`, `restore`, `prune`, and the readers of the database
- `keys`: encryption keys
- `completion`: completion of commands and names in a shell
- `service`: the REST API, its users, groups, applications, rates and products
- `doctor`: the checks of `seller-platform doctor`
- `sandbox`: commands on generated sellers
- `installation`: settings, warehouse and key of an installation
- `output`: tables, progress and JSON
- `processes`: processes started by a command
"""

import logging
import os
import sys
from contextlib import suppress
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from seller_platform import __version__
from seller_platform.cli.completion import COMPLETE, complete_names
from seller_platform.cli.output import fail
from seller_platform.commands import use_start
from seller_platform.errors import InvalidSettingError, SellerPlatformError
from seller_platform.logs import write_json_logs
from seller_platform.settings import read_settings
from seller_platform.traces import send_traces

_LOG = logging.getLogger(__name__)

# A command's module is imported when the command runs: Dagster alone takes a second to import.
_COMMANDS = {
    "demo": ("sandbox.demo", "Connect to the sandbox, load all lists and costs, check the rows, and print a table."),
    "dev": ("sandbox.dev", "Run the sandbox service, the Dagster UI and its daemon, until Ctrl-C."),
    "connect": ("connect", "Authorise the API's user and discover the accounts."),
    "sync": ("sync", "Load the API's lists and costs into PostgreSQL, through Dagster."),
    "report": ("reports", "Request reports, list them, download them, and load their rows."),
    "marts": ("marts", "Build the tables of schema marts, which are computed from the lists."),
    "costs": ("costs", "Write product costs to the API, as a plan that is reviewed before it is applied."),
    "status": ("status", "Show what is stored and missing of each dataset, its age, and the state of the grants."),
    "query": ("inspection.query", "Run a SELECT on the warehouse, and print its rows."),
    "explain": ("inspection.explain", "Show the source of a stored row: request, page, time and run."),
    "held": ("inspection.held", "List the readings that were not published."),
    "accept": ("inspection.held", "Publish a held reading, if it still says the same."),
    "diff": ("inspection.history", "Show the rows that came, went and changed, with sums."),
    "revert": ("inspection.history", "Make a slice what it was before a load."),
    "verify": ("verify", "Send the same queries to source and replica, and compare the answers."),
    "metrics": ("metrics", "Serve the warehouse's metrics to Prometheus, until Ctrl-C."),
    "migrate": (
        "database.maintenance",
        "Migrate the database to the schema of this version, and Dagster's tables with it.",
    ),
    "backup": ("database.backups", "Write the whole database to a file."),
    "restore": ("database.backups", "Fill an empty database from a backup."),
    "prune": ("database.maintenance", "Delete old snapshots and receipts, and old events and runs of Dagster."),
    "database": ("database.command", "Manage who may read the database with SQL."),
    "doctor": ("doctor.command", "Check every prerequisite, and print the next step for each problem."),
    "keys": ("keys", "Change the key that encrypts stored grants and client secrets."),
    "completion": ("completion", "Print the script by which bash, zsh or fish completes commands and names."),
    "service": ("service.command", "Run the REST API, and manage its users, groups and applications."),
    "sandbox": ("sandbox.fill", "Fill the service's database with generated sellers."),
}
"""The module of each command, and its sentence in `--help`."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if cmd_name not in _COMMANDS:
            return None
        module, _ = _COMMANDS[cmd_name]
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
            raise click.NoSuchCommand(error.command_name, possibilities=_COMMANDS, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=text) for name, (_, text) in _COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in _COMMANDS.items()])


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from importlib.metadata import version  # every other command starts without it

        python, dagster = ".".join(map(str, sys.version_info[:3])), version("dagster")
        click.echo(f"seller-platform {__version__} (Python {python}, Dagster {dagster})")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the versions of Seller Platform, Python and Dagster, and exit.",
)
@click.pass_context
def _cli(context: click.Context) -> None:
    """Load a marketplace seller's API into PostgreSQL through Dagster, check it, and serve it again.

    Exit codes: 0 done, 1 failed, 2 usage, 3 authorise again, 4 upstream unavailable or faulty, 5 a check failed
    or a reading is held.
    """
    with suppress(InvalidSettingError):  # a command that needs settings reports it
        settings = read_settings()
        use_start(settings.home)
        if settings.log_format == "json":
            write_json_logs()
            sys.excepthook = lambda kind, error, traceback: _LOG.critical(
                "the command failed: %s", kind.__name__, exc_info=(kind, error, traceback)
            )
    send_traces("seller-platform-service" if context.invoked_subcommand == "service" else "seller-platform", os.environ)


def main() -> None:
    """Run the command line; `SellerPlatformError` ends in one line and its exit code."""
    try:
        _cli(complete_var=COMPLETE)
    except SellerPlatformError as error:
        fail(error, as_json="--json" in sys.argv)
