"""Registered OAuth applications, for the operator."""

import ipaddress
import secrets
from urllib.parse import urlsplit

from sqlalchemy import insert, select

from seller_platform.errors import InvalidApplicationError
from seller_platform.service.access import hash_of
from seller_platform.service.parameters import is_storable
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.service_tables import APPLICATIONS

_LONGEST_NAME = 100
_LONGEST_URI = 2_000


def add_application(
    database: Database, name: str, redirect_uri: str, *, owner_id: int | None = None
) -> tuple[str, str]:
    """Register an application and return its id and its secret, which is not stored and so never shown again.

    Raises:
        InvalidApplicationError: The name or the redirect URI cannot be used.
    """
    if not name.strip() or len(name) > _LONGEST_NAME or not is_storable(name):
        raise InvalidApplicationError("name", f"must have 1 to {_LONGEST_NAME} characters")
    check_redirect_uri(redirect_uri)
    client_id, secret = secrets.token_urlsafe(16), secrets.token_urlsafe(32)
    with database.begin() as connection:
        connection.execute(
            insert(APPLICATIONS).values(
                client_id=client_id,
                name=name,
                secret_hash=hash_of(secret),
                redirect_uri=redirect_uri,
                owner_id=owner_id,
            )
        )
    return client_id, secret


def knows_application(database: Database, client_id: str) -> bool:
    """Whether an application of that id is registered."""
    with database.begin() as connection:
        found = connection.execute(select(APPLICATIONS.c.client_id).where(APPLICATIONS.c.client_id == client_id))
        return found.first() is not None


def check_redirect_uri(uri: str) -> None:
    """Return if users may be sent back to an address: absolute, no fragment, https unless on the own machine.

    Raises:
        InvalidApplicationError: They may not (RFC 6749 section 3.1.2, RFC 8252 section 8.3).
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
    if parts.scheme == "http" and not _is_loopback(host):
        raise _refused("must be https unless it is on the loopback interface", uri)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refused(problem: str, uri: str) -> InvalidApplicationError:
    return InvalidApplicationError("redirect URI", f"{problem}; it is {uri!r}")
