"""`seller-platform sandbox`: fills the service's database with generated sellers."""

import click

from seller_platform.cli.terminal.groups import LazyGroup

_COMMANDS = {
    "load": ("sandbox.fill", "Replace the generated sellers in the service's database."),
    "live": ("sandbox.live", "Generate sellers as of a day in the past, and advance them day by day."),
}
"""The module of each command, and its sentence in `--help`."""


@click.group(cls=LazyGroup, modules=_COMMANDS)
def sandbox() -> None:
    """Fill the service's database with generated sellers."""
