"""Security events of the service that are reported: replayed codes, reused refresh tokens, locked logins."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from seller_platform.commands import runnable
from seller_platform.service.events import ALARMING, EventKind, SecurityEvent, find_events
from seller_platform.settings import Settings
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url

EVENTS_OF = timedelta(days=1)
"""Older events are not reported."""

LOCKS_REPORTED_EVERY = timedelta(hours=1)

_NAMED_EVENTS = 5
_TITLES = {
    EventKind.CODE_REPLAYED: "A code was used a second time",
    EventKind.REFRESH_TOKEN_REUSED: "A refresh token was used a second time",
    EventKind.LOGIN_LOCKED: "Many logins failed",
}
_STEPS = {
    EventKind.CODE_REPLAYED: "Its tokens are revoked. Ask the operator of the application whether its codes leak.",
    EventKind.REFRESH_TOKEN_REUSED: "Its tokens are revoked, and the user must approve the application again. Another "
    "person may have a copy of the token.",
    EventKind.LOGIN_LOCKED: "The address is locked for 15 minutes, or the user is delayed. No action is needed unless "
    "this goes on: then block the addresses in front of the service.",
}


def security_events(settings: Settings, now: datetime) -> Sequence[SecurityEvent]:
    """Return the alarming events of the service of the last day.

    Raises:
        WarehouseUnavailableError: Its database cannot be reached.
    """
    service_url = settings.service_database_url
    url = service_url.get_secret_value() if service_url is not None else warehouse_url(settings)
    with Database(url, connections=1) as database:
        return find_events(database, kinds=ALARMING, since=now - EVENTS_OF, limit=500)


def event_key(event: SecurityEvent) -> str:
    """Return what an event is reported once for: the number, or whose logins are locked."""
    if event.kind == EventKind.LOGIN_LOCKED:
        return f"{event.kind} {event.email or event.details.get('email') or event.address}"
    return f"{event.kind} {event.id}"


def security_text(events: Sequence[SecurityEvent]) -> str:
    """Return the message of events of one kind."""
    kind = EventKind(events[0].kind)
    lines = [_line(event) for event in events[:_NAMED_EVENTS]]
    if len(events) > _NAMED_EVENTS:
        lines.append(
            f"and {len(events) - _NAMED_EVENTS} more; `seller-platform service events --kind {kind}` lists them"
        )
    return runnable("\n".join((f"Security: {_TITLES[kind]}", *lines, _STEPS[kind])))


def _line(event: SecurityEvent) -> str:
    facts = (
        ("user", event.email or event.details.get("email")),
        ("application", event.application or event.client_id),
        ("address", event.address),
        ("request", event.request_id),
    )
    named = ", ".join(f"{name} {value}" for name, value in facts if value)
    return f"{event.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {named}"
