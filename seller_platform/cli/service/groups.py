"""`seller-platform service group`: the commands that manage groups of accounts."""

import click

from seller_platform.cli.output import Document, DoneDocument, Output, printable
from seller_platform.cli.service.options import result_options
from seller_platform.cli.terminal.groups import CommandGroup
from seller_platform.service.users.groups import groups_of, remove_group, set_group
from seller_platform.warehouse.postgres.database import Database


class GroupsDocument(Document, frozen=True):
    """All groups of a user: the accounts of each, by its title."""

    groups: dict[str, tuple[str, ...]]


@click.group(cls=CommandGroup)
def group() -> None:
    """Manage groups of a user's accounts, which `group_title` selects."""


@group.command("set")
@click.argument("email")
@click.argument("title")
@click.argument("accounts", nargs=-1, required=True, metavar="ACCOUNT...")
@result_options(DoneDocument)
def group_set(*, email: str, title: str, accounts: tuple[str, ...], database: Database, output: Output) -> None:
    """Set the accounts of a user's group, and create the group if needed."""
    set_group(database, email, title, accounts)
    output.done(f"The group {title} of {email} holds {', '.join(accounts)}.")


@group.command("list")
@click.argument("email")
@result_options(GroupsDocument, creates=False)
def group_list(*, email: str, database: Database, output: Output) -> None:
    """List the groups of a user."""
    groups = dict(groups_of(database, email))
    output.document(GroupsDocument(groups=groups))
    output.heading(f"Groups of {email}")
    for title, keys in groups.items():
        output.line(printable(f"{title}: {', '.join(keys)}"))


@group.command("remove")
@click.argument("email")
@click.argument("title")
@result_options(DoneDocument)
def group_remove(*, email: str, title: str, database: Database, output: Output) -> None:
    """Remove a group; its accounts stay the user's."""
    remove_group(database, email, title)
    output.done(f"The group {title} of {email} is removed.")
