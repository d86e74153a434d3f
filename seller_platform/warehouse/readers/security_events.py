"""Reads the security events of the service, the oldest first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Select, func, select

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.event_kinds import EventKind
from seller_platform.warehouse.schema.service_tables import APPLICATIONS, SECURITY_EVENTS, USERS


@dataclass(frozen=True)
class SecurityEvent:
    """One security event, with the names that its user and application have now.

    Attributes:
        kind: A value of `EventKind`, or a kind of another version.
        email: The e-mail address of its user; None without a user, and for a deleted one.
        application: The name of its application; None without one, and for a deleted one.
        address: The network address of its request; None for a command of the operator.
    """

    id: int
    at: datetime
    kind: str
    user_id: int | None
    email: str | None
    client_id: str | None
    application: str | None
    address: str | None
    request_id: str | None
    details: Mapping[str, object]


def newest_event(database: Database, until: datetime | None = None) -> int:
    """Return the number of the newest event; 0 without one, and in a database that no service has used yet.

    Args:
        until: Younger events are left out.
    """
    event = SECURITY_EVENTS.c
    newest = select(func.coalesce(func.max(event.id), 0))
    with database.begin() as connection:
        if connection.execute(select(func.to_regclass("service.security_events"))).scalar_one() is None:
            return 0
        return int(connection.execute(newest if until is None else newest.where(event.at <= until)).scalar_one())


def events_between(
    database: Database, first: int, last: int, kinds: Collection[EventKind], limit: int
) -> Sequence[SecurityEvent]:
    """Return events of some kinds with numbers above the first and up to the last one."""
    event = SECURITY_EVENTS.c
    chosen = _events().where(event.id > first, event.id <= last, event.kind.in_([kind.value for kind in kinds]))
    with database.begin() as connection:
        return _read(connection, chosen.order_by(event.id).limit(limit))


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
    event = SECURITY_EVENTS.c
    chosen = _events().order_by(event.id.desc()).limit(limit)
    if email is not None:
        typed = func.lower(event.details["email"].astext) == func.lower(email)
        chosen = chosen.where((func.lower(USERS.c.email) == func.lower(email)) | typed)
    if kinds:
        chosen = chosen.where(event.kind.in_([kind.value for kind in kinds]))
    if since is not None:
        chosen = chosen.where(event.at >= since)
    with database.begin() as connection:
        return tuple(reversed(_read(connection, chosen)))


def _events() -> Select[tuple[object, ...]]:
    event = SECURITY_EVENTS.c
    return (
        select(
            event.id,
            event.at,
            event.kind,
            event.user_id,
            USERS.c.email,
            event.client_id,
            APPLICATIONS.c.name,
            event.address,
            event.request_id,
            event.details,
        )
        .outerjoin(USERS, USERS.c.id == event.user_id)
        .outerjoin(APPLICATIONS, APPLICATIONS.c.client_id == event.client_id)
    )


def _read(connection: Connection, statement: Select[tuple[object, ...]]) -> Sequence[SecurityEvent]:
    return tuple(SecurityEvent(*row) for row in connection.execute(statement))
