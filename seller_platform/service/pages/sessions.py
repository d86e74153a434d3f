"""Browser sessions: users who are logged in, by the hash of a random cookie.

A session ends some hours after its login, and earlier when it is not used.
"""

import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.access import Caller, hash_of
from seller_platform.service.pool import Connection, fetch_record

_COOKIE = "seller_platform_session"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_USER = """
SELECT users.id, users.name, users.email, users.status
FROM service.sessions AS session
JOIN service.users AS users ON users.id = session.user_id AND users.status = 'active'
WHERE session.session_hash = %(hash)s AND session.expires_at > now()
  AND session.last_used_at > now() - make_interval(secs => session.idle_seconds)
"""
_NOTE_USE = """
UPDATE service.sessions SET last_used_at = now()
WHERE session_hash = %(hash)s AND last_used_at < now() - interval '1 minute'
"""
_OPEN = """
INSERT INTO service.sessions (session_hash, user_id, expires_at, idle_seconds) VALUES (%s, %s, now() + %s, %s)
"""


@dataclass(frozen=True)
class LoginOptions:
    """What the operator decides about logins.

    Attributes:
        contact: Whom users ask who forgot their password.
        absolute: How long after the login a session ends.
        idle: How long after its last use.
    """

    contact: str = "the operator of this service"
    absolute: timedelta = timedelta(hours=12)
    idle: timedelta = timedelta(hours=2)


@dataclass(frozen=True)
class BrowserSession:
    """The session of a browser, before and after login: its secret cookie, by default a fresh one."""

    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def csrf_token(self) -> str:
        """The token in the forms of this session, which only the cookie gives."""
        return hmac.new(self.secret.encode(), b"csrf", "sha256").hexdigest()

    def owns(self, csrf_token: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.csrf_token.encode(), csrf_token.encode("utf-8", "replace"))

    def keep(self, request: Request, response: Response) -> None:
        """Set the cookie, which a browser keeps until it is closed."""
        is_https = request.scope["scheme"] == "https"
        response.set_cookie(
            _cookie_name(request), self.secret, path="/", secure=is_https, httponly=True, samesite="lax"
        )

    async def close(self, connection: Connection) -> None:
        """Log out the user."""
        await connection.execute("DELETE FROM service.sessions WHERE session_hash = %s", (hash_of(self.secret),))


def session_of(request: Request) -> BrowserSession | None:
    """Return the session of a request, or None for a new browser."""
    secret = request.cookies.get(_cookie_name(request), "")
    return BrowserSession(secret) if _SECRET.fullmatch(secret) else None


async def open_session(connection: Connection, user_id: int, limits: LoginOptions) -> BrowserSession:
    """Log a user in and return the session, which has a fresh secret."""
    session = BrowserSession()
    values = (hash_of(session.secret), user_id, limits.absolute, int(limits.idle.total_seconds()))
    await connection.execute(_OPEN, values)
    return session


async def user_of(connection: Connection, session: BrowserSession | None) -> Caller | None:
    """Return the user who is logged in with a session, or None; it counts as a use of the session."""
    if session is None:
        return None
    values = {"hash": hash_of(session.secret)}
    user = await fetch_record(connection, Caller, _USER, values)
    if user is not None:
        await connection.execute(_NOTE_USE, values)
    return user


def _cookie_name(request: Request) -> str:
    # With this prefix, browsers refuse a cookie that another host of the domain has set (RFC 6265bis).
    return f"__Host-{_COOKIE}" if request.scope["scheme"] == "https" else _COOKIE
