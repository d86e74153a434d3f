"""`seller-platform service group`: the commands that manage groups of accounts."""

import click

from seller_platform.cli.output import Output
from seller_platform.cli.service.options import list_options, open_service, result_options, say
from seller_platform.cli.terminal.groups import CommandGroup
from seller_platform.service.users.groups import groups_of, remove_group, set_group


@click.group(cls=CommandGroup)
def group() -> None:
    """Manage groups of a user's accounts, which `group_title` selects."""


@group.command("set")
@click.argument("email")
@click.argument("title")
@click.argument("accounts", nargs=-1, required=True, metavar="ACCOUNT...")
@result_options
def group_set(*, email: str, title: str, accounts: tuple[str, ...], url: str, output: Output) -> None:
    """Set the accounts of a user's group, and create the group if needed."""
    with open_service(url) as database:
        set_group(database, email, title, accounts)
    document = {"email": email, "title": title, "accounts": accounts}
    say(output, f"The group {title} of {email} holds {', '.join(accounts)}.", document)


@group.command("list")
@click.argument("email")
@list_options
def group_list(*, email: str, url: str, output: Output) -> None:
    """List the groups of a user."""
    with open_service(url) as database:
        groups = groups_of(database, email)
    output.document({"groups": [{"title": title, "accounts": keys} for title, keys in groups.items()]})
    rows = [(title, ", ".join(keys) or "no account") for title, keys in groups.items()]
    output.table(f"Groups of {email}", ("title", "accounts"), rows)


@group.command("remove")
@click.argument("email")
@click.argument("title")
@result_options
def group_remove(*, email: str, title: str, url: str, output: Output) -> None:
    """Remove a group; its accounts stay the user's."""
    with open_service(url) as database:
        remove_group(database, email, title)
    say(output, f"The group {title} of {email} is removed.", {"email": email, "title": title})
