"""`seller-platform service application`: registers, lists and verifies OAuth applications."""

import click
import msgspec

from seller_platform.cli.output import Document, Moment, Output
from seller_platform.cli.service.options import list_options, result_options, say
from seller_platform.cli.terminal.groups import CommandGroup
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.service.oauth.applications import (
    add_application,
    add_public_application,
    applications_of,
    verify_application,
)
from seller_platform.warehouse.postgres.database import Database


class AddedApplication(Document, frozen=True):
    """An application that was registered.

    Attributes:
        client_secret: It is not shown again; null for a public application.
    """

    client_id: str
    client_secret: str | None
    redirect_uris: list[str]


class ListedApplication(Document, frozen=True):
    """A registered application.

    Attributes:
        owner: The e-mail address of the user who registered it; null for the operator.
        verified_at: Null where it is not verified.
    """

    client_id: str
    name: str
    owner: str | None
    redirect_uris: list[str]
    is_public: bool
    verified_at: Moment | None


class ApplicationsDocument(Document, frozen=True):
    """All registered applications."""

    applications: list[ListedApplication]


class VerifiedApplication(Document, frozen=True):
    """An application that is verified now."""

    client_id: str
    name: str


@click.group(cls=CommandGroup)
def application() -> None:
    """Manage registered OAuth applications."""


@application.command("add")
@click.argument("name")
@click.option(
    "--redirect-uri",
    "redirect_uris",
    required=True,
    multiple=True,
    help="Where the user is sent back to, exactly; repeat it for several.",
)
@click.option("--public", is_flag=True, help="The application cannot keep a secret: it gets none, and must use PKCE.")
@click.option("--verified", is_flag=True, help="Mark it as verified, as `verify` does.")
@result_options(AddedApplication)
def application_add(
    *, name: str, redirect_uris: tuple[str, ...], public: bool, verified: bool, database: Database, output: Output
) -> None:
    """Register an application and print its id and secret; the secret is printed only once."""
    if public:
        client_id = add_public_application(database, name, *redirect_uris, is_verified=verified)
        text = f"client id: {client_id}\nIt has no secret, and must use PKCE."
        client_secret = None
    else:
        client_id, client_secret = add_application(database, name, *redirect_uris, is_verified=verified)
        text = f"client id:     {client_id}\nclient secret: {client_secret}\nThe secret is not shown again."
    added = AddedApplication(client_id=client_id, client_secret=client_secret, redirect_uris=list(redirect_uris))
    say(output, text, added)


@application.command("list")
@list_options(ApplicationsDocument)
def application_list(*, database: Database, output: Output) -> None:
    """List the applications, whose they are, and whether they are verified."""
    applications = applications_of(database)
    listed = msgspec.convert(applications, list[ListedApplication], from_attributes=True)
    output.document(ApplicationsDocument(applications=listed))
    rows = [
        (
            each.client_id,
            each.name,
            each.owner or "the operator",
            f"{each.verified_at:%Y-%m-%d}" if each.verified_at else "no",
            " ".join(each.redirect_uris),
        )
        for each in applications
    ]
    output.table(
        "Applications",
        ("client id", "name", TableColumn("owner", rank=1), TableColumn("verified", rank=2), "redirect URIs"),
        rows,
    )


@application.command("verify")
@click.argument("client_id")
@result_options(VerifiedApplication)
def application_verify(*, client_id: str, database: Database, output: Output) -> None:
    """Mark an application as verified, until its name or a redirect URI changes.

    The consent page warns of applications that are not verified. Check who runs it, and that its redirect URIs are
    theirs.
    """
    name = verify_application(database, client_id)
    say(output, f"{name} is verified.", VerifiedApplication(client_id=client_id, name=name))
