"""The pages on which users log in and out.

GET /login shows the form; POST /login takes its fields `email`, `password` and the hidden `csrf_token` and `next`,
sets the session cookie and sends the browser on to `next`. POST /logout takes `csrf_token`.

Too many failures of an address or of a user within 15 minutes lock it until the 15 minutes are over. PostgreSQL
counts the attempts for all processes together. An attempt is counted before its password is checked, in one statement,
so that simultaneous attempts cannot exceed the limit. One that is refused is uncounted. So is a successful login, which
deletes the failures of the user.
"""

import math
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import AUTHORIZE
from seller_platform.counts import count_of
from seller_platform.service.access import hash_of
from seller_platform.service.errors import ApiError, TooManyAttemptsError
from seller_platform.service.http.addresses import network_of, network_of_client
from seller_platform.service.http.bodies import read_form
from seller_platform.service.pages.rendering import redirect, render
from seller_platform.service.pages.sessions import BrowserSession, LoginOptions, open_session, session_of, user_of
from seller_platform.service.pool import Connection, Store
from seller_platform.service.security_events import EventKind, record_event
from seller_platform.service.users.passwords import in_background, verify_password

LOGIN = "/login"
LOGOUT = "/logout"
DEVELOPERS = "/admin/developers"
APPROVALS = "/admin/applications"
ACCOUNT = "/admin/account"
"""The page on which users change their password."""

_NOTICES = {"password": "Your new password is set. Log in with it."}
_LONGEST_EMAIL = 254
_FIND_USER = "SELECT id, password_hash, status FROM service.users WHERE lower(email) = lower(%s)"
_NEEDS_LOGIN = re.compile(
    rf"{AUTHORIZE}\?[!-~]*|{DEVELOPERS}(/new|/[A-Za-z0-9_-]+/(delete|edit|secret))?"
    rf"|{APPROVALS}(/[A-Za-z0-9_-]+/end)?|{ACCOUNT}"
)

WINDOW = timedelta(minutes=15)
MOST_OF_AN_ADDRESS = 10
MOST_OF_A_USER = 20

# An end that is further away than the window was written before the clock was set back.
_COUNT = """
INSERT INTO service.login_attempts AS kept (subject, failures, expires_at)
SELECT subject, 1, clock_timestamp() + %(window)s FROM unnest(%(subjects)s::text[]) AS subject
ON CONFLICT (subject) DO UPDATE SET (failures, expires_at) = (
    SELECT CASE WHEN is_current THEN kept.failures + 1 ELSE 1 END,
           CASE WHEN is_current THEN kept.expires_at ELSE clock_timestamp() + %(window)s END
    FROM (SELECT kept.expires_at BETWEEN clock_timestamp() AND clock_timestamp() + %(window)s AS is_current) AS counted
)
RETURNING failures, extract(epoch FROM expires_at - clock_timestamp())
"""
_GIVE_BACK = "UPDATE service.login_attempts SET failures = failures - 1 WHERE subject = ANY(%s) AND failures > 0"


class Login:
    """The login page and the log-out."""

    def __init__(self, store: Store, options: LoginOptions) -> None:
        self._store, self._options = store, options

    async def show(self, request: Request) -> Response:
        """Answer GET /login."""
        session = session_of(request)
        destination = _local(request.query_params.get("next", ""))
        async with self._store.connection() as connection:
            user = await user_of(connection, session)
        if user is not None and session is not None:
            if destination != LOGIN:
                return redirect(destination)
            return render("logged_in.html", {"user": user, "csrf_token": session.csrf_token})
        notice = _NOTICES.get(request.query_params.get("notice", ""))
        return self._form(request, session, destination, notice=notice)

    async def submit(self, request: Request) -> Response:
        """Answer POST /login."""
        session, form = session_of(request), await read_form(request)
        email, destination = form.get("email", "").strip(), _local(form.get("next", ""))
        again = partial(self._form, request, session, destination, email=email)
        if session is None or not session.owns(form.get("csrf_token", "")):
            return again(problem="This page was open for too long. Please log in again.", status=403)
        try:
            user_id = await verified_user(self._store.connection, request, email, form.get("password", ""))
        except TooManyAttemptsError as error:
            refused = again(problem=error.message, status=error.status)
            refused.headers.update(error.headers)
            return refused
        if user_id is None:
            return again(problem="E-mail address or password is wrong.", status=401)
        response = redirect(destination)
        async with self._store.connection() as connection, connection.transaction():
            await session.close(connection)
            fresh = await open_session(connection, user_id, self._options)
            await record_event(connection, EventKind.LOGIN_SUCCEEDED, request=request, user_id=user_id)
        fresh.keep(request, response)
        return response

    async def leave(self, request: Request) -> Response:
        """Answer POST /logout."""
        session, form = session_of(request), await read_form(request)
        if session is None or not session.owns(form.get("csrf_token", "")):
            raise ForeignFormError
        async with self._store.connection() as connection:
            user = await user_of(connection, session)
            await session.close(connection)
            if user is not None:
                await record_event(connection, EventKind.LOGGED_OUT, request=request, user_id=user.id)
        return redirect(login_for(_local(form.get("next", ""))))

    def _form(
        self, request: Request, session: BrowserSession | None, destination: str, *, status: int = 200, **shown: Any
    ) -> Response:
        kept = session or BrowserSession()
        fixed = {"next": destination, "contact": self._options.contact, "csrf_token": kept.csrf_token}
        values = {"problem": None, "notice": None, "email": "", **shown, **fixed}
        response = render("login.html", values, status=status)
        kept.keep(request, response)
        return response


