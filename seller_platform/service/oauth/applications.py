"""Registers and deletes OAuth applications, for the operator and for their owners."""

import ipaddress
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy import insert, select

from seller_platform.errors import InvalidApplicationError
from seller_platform.service.access import hash_of
from seller_platform.service.pool import Connection, fetch_records
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import APPLICATIONS

_LONGEST_NAME = 100
_LONGEST_URI = 2_000
# The host is written into the content security policy of the consent page, where other characters have a meaning.
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")

_OWN = """
SELECT application.client_id, application.name, application.redirect_uri, application.created_at,
       application.secret_hash IS NULL AS is_public,
       (SELECT count(DISTINCT consent.user_id)
        FROM service.authorizations AS consent
        WHERE consent.client_id = application.client_id AND consent.revoked_at IS NULL) AS users
FROM service.applications AS application
WHERE application.owner_id = %s
ORDER BY application.created_at DESC, application.client_id
"""

_REGISTER = """
INSERT INTO service.applications (client_id, name, secret_hash, redirect_uri, owner_id)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class OwnApplication:
    """An application of a user.

    Attributes:
        is_public: Whether it has no secret, and must use PKCE.
        users: How many users have approved it.
    """

    client_id: str
    name: str
    redirect_uri: str
    created_at: datetime
    is_public: bool
    users: int


def add_application(
    database: Database, name: str, redirect_uri: str, *, owner_id: int | None = None
) -> tuple[str, str]:
    """Register an application and return its id and its secret.

    Only a hash of the secret is stored, so that it cannot be shown again.

    Raises:
        InvalidApplicationError: The name or the redirect URI cannot be used.
    """
    secret = secrets.token_urlsafe(32)
    return _add(database, name, redirect_uri, secret_hash=hash_of(secret), owner_id=owner_id), secret


def add_public_application(database: Database, name: str, redirect_uri: str) -> str:
    """Register an application without a secret, which must use PKCE (RFC 7636).

    Returns:
        Its id.

    Raises:
        InvalidApplicationError: The name or the redirect URI cannot be used.
    """
    return _add(database, name, redirect_uri, secret_hash=None, owner_id=None)


def knows_application(database: Database, client_id: str) -> bool:
    """Whether an application of that id is registered."""
    with database.begin() as connection:
        stored = connection.execute(select(APPLICATIONS.c.client_id).where(APPLICATIONS.c.client_id == client_id))
        return stored.first() is not None


def check_application(name: str, redirect_uri: str) -> None:
    """Return if an application may be registered with these values.

    Raises:
        InvalidApplicationError: A value cannot be used. Names hold no invisible characters, so that none looks like
            another.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise InvalidApplicationError("name", f"must have 1 to {_LONGEST_NAME} printable characters")
    check_redirect_uri(redirect_uri)


def check_redirect_uri(uri: str) -> None:
    """Return if a redirect URI is absolute, without fragment, and https unless on loopback.

    Raises:
        InvalidApplicationError: It is not (RFC 6749 section 3.1.2, RFC 8252 section 8.3).
    """
    if len(uri) > _LONGEST_URI or not uri.isascii() or not uri.isprintable() or " " in uri or "\\" in uri:
        raise _refused("must be a URI of at most 2000 ASCII characters without spaces", uri)
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _refused("must be a URI", uri) from None
    if parts.scheme not in ("http", "https") or not host:
        raise _refused("must be an absolute http or https URI", uri)
    if "#" in uri:
        raise _refused("must have no fragment", uri)
    if parts.username is not None or parts.password is not None:
        raise _refused("must hold no user or password", uri)
    if not _HOST.fullmatch(host):
        raise _refused("must name a host in letters, digits, hyphens and dots, or an IP address", uri)
    if parts.scheme == "http" and not _is_loopback(host):
        raise _refused("must be https unless it is on the loopback interface", uri)


async def own_applications(connection: Connection, owner_id: int) -> Sequence[OwnApplication]:
    """Return the applications of a user, the newest first."""
    return await fetch_records(connection, OwnApplication, _OWN, (owner_id,))


async def register_application(
    connection: Connection, client_id: str, secret: str | None, name: str, redirect_uri: str, *, owner_id: int
) -> bool:
    """Register a user's application unless its id exists, and return whether it was registered.

    Args:
        secret: None makes it public: it must use PKCE.
    """
    values = (client_id, name, hash_of(secret) if secret is not None else None, redirect_uri, owner_id)
    return (await connection.execute(_REGISTER, values)).rowcount == 1


async def delete_application(connection: Connection, client_id: str, *, owner_id: int) -> None:
    """Delete a user's application, with all codes and tokens issued to it."""
    await connection.execute(
        "DELETE FROM service.applications WHERE client_id = %s AND owner_id = %s", (client_id, owner_id)
    )


def _add(database: Database, name: str, redirect_uri: str, *, secret_hash: bytes | None, owner_id: int | None) -> str:
    check_application(name, redirect_uri)
    client_id = secrets.token_urlsafe(16)
    values = {"name": name, "secret_hash": secret_hash, "redirect_uri": redirect_uri, "owner_id": owner_id}
    with database.begin() as connection:
        connection.execute(insert(APPLICATIONS).values(client_id=client_id, **values))
    return client_id


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(problem: str, uri: str) -> InvalidApplicationError:
    return InvalidApplicationError("redirect URI", f"{problem}; it is {uri!r}")
