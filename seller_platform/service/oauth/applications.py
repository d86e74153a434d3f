"""OAuth applications: registered by the operator or by a user, or described by themselves in a document."""

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum, auto
from urllib.parse import urlsplit

from psycopg.rows import class_row

from seller_platform.contract.wire import MCP
from seller_platform.service.access import hash_of
from seller_platform.service.oauth.registration_rules import check_application
from seller_platform.service.pool import Connection, fetch_record, fetch_records
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.warehouse.postgres.database import Database, driver_of


class Origin(StrEnum):
    """Who says what an application is: the operator, the user who owns it, or its own document."""

    OPERATOR = auto()
    OWNER = auto()
    DOCUMENT = auto()


@dataclass(frozen=True)
class Application:
    """An OAuth application; without a secret it is a public client.

    Attributes:
        owner_id: The user who registered it.
        resource: The path of the only resource that its tokens are for; None is any.
        owner: The e-mail address of that user, in a list, as what follows.
        registered_at: When it was registered, or last approved as its document describes it.
        users: How many users have approved it.
    """

    client_id: str
    name: str
    redirect_uris: Sequence[str]
    origin: str
    owner_id: int | None = None
    resource: str | None = None
    secret_hash: bytes | None = field(default=None, repr=False)
    owner: str | None = None
    registered_at: datetime | None = None
    users: int = 0

    @property
    def is_public(self) -> bool:
        return self.secret_hash is None

    @property
    def is_host(self) -> bool:
        """Whether it is a host of agents: it describes itself in a document, or is registered for them alone."""
        return self.is_public and (self.origin == Origin.DOCUMENT or self.resource == MCP)

    @property
    def document_host(self) -> str | None:
        """The host at which it describes itself; None if it was registered."""
        return urlsplit(self.client_id).netloc if self.origin == Origin.DOCUMENT else None

    def has_secret(self, secret: str) -> bool:
        """Whether a secret is the application's."""
        return self.secret_hash is not None and hmac.compare_digest(self.secret_hash, hash_of(secret))


_FIND = """
SELECT client_id, name, redirect_uris, origin, owner_id, resource, secret_hash
FROM service.applications
WHERE client_id = %s
"""

_LIST = """
SELECT client_id, application.name, redirect_uris, origin, owner_id, resource, secret_hash, registered_at,
       owner.email AS owner,
       (SELECT count(DISTINCT consent.user_id)
        FROM service.authorizations AS consent
        WHERE consent.client_id = application.client_id AND consent.revoked_at IS NULL) AS users
FROM service.applications AS application
LEFT JOIN service.users AS owner ON owner.id = application.owner_id
WHERE %(owner_id)s::bigint IS NULL OR owner_id = %(owner_id)s
ORDER BY registered_at DESC, client_id
"""

_STORE = """
INSERT INTO service.applications (client_id, name, redirect_uris, origin, owner_id, resource, secret_hash)
VALUES (%(client_id)s, %(name)s, %(redirect_uris)s, %(origin)s, %(owner_id)s, %(resource)s, %(secret_hash)s)
ON CONFLICT (client_id) DO UPDATE
SET name = excluded.name, redirect_uris = excluded.redirect_uris, registered_at = excluded.registered_at
WHERE applications.origin = 'document' AND excluded.origin = 'document'
"""


def add_application(
    database: Database, name: str, *redirect_uris: str, resource: str | None = None, is_public: bool = False
) -> tuple[str, str]:
    """Register an application of the operator, and return its id and its secret, of which only a hash is stored.

    Args:
        is_public: It has no secret, which is returned as an empty text, and must use PKCE (RFC 7636).

    Raises:
        InvalidValueError: The name or a redirect URI cannot be used.
    """
    check_application(name, redirect_uris, is_host=is_public and resource == MCP)
    client_id, secret = secrets.token_urlsafe(16), "" if is_public else secrets.token_urlsafe(32)
    secret_hash = hash_of(secret) if secret else None
    application = Application(client_id, name, redirect_uris, Origin.OPERATOR, None, resource, secret_hash)
    with database.begin() as connection:
        driver_of(connection).execute(_STORE, _values(application))
        kind, facts = EventKind.APPLICATION_REGISTERED, {"application": name, "redirect_uris": list(redirect_uris)}
        record_operator_event(connection, kind, client_id=client_id, details=facts)
    return client_id, secret


def applications_of(database: Database) -> Sequence[Application]:
    """Return all applications, by name."""
    with database.begin() as connection, driver_of(connection).cursor(row_factory=class_row(Application)) as cursor:
        listed = cursor.execute(_LIST, {"owner_id": None}).fetchall()
    return sorted(listed, key=lambda application: (application.name, application.client_id))


async def find_application(connection: Connection, client_id: str) -> Application | None:
    """Return the application of that id, or None where there is none."""
    return await fetch_record(connection, Application, _FIND, (client_id,))


async def own_applications(connection: Connection, owner_id: int) -> Sequence[Application]:
    """Return the applications of a user, the newest first."""
    return await fetch_records(connection, Application, _LIST, {"owner_id": owner_id})


async def store_application(connection: Connection, application: Application) -> bool:
    """Store an application unless its id exists, and return whether it was stored; a document replaces what it said."""
    return (await connection.execute(_STORE, _values(application))).rowcount == 1


def _values(application: Application) -> dict[str, object]:
    return {**vars(application), "redirect_uris": list(application.redirect_uris)}
