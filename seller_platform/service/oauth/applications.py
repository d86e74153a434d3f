"""Registered OAuth applications: how the operator manages them, and how the endpoints read them."""

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import func, insert, select, update

from seller_platform.errors import RequestError
from seller_platform.service.access import hash_of
from seller_platform.service.oauth.registration_rules import check_application, looks_like
from seller_platform.service.pool import Connection, fetch_record
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import APPLICATIONS, USERS

_FIND = """
SELECT client_id, name, secret_hash, redirect_uri || further_redirect_uris AS redirect_uris, owner_id, verified_at,
       CASE WHEN old_secret_ends_at > now() THEN old_secret_hash END AS old_secret_hash,
       document_read_at IS NOT NULL AS has_document, resource
FROM service.applications
WHERE client_id = %s
"""

# An imitation got its name after what it imitates, unless an operator has verified the other one since.
_OTHERS = """
SELECT other.name
FROM service.applications AS this
JOIN service.applications AS other
  ON other.client_id <> this.client_id
 AND (other.owner_id IS DISTINCT FROM this.owner_id OR this.document_read_at IS NOT NULL)
 AND (other.verified_at IS NOT NULL OR other.named_at <= this.named_at)
WHERE this.client_id = %s AND this.verified_at IS NULL
"""


@dataclass(frozen=True)
class RegisteredApplication:
    """A registered application; without a secret it is a public client.

    Attributes:
        owner_id: The user who registered it; None: the operator did.
        verified_at: When an operator verified it as it is now.
        old_secret_hash: The hash of the secret before, while that still works.
        has_document: Whether it describes itself in the document at its client id, and was not registered.
        resource: The path of the only resource that its tokens are for; None is any.
    """

    client_id: str
    name: str
    secret_hash: bytes | None
    redirect_uris: Sequence[str]
    owner_id: int | None
    verified_at: datetime | None
    old_secret_hash: bytes | None
    has_document: bool
    resource: str | None

    @property
    def is_public(self) -> bool:
        return self.secret_hash is None

    @property
    def document_host(self) -> str | None:
        """The host at which it describes itself; None if it was registered."""
        return urlsplit(self.client_id).netloc if self.has_document else None

    def has_secret(self, secret: str) -> bool:
        """Whether a secret is the application's, or the one before that still works."""
        hashes = (self.secret_hash, self.old_secret_hash)
        return any(hmac.compare_digest(stored, hash_of(secret)) for stored in hashes if stored is not None)


@dataclass(frozen=True)
class ApplicationSummary:
    """A registered application as the operator's list shows it.

    Attributes:
        owner: The e-mail address of the user who registered it; None: the operator did.
    """

    client_id: str
    name: str
    owner: str | None
    redirect_uris: Sequence[str]
    is_public: bool
    verified_at: datetime | None


def add_application(
    database: Database, name: str, *redirect_uris: str, owner_id: int | None = None, is_verified: bool = False
) -> tuple[str, str]:
    """Register an application and return its id and its secret.

    Only a hash of the secret is stored, so that it cannot be shown again.

    Raises:
        InvalidApplicationError: The name or a redirect URI cannot be used.
    """
    secret = secrets.token_urlsafe(32)
    values = {"secret_hash": hash_of(secret), "owner_id": owner_id}
    return _add(database, name, redirect_uris, values, is_verified=is_verified), secret


def add_public_application(database: Database, name: str, *redirect_uris: str, is_verified: bool = False) -> str:
    """Register an application without a secret, which must use PKCE (RFC 7636).

    Returns:
        Its id.

    Raises:
        InvalidApplicationError: The name or a redirect URI cannot be used.
    """
    return _add(database, name, redirect_uris, {}, is_verified=is_verified)


def verify_application(database: Database, client_id: str) -> str:
    """Mark an application as verified, as it is now, and return its name.

    Raises:
        RequestError: No application has that id.
    """
    with database.begin() as connection:
        verified = update(APPLICATIONS).where(APPLICATIONS.c.client_id == client_id).values(verified_at=func.now())
        row = connection.execute(verified.returning(APPLICATIONS.c.name, APPLICATIONS.c.owner_id)).one_or_none()
        if row is None:
            raise RequestError(
                f"there is no application {client_id!r}; `seller-platform service application list` lists their ids",
                code="UnknownApplicationError",
            )
        facts = {"application": row.name}
        record_operator_event(
            connection, EventKind.APPLICATION_VERIFIED, user_id=row.owner_id, client_id=client_id, details=facts
        )
    return str(row.name)


def applications_of(database: Database) -> tuple[ApplicationSummary, ...]:
    """Return all applications, by name."""
    stored = APPLICATIONS.c
    statement = (
        select(
            stored.client_id,
            stored.name,
            USERS.c.email,
            stored.redirect_uri,
            stored.further_redirect_uris,
            stored.secret_hash.is_(None),
            stored.verified_at,
        )
        .outerjoin(USERS, USERS.c.id == stored.owner_id)
        .order_by(stored.name, stored.client_id)
    )
    with database.begin() as connection:
        return tuple(
            ApplicationSummary(client_id, name, owner, (first, *others), is_public, verified_at)
            for client_id, name, owner, first, others, is_public, verified_at in connection.execute(statement)
        )


def knows_application(database: Database, client_id: str) -> bool:
    """Whether an application of that id is registered."""
    with database.begin() as connection:
        stored = connection.execute(select(APPLICATIONS.c.client_id).where(APPLICATIONS.c.client_id == client_id))
        return stored.first() is not None


async def find_application(connection: Connection, client_id: str) -> RegisteredApplication | None:
    """Return the application of that id, or None where there is none."""
    return await fetch_record(connection, RegisteredApplication, _FIND, (client_id,))


async def is_lookalike(connection: Connection, application: RegisteredApplication) -> bool:
    """Whether an application has a name that looks like that of another owner's.

    The other one was registered before, or is verified; a verified application is never one.
    """
    others = await connection.execute(_OTHERS, (application.client_id,))
    return any(looks_like(application.name, name) for (name,) in await others.fetchall())


def _add(
    database: Database, name: str, redirect_uris: Sequence[str], values: Mapping[str, Any], *, is_verified: bool
) -> str:
    check_application(name, redirect_uris)
    client_id = secrets.token_urlsafe(16)
    first, *others = redirect_uris
    uris = {"redirect_uri": first, "further_redirect_uris": others}
    registered = {"client_id": client_id, "name": name, **uris, **values}
    with database.begin() as connection:
        verified_at = {"verified_at": func.now()} if is_verified else {}
        connection.execute(insert(APPLICATIONS).values({**registered, **verified_at}))
        kind, facts = EventKind.APPLICATION_REGISTERED, {"application": name, "redirect_uris": list(redirect_uris)}
        owner_id = values.get("owner_id")
        record_operator_event(connection, kind, user_id=owner_id, client_id=client_id, details=facts)
    return client_id
