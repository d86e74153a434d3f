"""`seller-platform service group`: the commands that manage groups of accounts."""

import click

from seller_platform.cli.output import Document, DoneDocument, Output
from seller_platform.cli.service.options import result_options
from seller_platform.cli.terminal.groups import CommandGroup
from seller_platform.service.users.groups import groups_of, remove_group, set_group
from seller_platform.warehouse.postgres.database import Database


class GroupAccounts(Document, frozen=True):
    """A group of a user's accounts, by its title."""

    email: str
    title: str
    accounts: list[str]


class GroupsDocument(Document, frozen=True):
    """All groups of a user."""

    groups: list[GroupAccounts]


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
    groups = groups_of(database, email)
    listed = [GroupAccounts(email=email, title=title, accounts=list(keys)) for title, keys in groups.items()]
    output.document(GroupsDocument(groups=listed))
    output.table(f"Groups of {email}", listed, ("title", "accounts"))


@group.command("remove")
@click.argument("email")
@click.argument("title")
@result_options(DoneDocument)
def group_remove(*, email: str, title: str, database: Database, output: Output) -> None:
    """Remove a group; its accounts stay the user's."""
    remove_group(database, email, title)
    output.done(f"The group {title} of {email} is removed.")
