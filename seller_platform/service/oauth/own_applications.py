"""The applications of a user: registered, changed and deleted by their owner, and their secrets."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from seller_platform.service.access import hash_of
from seller_platform.service.pool import Connection, fetch_records

_OWN = """
SELECT application.client_id, application.name,
       application.redirect_uri || application.further_redirect_uris AS redirect_uris, application.created_at,
       application.secret_hash IS NULL AS is_public, application.verified_at,
       coalesce(application.secret_created_at, application.created_at) AS secret_created_at,
       CASE WHEN application.old_secret_ends_at > now() THEN application.old_secret_ends_at END AS old_secret_ends_at,
       (SELECT count(DISTINCT consent.user_id)
        FROM service.authorizations AS consent
        WHERE consent.client_id = application.client_id AND consent.revoked_at IS NULL) AS users
FROM service.applications AS application
WHERE application.owner_id = %s
ORDER BY application.created_at DESC, application.client_id
"""

_REGISTER = """
INSERT INTO service.applications (client_id, name, secret_hash, redirect_uri, further_redirect_uris, owner_id)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""

# An operator has verified this name with these redirect URIs, and no others.
_CHANGE = """
UPDATE service.applications
SET name = %(name)s, named_at = CASE WHEN name = %(name)s THEN named_at ELSE now() END,
    redirect_uri = %(first)s, further_redirect_uris = %(others)s,
    verified_at = CASE
        WHEN name = %(name)s AND redirect_uri = %(first)s AND further_redirect_uris = %(others)s THEN verified_at
    END
WHERE client_id = %(client_id)s AND owner_id IS NOT DISTINCT FROM %(owner_id)s
"""

# While the secret before works there is no third one: a form that is sent again must not end the secret in use.
_ROTATE = """
UPDATE service.applications
SET old_secret_hash = secret_hash, old_secret_ends_at = now() + %s, secret_hash = %s, secret_created_at = now()
WHERE client_id = %s AND owner_id = %s AND secret_hash IS NOT NULL
  AND (old_secret_ends_at IS NULL OR old_secret_ends_at <= now())
"""

_END_OLD = """
UPDATE service.applications SET old_secret_hash = NULL, old_secret_ends_at = NULL
WHERE client_id = %s AND owner_id = %s AND old_secret_ends_at > now()
"""


@dataclass(frozen=True)
class OwnApplication:
    """An application of a user.

    Attributes:
        is_public: Whether it has no secret, and must use PKCE.
        verified_at: When an operator verified it as it is now.
        old_secret_ends_at: When the secret before ends; None: there is none that works.
        users: How many users have approved it.
    """

    client_id: str
    name: str
    redirect_uris: Sequence[str]
    created_at: datetime
    is_public: bool
    verified_at: datetime | None
    secret_created_at: datetime
    old_secret_ends_at: datetime | None
    users: int


async def own_applications(connection: Connection, owner_id: int) -> Sequence[OwnApplication]:
    """Return the applications of a user, the newest first."""
    return await fetch_records(connection, OwnApplication, _OWN, (owner_id,))


async def register_application(
    connection: Connection,
    client_id: str,
    secret: str | None,
    name: str,
    redirect_uris: Sequence[str],
    *,
    owner_id: int | None,
) -> bool:
    """Register a user's application unless its id exists, and return whether it was registered.

    Args:
        secret: None makes it public: it must use PKCE.
        owner_id: None for a client that describes itself.
    """
    first, *others = redirect_uris
    values = (client_id, name, hash_of(secret) if secret is not None else None, first, others, owner_id)
    return (await connection.execute(_REGISTER, values)).rowcount == 1


async def change_application(
    connection: Connection, client_id: str, name: str, redirect_uris: Sequence[str], *, owner_id: int | None
) -> None:
    """Change the name and the redirect URIs of an application; a change ends its verification."""
    first, *others = redirect_uris
    values = {"name": name, "first": first, "others": others, "client_id": client_id, "owner_id": owner_id}
    await connection.execute(_CHANGE, values)


async def add_secret(
    connection: Connection, client_id: str, secret: str, *, old_ends_after: timedelta, owner_id: int
) -> bool:
    """Give a user's application a new secret beside the old one, unless two secrets work already.

    Returns:
        Whether it has the new secret.
    """
    values = (old_ends_after, hash_of(secret), client_id, owner_id)
    return (await connection.execute(_ROTATE, values)).rowcount == 1


async def end_old_secret(connection: Connection, client_id: str, *, owner_id: int) -> bool:
    """End the secret before the newest one, and return whether one worked."""
    return (await connection.execute(_END_OLD, (client_id, owner_id))).rowcount == 1


async def delete_application(connection: Connection, client_id: str, *, owner_id: int) -> None:
    """Delete a user's application, with all codes and tokens issued to it."""
    await connection.execute(
        "DELETE FROM service.applications WHERE client_id = %s AND owner_id = %s", (client_id, owner_id)
    )
