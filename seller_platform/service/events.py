"""Security events of the service: their kinds, the newest of them, and those that are reported."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto
from typing import Annotated, Any

import msgspec
from sqlalchemy import text

from seller_platform.service.settings import ServiceSettings
from seller_platform.settings import Settings
from seller_platform.warehouse.monitoring.problems import Incident
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.location import warehouse_url


class EventKind(StrEnum):
    """The kinds of security events; each has a counter in the metrics."""

    LOGIN_SUCCEEDED = auto()
    LOGIN_FAILED = auto()
    LOGIN_LOCKED = auto()
    LOGGED_OUT = auto()
    CONSENT_GIVEN = auto()
    CONSENT_DENIED = auto()
    CONSENT_ENDED = auto()
    GRANT_ISSUED = auto()
    GRANT_REVOKED = auto()
    CODE_REPLAYED = auto()
    REFRESH_TOKEN_REUSED = auto()
    APPLICATION_REGISTERED = auto()
    APPLICATION_DELETED = auto()
    SECRET_CREATED = auto()
    SECRET_REFUSED = auto()
    PASSWORD_CHANGED = auto()
    RESET_LINK_CREATED = auto()
    USER_ADDED = auto()
    USER_CLOSED = auto()
    USER_REOPENED = auto()
    ACCOUNTS_GRANTED = auto()
    ACCOUNTS_REVOKED = auto()
    GROUP_CHANGED = auto()
    GROUP_REMOVED = auto()


ALARMING = (EventKind.CODE_REPLAYED, EventKind.REFRESH_TOKEN_REUSED, EventKind.LOGIN_LOCKED)
"""The kinds that the operator is alerted of."""

_REPORTED_FOR = timedelta(days=1)
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

_EVENTS = """
SELECT event.id, event.at, event.kind, event.user_id, users.email, event.client_id, applications.name, event.address,
       event.request_id, event.details
FROM service.security_events AS event
LEFT JOIN service.users ON users.id = event.user_id
LEFT JOIN service.applications ON applications.client_id = event.client_id
"""
_FOUND = text(f"""
SELECT * FROM (
    {_EVENTS}
    WHERE (CAST(:email AS text) IS NULL OR lower(:email) IN (lower(users.email), lower(details ->> 'email')))
      AND (:kinds = CAST('{{}}' AS text[]) OR kind = ANY (:kinds))
      AND event.at >= coalesce(CAST(:since AS timestamptz), '-infinity')
    ORDER BY event.id DESC LIMIT :limit
) AS event ORDER BY id
""")  # noqa: S608  # a constant


class SecurityEvent(msgspec.Struct, frozen=True):
    """A security event, with the names that its user and application have now.

    Attributes:
        kind: One of this version, or of another.
        email: The e-mail address of its user; null without a user, and for a deleted one.
        application: The name of its application; null without one, and for a deleted one.
        address: The network address of its request; null for a command of the operator.
        details: What else its kind has.
    """

    id: int = msgspec.field(name="event_id")
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    kind: str
    user_id: int | None
    email: str | None
    client_id: str | None
    application: str | None
    address: str | None
    request_id: str | None
    details: dict[str, Any]


def find_events(
    database: Database, *, email: str | None, kinds: Collection[EventKind], since: datetime | None, limit: int
) -> Sequence[SecurityEvent]:
    """Return the newest events, the oldest of them first.

    Args:
        email: Only events of the user with this e-mail address, and failed logins with it.
        kinds: Only events of these kinds; empty means all.
        since: Only events of this moment or later.
    """
    bound = {"email": email, "kinds": [kind.value for kind in kinds], "since": since, "limit": limit}
    return tuple(SecurityEvent(*row) for row in database.execute(_FOUND, bound))


def security_incidents(settings: Settings, now: datetime) -> Sequence[Incident]:
    """Return the alarming events of the service of the last day.

    Raises:
        WarehouseUnavailableError: Its database cannot be reached.
    """
    service_url = settings.of(ServiceSettings).service_database_url
    url = service_url.get_secret_value() if service_url is not None else warehouse_url(settings)
    with Database(url, connections=1) as database:
        events = find_events(database, email=None, kinds=ALARMING, since=now - _REPORTED_FOR, limit=500)
    return tuple(map(_incident, events))


def _incident(event: SecurityEvent) -> Incident:
    """Return the incident of an event: of a locked login one for the user, of others one for each."""
    kind, user = EventKind(event.kind), event.email or event.details.get("email")
    facts = (
        ("user", user),
        ("application", event.application or event.client_id),
        ("address", event.address),
        ("request", event.request_id),
    )
    named = ", ".join(f"{name} {value}" for name, value in facts if value)
    return Incident(
        key=f"{kind} {(user or event.address) if kind is EventKind.LOGIN_LOCKED else event.id}",
        title=f"Security: {_TITLES[kind]}",
        at=event.at,
        line=f"{event.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC: {named}",
        step=_STEPS[kind],
        command=f"seller-platform service events --kind {kind}",
    )