@dataclass(frozen=True)
class Attempt:
    """An attempt to log in, and the subjects by which it is counted.

    Attributes:
        failures_of_account: How many attempts of the user are counted, with this one.
        failures_of_address: How many of the address.
    """

    account: str
    address: str
    failures_of_account: int
    failures_of_address: int


class ForeignFormError(ApiError):
    """A form was not made for the session that sends it."""

    status = 403

    def __init__(self) -> None:
        super().__init__("This form does not belong to your session. Go back, reload the page and try again.")


def login_for(destination: str) -> str:
    """Return the URL of the login that continues to a page of the service."""
    return f"{LOGIN}?{urlencode({'next': destination})}" if destination != LOGIN else LOGIN


async def verified_user(
    connect: Callable[[], AbstractAsyncContextManager[Connection]], request: Request, email: str, password: str
) -> int | None:
    """Return the user of an e-mail address if the password is right, by number, or None; a failure counts.

    Args:
        connect: Lends a connection; none is needed while the password is verified.
    """
    address = request.client.host if request.client else "unknown"
    async with connect() as connection:
        user = await (await connection.execute(_FIND_USER, (email,))).fetchone()
        user_id: int | None = None
        user_id, password_hash, status = user or (None, None, None)
        # Counted by the user's number, because several spellings of an address find the same user.
        attempt = await begin_attempt(connection, str(user_id or hash_of(email.lower()).hex()), address)
    matches = await in_background(verify_password, password_hash, password)
    async with connect() as connection:
        if not matches or status != "active":
            await _record_failure(connection, request, email, user_id, attempt)
            return None
        await connection.execute("DELETE FROM service.login_attempts WHERE subject = %s", (attempt.account,))
        await connection.execute(_GIVE_BACK, ([attempt.address],))
    return user_id


async def begin_attempt(connection: Connection, user: str, address: str) -> Attempt:
    """Count an attempt to log in as failed, until a right password uncounts it.

    Raises:
        TooManyAttemptsError: There were too many attempts; it says when the next is allowed.
    """
    by_account, by_address = subjects = [f"account {user}", f"address {network_of(address)}"]
    counted = await connection.execute(_COUNT, {"subjects": subjects, "window": WINDOW})
    of_account, of_address = await counted.fetchall()
    allowed = ((of_account, MOST_OF_A_USER), (of_address, MOST_OF_AN_ADDRESS))
    if waits := [seconds for (failures, seconds), most in allowed if failures > most]:
        await connection.execute(_GIVE_BACK, (subjects,))
        seconds = max(1, math.ceil(max(waits)))
        text = count_of(math.ceil(seconds / 60), "minute") if seconds > 60 else count_of(seconds, "second")
        raise TooManyAttemptsError(
            f"There were too many attempts to log in. Try again in {text}.", retry_after_seconds=seconds
        )
    return Attempt(by_account, by_address, of_account[0], of_address[0])


async def _record_failure(
    connection: Connection, request: Request, email: str, user_id: int | None, attempt: Attempt
) -> None:
    """Record a failed login, and the lock that begins with it."""
    record, details = partial(record_event, connection, request=request), {"email": email[:_LONGEST_EMAIL]}
    await record(EventKind.LOGIN_FAILED, user_id=user_id, details=details)
    if attempt.failures_of_account == MOST_OF_A_USER:
        locked = {**details, "locked": "the user, for 15 minutes"}
        await record(EventKind.LOGIN_LOCKED, user_id=user_id, details=locked)
    if attempt.failures_of_address == MOST_OF_AN_ADDRESS:
        locked = {"locked": "the address, for 15 minutes", "network": network_of_client(request)}
        await record(EventKind.LOGIN_LOCKED, details=locked)


def _local(destination: str) -> str:
    """Return the destination if it is a page that needs a login, else the login."""
    return destination if _NEEDS_LOGIN.fullmatch(destination) else LOGIN
