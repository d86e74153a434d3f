"""`seller-platform service events`: the security events of the service."""

from datetime import datetime

import click

from seller_platform.cli.output import Document, Output
from seller_platform.cli.terminal.months import Since
from seller_platform.service.commands.options import result_options
from seller_platform.service.events import EventKind, SecurityEvent, find_events
from seller_platform.warehouse.postgres.database import Database


class EventsDocument(Document, frozen=True):
    """Security events, the newest last."""

    events: list[SecurityEvent]


@click.command()
@click.option("--user", "email", help="Only events of the user with this e-mail address.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([kind.value for kind in EventKind]),
    metavar="KIND",
    multiple=True,
    help="Only events of this kind; may be given several times.",
)
@click.option(
    "--since", type=Since(), help="Only events since a day or moment (UTC), such as 2026-03-01, or for 30m, 12h or 7d."
)
@click.option(
    "--limit", default=200, show_default=True, type=click.IntRange(1, 100_000), help="How many of the newest."
)
@result_options(EventsDocument, creates=False)
def events(
    *, email: str | None, kinds: tuple[str, ...], since: datetime | None, limit: int, database: Database, output: Output
) -> None:
    """List security events, the newest last: logins, consents, tokens and operators' commands."""
    listed = list(find_events(database, email=email, kinds=[*map(EventKind, kinds)], since=since, limit=limit))
    output.document(EventsDocument(events=listed))
    output.table("Security events", listed, ("at", "kind", "email", "application", "address", "details"))
