"""`seller-platform service events`: the security events of the service."""

import re
from datetime import UTC, datetime, timedelta

import click

from seller_platform.cli.output import Document, Output
from seller_platform.cli.service.options import result_options
from seller_platform.clocks import utc_now
from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.security_events import EventKind, SecurityEvent, find_events

_AGO = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class EventsDocument(Document, frozen=True):
    """Security events, the newest last."""

    events: list[SecurityEvent]


@click.command()
@click.option("--user", "email", help="Only events of the user with this e-mail address.")
@click.option("--kind", "kinds", multiple=True, help="Only events of this kind; may be given several times.")
@click.option("--since", help="Only events since a day or moment (UTC), such as 2026-03-01, or for 30m, 12h or 7d.")
@click.option(
    "--limit", default=200, show_default=True, type=click.IntRange(1, 100_000), help="How many of the newest."
)
@result_options(EventsDocument, creates=False)
def events(
    *, email: str | None, kinds: tuple[str, ...], since: str | None, limit: int, database: Database, output: Output
) -> None:
    """List security events, the newest last: logins, consents, tokens and operators' commands."""
    chosen = [_kind(kind) for kind in kinds]
    began = _moment(since, utc_now()) if since is not None else None
    listed = list(find_events(database, email=email, kinds=chosen, since=began, limit=limit))
    output.document(EventsDocument(events=listed))
    output.table("Security events", listed, ("at", "kind", "email", "application", "address", "details"))


def _kind(text: str) -> EventKind:
    try:
        return EventKind(text)
    except ValueError:
        kinds = ", ".join(kind.value for kind in EventKind)
        raise RequestError(
            f"there is no kind of security event {text!r}; the kinds are: {kinds}", code="UnknownEventKindError"
        ) from None


def _moment(text: str, now: datetime) -> datetime:
    """Return the moment that a text names: a day, a moment, or a duration before now."""
    ago = _AGO.fullmatch(text)
    if ago:
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"--since is {text!r}; give a day such as 2026-03-01, a moment such as 2026-03-01T12:00, or 30m, 12h or 7d"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
