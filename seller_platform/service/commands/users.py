"""`seller-platform service user` and `group`: users, their passwords, and groups of their accounts."""

import sys
from datetime import timedelta

import click

from seller_platform.cli.installation import command_settings
from seller_platform.cli.output import Document, DoneDocument, Output, printable
from seller_platform.counts import count_of
from seller_platform.errors import RequestError
from seller_platform.service.commands.options import result_options
from seller_platform.service.settings import ServiceSettings
from seller_platform.service.users.groups import groups_of, remove_group, set_group
from seller_platform.service.users.reset_links import create_reset_link
from seller_platform.service.users.store import (
    ListedUser,
    account_keys_named,
    add_user,
    grant_accounts,
    revoke_accounts,
    set_password,
    set_status,
    users_of,
)
from seller_platform.warehouse.postgres.database import Database

_LOCAL_URL = "http://127.0.0.1:8700"


class UsersDocument(Document, frozen=True):
    """All users, by e-mail address."""

    users: list[ListedUser]


class ResetLink(Document, frozen=True):
    """A link that sets a new password.

    Attributes:
        hours: How long it is valid.
    """

    email: str
    url: str
    hours: float


class GroupsDocument(Document, frozen=True):
    """All groups of a user: the accounts of each, by its title."""

    groups: dict[str, tuple[str, ...]]


@click.group()
def user() -> None:
    """Manage the users who may log in."""


@user.command("add")
@click.argument("email")
@click.option("--name", help="The person's name; by default the part of the address before the @.")
@result_options(DoneDocument)
def user_add(*, email: str, name: str | None, database: Database, output: Output) -> None:
    """Add a user; the password is read from standard input or a prompt."""
    add_user(database, email, name or email.partition("@")[0], _password())
    output.done(f"User {email} was added.")


@user.command("list")
@result_options(UsersDocument, creates=False)
def user_list(*, database: Database, output: Output) -> None:
    """List the users, and the accounts that they may read."""
    users = users_of(database)
    output.document(UsersDocument(users=users))
    output.table("Users", users, ("email", "name", "status", "accounts"))


@user.command("password")
@click.argument("email")
@result_options(DoneDocument)
def user_password(*, email: str, database: Database, output: Output) -> None:
    """Change a user's password, and log the user out everywhere.

    The password is read from standard input or a prompt.
    """
    set_password(database, email, _password())
    output.done(f"The password of {email} was changed; they must log in again.")


@user.command("grant")
@click.argument("email")
@click.argument("accounts", nargs=-1, required=True, metavar="ACCOUNT...")
@result_options(DoneDocument)
def user_grant(*, email: str, accounts: tuple[str, ...], database: Database, output: Output) -> None:
    """Let a user read accounts, named by their keys or titles."""
    keys = account_keys_named(database, accounts)
    grant_accounts(database, email, keys)
    output.done(f"{email} may read {', '.join(keys)}.")


@user.command("revoke")
@click.argument("email")
@click.argument("accounts", nargs=-1, required=True, metavar="ACCOUNT...")
@result_options(DoneDocument)
def user_revoke(*, email: str, accounts: tuple[str, ...], database: Database, output: Output) -> None:
    """Take accounts away from a user, and out of the user's groups."""
    keys = account_keys_named(database, accounts)
    revoke_accounts(database, email, keys)
    output.done(f"{email} may no longer read {', '.join(keys)}.")


@user.command("close")
@click.argument("email")
@result_options(DoneDocument)
def user_close(*, email: str, database: Database, output: Output) -> None:
    """Close a user: end their sessions and approved access, and refuse logins."""
    set_status(database, email, "closed")
    output.done(f"{email} is closed: all sessions and approved access have ended.")


@user.command("reopen")
@click.argument("email")
@result_options(DoneDocument)
def user_reopen(*, email: str, database: Database, output: Output) -> None:
    """Let a closed user log in again; applications must be approved again."""
    set_status(database, email, "active")
    output.done(f"{email} may log in again.")


@user.command("reset-link")
@click.argument("email")
@click.option("--hours", default=24.0, show_default=True, type=click.FloatRange(0.1, 168), help="How long it is valid.")
@click.option(
    "--service-url",
    help="The URL of the service; by default that of SELLER_PLATFORM_SERVICE_PUBLIC_URL, else http://127.0.0.1:8700.",
)
@result_options(ResetLink)
def user_reset_link(*, email: str, hours: float, service_url: str | None, database: Database, output: Output) -> None:
    """Print a link that sets a new password for a user, once.

    Give it to the user over a channel that nobody else reads. The new password ends the user's sessions.
    """
    # Imported here because other commands send no answers of the service.
    from seller_platform.service.pages.password import RESET

    base_url = service_url or command_settings().of(ServiceSettings).service_public_url or _LOCAL_URL
    token = create_reset_link(database, email, timedelta(hours=hours))
    link = f"{base_url.rstrip('/')}{RESET}?token={token}"
    text = f"{link}\nIt works once, within {count_of(hours, 'hour')}."
    if base_url == _LOCAL_URL:
        text += f"\n{_LOCAL_URL} is assumed; where the service has another URL, use --service-url."
    output.document(ResetLink(email=email, url=link, hours=hours))
    output.line(text)


@click.group()
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


def _password() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise RequestError("no password was given; write it to standard input, or run the command in a terminal")
    return password
