"""Records security events: who did what, with which application, from where and when.

The table is append-only: PostgreSQL refuses changes of its rows, and deletes them only after their retention.
"""

import logging
from collections.abc import Mapping
from enum import StrEnum, auto

import sqlalchemy as sa
from psycopg import errors
from psycopg.types.json import Jsonb
from starlette.requests import Request

from seller_platform.logs import facts
from seller_platform.service.metrics import notes_of
from seller_platform.service.pool import Connection
from seller_platform.warehouse.schema.service_tables import SECURITY_EVENTS

_LOG = logging.getLogger("seller_platform.service.security")


class EventKind(StrEnum):
    """The kinds of security events; each has a counter in the metrics."""

    LOGIN_SUCCEEDED = auto()
    LOGIN_FAILED = auto()
    LOGIN_LOCKED = auto()
    LOGGED_OUT = auto()
    SESSION_ENDED = auto()
    CONSENT_GIVEN = auto()
    CONSENT_DENIED = auto()
    CONSENT_ENDED = auto()
    GRANT_ISSUED = auto()
    GRANT_REVOKED = auto()
    CODE_REPLAYED = auto()
    REFRESH_TOKEN_REUSED = auto()
    APPLICATION_REGISTERED = auto()
    APPLICATION_CHANGED = auto()
    APPLICATION_VERIFIED = auto()
    APPLICATION_DELETED = auto()
    SECRET_CREATED = auto()
    SECRET_ENDED = auto()
    SECRET_REFUSED = auto()
    PASSWORD_CHANGED = auto()
    RESET_LINK_CREATED = auto()
    PASSKEY_ADDED = auto()
    PASSKEY_REMOVED = auto()
    PASSKEY_REFUSED = auto()
    USER_ADDED = auto()
    USER_CLOSED = auto()
    USER_REOPENED = auto()
    ACCOUNTS_GRANTED = auto()
    ACCOUNTS_REVOKED = auto()
    GROUP_CHANGED = auto()
    GROUP_REMOVED = auto()
    TEMPORARY_ACCESS_GIVEN = auto()


ALARMING = (EventKind.CODE_REPLAYED, EventKind.REFRESH_TOKEN_REUSED, EventKind.LOGIN_LOCKED)
"""The kinds that the operator is alerted of."""

_RECORD = """
INSERT INTO service.security_events (kind, user_id, client_id, address, request_id, details)
VALUES (%s, %s, %s, %s, %s, %s)
"""


async def record_event(
    connection: Connection,
    kind: EventKind,
    *,
    request: Request,
    user_id: int | None = None,
    client_id: str | None = None,
    details: Mapping[str, object] | None = None,
) -> None:
    """Record an event of a request, in the transaction of the connection.

    A service that may only read its database logs the event instead.

    Args:
        user_id: The user whose account it concerns; None if unknown.
        client_id: The application it concerns.
        details: Facts for people, such as the e-mail address of a failed login. They must hold no secret.
    """
    notes = notes_of(request.scope)
    address = request.client.host if request.client else None
    values = (kind.value, user_id, client_id, address, notes.request_id, Jsonb(details or {}))
    try:
        async with connection.transaction():
            await connection.execute(_RECORD, values)
    except (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege):
        _LOG.warning("%s was not stored: the database may only be read", kind.value)
    notes.security_events.append(kind.value)
    level = logging.WARNING if kind in ALARMING else logging.INFO
    fields = facts(kind=kind.value, user_id=user_id, client_id=client_id, address=address)
    _LOG.log(level, "security event %s", kind.value, extra=fields)


def record_operator_event(
    connection: sa.Connection,
    kind: EventKind,
    *,
    user_id: int | None = None,
    client_id: str | None = None,
    details: Mapping[str, object] | None = None,
) -> None:
    """Record an event of an operator's command, which has no request and no address."""
    values = {"kind": kind.value, "user_id": user_id, "client_id": client_id, "details": dict(details or {})}
    connection.execute(sa.insert(SECURITY_EVENTS).values(values))
