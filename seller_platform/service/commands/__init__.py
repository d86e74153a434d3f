"""`seller-platform service`: runs the REST API, and manages what it needs beside the rows.

- `processes`: the commands of processes
- `applications`: the commands of OAuth applications
- `users`: the commands of users, and of their groups of accounts
- `events`: the command that lists security events
- `csv_loads`: the commands that load exchange rates and products
- `options`: the options of the database
"""

import click

from seller_platform.cli.terminal.groups import LazyGroup

_COMMANDS = {
    "run": (".processes", "Serve the REST API over a database, until Ctrl-C."),
    "worker": (".processes", "Write requested reports, until Ctrl-C."),
    "user": (".users", "Manage the users who may log in."),
    "group": (".users", "Manage groups of a user's accounts, which `group_title` selects."),
    "application": (".applications", "Manage registered OAuth applications."),
    "events": (".events", "List security events: logins, consents, tokens and operators' commands."),
    "rates": (".csv_loads", "Manage exchange rates, which convert amounts for `currency`."),
    "products": (".csv_loads", "Manage products: their parents, offers and lead times."),
}
"""The module of each command, and its sentence in `--help`."""


@click.group(cls=LazyGroup, modules=_COMMANDS, package=__name__)
def service() -> None:
    """Run the REST API, and manage its users, groups and applications."""
