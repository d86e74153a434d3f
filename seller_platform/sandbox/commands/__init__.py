"""`demo`, `dev` and `sandbox`: commands on generated sellers.

- `demo`: the main job, once
- `dev`: everything until Ctrl-C; with `--live`, each day of the sandbox is loaded
- `local_stack`: the sandbox service and the environment that points at it
- `processes`: processes started by a command
- `serving`: the service over the sandbox
- `fill`: fills a service's database, and advances it day by day
"""

import click

from seller_platform.cli.terminal.groups import LazyGroup

_COMMANDS = {
    "load": (".fill", "Replace the generated sellers in the service's database."),
    "live": (".fill", "Generate sellers as of a day in the past, and advance them day by day."),
}
"""The module of each command, and its sentence in `--help`."""


@click.group(cls=LazyGroup, modules=_COMMANDS, package=__name__)
def sandbox() -> None:
    """Fill the service's database with generated sellers."""
