"""Records security events: who did what, with which application, from where and when.

The table is append-only: PostgreSQL refuses changes of its rows, and deletes them only after their retention.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

import sqlalchemy as sa
from psycopg import errors
from psycopg.types.json import Jsonb
from starlette.requests import Request

from seller_platform.logs import facts
from seller_platform.service.events import ALARMING, EventKind
from seller_platform.service.metrics import notes_of
from seller_platform.service.pool import Connection
from seller_platform.service.tables import SECURITY_EVENTS

__all__ = ["ALARMING", "EventKind", "record_event", "record_operator_event"]

_LOG = logging.getLogger(__name__)


_RECORD = """
INSERT INTO service.security_events (kind, user_id, client_id, address, request_id, details)
VALUES (%s, %s, %s, %s, %s, %s)
"""


class NamedClient(Protocol):
    """An application that an event names."""

    @property
    def client_id(self) -> str: ...
    @property
    def name(self) -> str: ...


async def record_event(
    connection: Connection,
    kind: EventKind,
    *,
    request: Request,
    user_id: int | None = None,
    application: NamedClient | None = None,
    details: Mapping[str, object] | None = None,
) -> None:
    """Record an event of a request, in the transaction of the connection.

    A service that may only read its database logs the event instead.

    Args:
        user_id: The user whose account it concerns; None if unknown.
        application: The application it concerns, whose name is one of the details.
        details: Facts for people, such as the e-mail address of a failed login. They must hold no secret.
    """
    notes = notes_of(request.scope)
    address = request.client.host if request.client else None
    client_id = application.client_id if application else None
    named = {"application": application.name} if application else {}
    values = (kind.value, user_id, client_id, address, notes.request_id, Jsonb({**named, **(details or {})}))
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
