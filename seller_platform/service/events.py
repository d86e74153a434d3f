"""Security events of the service: their kinds, and the newest of them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum, auto
from typing import Annotated, Any

import msgspec
from sqlalchemy import text

from seller_platform.warehouse.postgres.database import Database


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
    database: Database,
    *,
    email: str | None = None,
    kinds: Collection[EventKind] = (),
    since: datetime | None = None,
    limit: int,
) -> Sequence[SecurityEvent]:
    """Return the newest events, the oldest of them first.

    Args:
        email: Only events of the user with this e-mail address, and failed logins with it.
        kinds: Only events of these kinds; empty means all.
        since: Only events of this moment or later.
    """
    bound = {"email": email, "kinds": [kind.value for kind in kinds], "since": since, "limit": limit}
    return tuple(SecurityEvent(*row) for row in database.execute(_FOUND, bound))
