"""Browser sessions: users who are logged in, by the hash of a random cookie.

A session ends some hours after its login, and earlier when it is not used. A browser in which a user has logged in is
remembered for longer, by the hash of another random cookie: this alone logs nobody in.
"""

import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.access import Caller, hash_of
from seller_platform.service.pool import Connection, fetch_record, fetch_records

_COOKIE = "seller_platform_session"
_BROWSER_COOKIE = "seller_platform_browser"
_BROWSER_IS_KNOWN_FOR = timedelta(days=180)
_LONGEST_BROWSER = 300
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
INSERT INTO service.sessions (session_hash, user_id, expires_at, idle_seconds, address, browser)
VALUES (%s, %s, now() + %s, %s, %s, %s)
"""
_SESSIONS = """
SELECT id, address, browser, created_at, last_used_at, session_hash = %(hash)s AS is_this
FROM service.sessions
WHERE user_id = %(user_id)s AND expires_at > now()
  AND last_used_at > now() - make_interval(secs => idle_seconds)
ORDER BY is_this DESC, last_used_at DESC, id
"""
_END = "DELETE FROM service.sessions WHERE user_id = %(user_id)s AND id = %(id)s"
_END_OTHERS = "DELETE FROM service.sessions WHERE user_id = %(user_id)s AND session_hash <> %(hash)s"
_REMEMBER = """
INSERT INTO service.known_browsers (browser_hash, user_id, expires_at) VALUES (%s, %s, now() + %s)
"""
_FORGET = "DELETE FROM service.known_browsers WHERE browser_hash = %s AND user_id = %s"
_IS_KNOWN = "SELECT FROM service.known_browsers WHERE browser_hash = %s AND user_id = %s AND expires_at > now()"
_FIND_USER = "SELECT id, password_hash, status FROM service.users WHERE lower(email) = lower(%s)"


@dataclass(frozen=True)
class SessionLimits:
    """When sessions end.

    Attributes:
        absolute: How long after the login.
        idle: How long after the last use.
    """

    absolute: timedelta = timedelta(hours=12)
    idle: timedelta = timedelta(hours=2)


@dataclass(frozen=True)
class OpenSession:
    """A session of a user, as the page of sessions lists it."""

    id: int
    address: str | None
    browser: str | None
    created_at: datetime
    last_used_at: datetime
    is_this: bool


@dataclass(frozen=True)
class StoredUser:
    """The fields of a user that the login needs."""

    id: int
    password_hash: str
    status: str


@dataclass(frozen=True)
class BrowserSession:
    """The session of a browser, before and after login: its secret cookie."""

    secret: str

    @property
    def csrf_token(self) -> str:
        """The token in the forms of this session, which only the cookie gives."""
        return hmac.new(self.secret.encode(), b"csrf", "sha256").hexdigest()

    def owns(self, csrf_token: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.csrf_token.encode(), csrf_token.encode("utf-8", "replace"))


def session_of(request: Request) -> BrowserSession | None:
    """Return the session of a request, or None for a new browser."""
    secret = _sent_secret(request, _COOKIE)
    return BrowserSession(secret) if secret is not None else None


def new_session() -> BrowserSession:
    """Return a session with a fresh secret."""
    return BrowserSession(secrets.token_urlsafe(32))


def keep_session(request: Request, response: Response, session: BrowserSession) -> None:
    """Set the session cookie, which a browser keeps until it is closed."""
    _set_cookie(request, response, _COOKIE, session.secret)


async def open_session(connection: Connection, user_id: int, request: Request, limits: SessionLimits) -> BrowserSession:
    """Log a user in and return the session, which has a fresh secret."""
    session = new_session()
    address = request.client.host if request.client else None
    browser = request.headers.get("user-agent", "").replace("\0", "")[:_LONGEST_BROWSER] or None
    idle_seconds = int(limits.idle.total_seconds())
    values = (hash_of(session.secret), user_id, limits.absolute, idle_seconds, address, browser)
    await connection.execute(_OPEN, values)
    return session


async def close_session(connection: Connection, session: BrowserSession) -> None:
    """Log out the user of a session."""
    await connection.execute("DELETE FROM service.sessions WHERE session_hash = %s", (hash_of(session.secret),))


async def user_of(connection: Connection, session: BrowserSession | None) -> Caller | None:
    """Return the user who is logged in with a session, or None; it counts as a use of the session."""
    if session is None:
        return None
    values = {"hash": hash_of(session.secret)}
    user = await fetch_record(connection, Caller, _USER, values)
    if user is not None:
        await connection.execute(_NOTE_USE, values)
    return user


async def sessions_of(connection: Connection, user_id: int, session: BrowserSession) -> Sequence[OpenSession]:
    """Return the sessions of a user, this one first."""
    values = {"user_id": user_id, "hash": hash_of(session.secret)}
    return await fetch_records(connection, OpenSession, _SESSIONS, values)


async def end_session(connection: Connection, user_id: int, number: int) -> bool:
    """End a session of a user by its number, and return whether there was one."""
    return (await connection.execute(_END, {"user_id": user_id, "id": number})).rowcount > 0


async def end_other_sessions(connection: Connection, user_id: int, session: BrowserSession) -> int:
    """End all sessions of a user but this one, and return how many."""
    values = {"user_id": user_id, "hash": hash_of(session.secret)}
    return (await connection.execute(_END_OTHERS, values)).rowcount


async def known_browser(connection: Connection, request: Request, user_id: int) -> str | None:
    """Return the hash of the browser's cookie if the user has logged in with it before, else None."""
    secret = _sent_secret(request, _BROWSER_COOKIE)
    if secret is None:
        return None
    found = await (await connection.execute(_IS_KNOWN, (hash_of(secret), user_id))).fetchone()
    return hash_of(secret).hex() if found is not None else None


async def remember_browser(connection: Connection, request: Request, response: Response, user_id: int) -> None:
    """Let a browser be known as one in which the user has logged in.

    The cookie gets a fresh secret each time, so that one that another person has set is of no use to them.
    """
    former, secret = _sent_secret(request, _BROWSER_COOKIE), secrets.token_urlsafe(32)
    if former is not None:
        await connection.execute(_FORGET, (hash_of(former), user_id))
    await connection.execute(_REMEMBER, (hash_of(secret), user_id, _BROWSER_IS_KNOWN_FOR))
    _set_cookie(request, response, _BROWSER_COOKIE, secret, lasts=_BROWSER_IS_KNOWN_FOR)


async def find_user(connection: Connection, email: str) -> StoredUser | None:
    """Return the user with an e-mail address, or None."""
    return await fetch_record(connection, StoredUser, _FIND_USER, (email,))


def _sent_secret(request: Request, cookie: str) -> str | None:
    secret = request.cookies.get(_cookie_name(request, cookie), "")
    return secret if _SECRET.fullmatch(secret) else None


def _set_cookie(
    request: Request, response: Response, name: str, secret: str, *, lasts: timedelta | None = None
) -> None:
    response.set_cookie(
        _cookie_name(request, name),
        secret,
        max_age=int(lasts.total_seconds()) if lasts else None,
        path="/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="lax",
    )


def _cookie_name(request: Request, name: str) -> str:
    # With this prefix, browsers refuse a cookie that another host of the domain has set (RFC 6265bis).
    return f"__Host-{name}" if request.scope["scheme"] == "https" else name
