"""Changes passwords: by the user, or by a link of the operator that works once."""

import secrets
from datetime import timedelta

from sqlalchemy import func, insert

from seller_platform.service.access import Caller, hash_of
from seller_platform.service.pool import Connection, Store, fetch_record
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.service.tables import RESET_LINKS
from seller_platform.service.users.store import open_user
from seller_platform.warehouse.postgres.database import Database

_OWNER = """
SELECT users.id, users.name, users.email, users.status
FROM service.reset_links AS link
JOIN service.users AS users ON users.id = link.user_id AND users.status = 'active'
WHERE link.token_hash = %s AND link.expires_at > now()
"""
_USE = "DELETE FROM service.reset_links WHERE token_hash = %s AND expires_at > now() RETURNING user_id"
_STORE_HASH = "UPDATE service.users SET password_hash = %(password_hash)s WHERE id = %(user_id)s"
_END_SESSIONS = """
WITH links AS (DELETE FROM service.reset_links WHERE user_id = %(user_id)s),
     attempts AS (DELETE FROM service.login_attempts WHERE subject = 'account ' || %(user_id)s::bigint)
DELETE FROM service.sessions WHERE user_id = %(user_id)s AND session_hash <> %(kept)s
"""


def create_reset_link(database: Database, email: str, valid_for: timedelta) -> str:
    """Store a link for a user's new password, and return its token; former links stay valid."""
    token = secrets.token_urlsafe(32)
    with open_user(database, email) as (connection, user_id):
        values = {"token_hash": hash_of(token), "user_id": user_id, "expires_at": func.now() + valid_for}
        connection.execute(insert(RESET_LINKS).values(values))
        details = {"hours": valid_for / timedelta(hours=1)}
        record_operator_event(connection, EventKind.RESET_LINK_CREATED, user_id=user_id, details=details)
    return token


async def owner_of_link(store: Store, token: str) -> Caller | None:
    """Return the user of a reset link; None if it is used, expired or unknown."""
    async with store.connection() as connection:
        return await fetch_record(connection, Caller, _OWNER, (hash_of(token),))


async def use_link(connection: Connection, token: str, password_hash: str) -> bool:
    """Set the password by a link, which ends the link and all sessions; return False if it is used already."""
    row = await (await connection.execute(_USE, (hash_of(token),))).fetchone()
    if row is None:
        return False
    await store_password(connection, int(row[0]), password_hash)
    return True


async def store_password(connection: Connection, user_id: int, password_hash: str, *, kept_session: str = "") -> None:
    """Store a new password, and end the user's sessions and links."""
    values = {"user_id": user_id, "password_hash": password_hash, "kept": hash_of(kept_session)}
    await connection.execute(_STORE_HASH, values)
    await connection.execute(_END_SESSIONS, values)
