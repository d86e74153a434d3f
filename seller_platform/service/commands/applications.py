"""`seller-platform service application`: registers and lists OAuth applications."""

import click
import msgspec

from seller_platform.cli.output import Document, Moment, Output
from seller_platform.contract.wire import MCP
from seller_platform.service.commands.options import result_options
from seller_platform.service.oauth.applications import add_application, applications_of
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
    """An application that was registered, or approved as its document describes it.

    Attributes:
        origin: Who says what it is: operator, owner or document.
        owner: The e-mail address of the user who registered it; null for others.
        resource: The path of the only resource that its tokens are for; null for any.
        registered_at: When it was registered, or last approved as its document describes it.
    """

    client_id: str
    name: str
    origin: str
    owner: str | None
    redirect_uris: list[str]
    is_public: bool
    resource: str | None
    registered_at: Moment


class ApplicationsDocument(Document, frozen=True):
    """All applications."""

    applications: list[ListedApplication]


@click.group()
def application() -> None:
    """Manage OAuth applications."""


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
@click.option("--mcp", "is_for_agents", is_flag=True, help="It lets agents ask: its tokens are for /mcp alone.")
@result_options(AddedApplication)
def application_add(
    *, name: str, redirect_uris: tuple[str, ...], public: bool, is_for_agents: bool, database: Database, output: Output
) -> None:
    """Register an application and print its id and secret; the secret is printed only once."""
    resource = MCP if is_for_agents else None
    client_id, client_secret = add_application(database, name, *redirect_uris, resource=resource, is_public=public)
    text = f"client id:     {client_id}\nclient secret: {client_secret}\nThe secret is not shown again."
    if public:
        text = f"client id: {client_id}\nIt has no secret, and must use PKCE."
    uris = list(redirect_uris)
    output.document(AddedApplication(client_id=client_id, client_secret=client_secret or None, redirect_uris=uris))
    output.line(text)


@application.command("list")
@result_options(ApplicationsDocument, creates=False)
def application_list(*, database: Database, output: Output) -> None:
    """List the applications, and who registered them."""
    listed = msgspec.convert(applications_of(database), list[ListedApplication], from_attributes=True)
    output.document(ApplicationsDocument(applications=listed))
    output.table("Applications", listed, ("client_id", "name", "origin", "owner", "redirect_uris"))
