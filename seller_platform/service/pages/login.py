"""The pages on which users log in and out.

GET /login shows the form; POST /login takes its fields `email`, `password` and the hidden `csrf_token` and `next`,
sets the session cookie and sends the browser on to `next`. POST /logout takes `csrf_token`.
"""

import re
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import AUTHORIZE
from seller_platform.errors import ApiError, TooManyAttemptsError
from seller_platform.service.access import hash_of
from seller_platform.service.http.bodies import read_form
from seller_platform.service.metrics import LoginOutcome, note_login
from seller_platform.service.pages.rendering import redirect, render
from seller_platform.service.pages.sessions import (
    BrowserSession,
    close_session,
    find_user,
    keep_session,
    new_session,
    open_session,
    session_of,
    user_of,
)
from seller_platform.service.pages.throttle import begin_attempt, forgive
from seller_platform.service.pool import Store
from seller_platform.service.users.passwords import LONGEST_PASSWORD, verify_password

LOGIN = "/login"
LOGOUT = "/logout"
DEVELOPERS = "/admin/developers"
APPROVALS = "/admin/applications"

_VERIFIED_AT_ONCE = 2  # each takes memory and a core
_WRONG = "E-mail address or password is wrong."
_STALE = "This page was open for too long. Please log in again."
_NEEDS_LOGIN = re.compile(
    rf"{AUTHORIZE}\?[!-~]*|{DEVELOPERS}(/new|/[A-Za-z0-9_-]+/(delete|edit|secret|secret/end))?|{APPROVALS}(/[A-Za-z0-9_-]+/end)?"
)


class Login:
    """The login page and the log-out."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turn = anyio.Semaphore(_VERIFIED_AT_ONCE)

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
        return self._form(request, session, destination)

    async def submit(self, request: Request) -> Response:
        """Answer POST /login."""
        session, form = session_of(request), await read_form(request)
        email, destination = form.get("email", "").strip(), _local(form.get("next", ""))
        if session is None or not session.owns(form.get("csrf_token", "")):
            return self._form(request, session, destination, problem=_STALE, email=email, status=403)
        try:
            address = request.client.host if request.client else "unknown"
            user_id = await self._verified(email, form.get("password", ""), address)
        except TooManyAttemptsError as error:
            note_login(request, LoginOutcome.THROTTLED)
            return self._form(
                request, session, destination, problem=error.message, email=email, status=429, headers=error.headers
            )
        note_login(request, LoginOutcome.REFUSED if user_id is None else LoginOutcome.ACCEPTED)
        if user_id is None:
            return self._form(request, session, destination, problem=_WRONG, email=email, status=401)
        async with self._store.connection() as connection:
            await close_session(connection, session)
            fresh = await open_session(connection, user_id)
        response = redirect(destination)
        keep_session(request, response, fresh)
        return response

    async def leave(self, request: Request) -> Response:
        """Answer POST /logout."""
        session, form = session_of(request), await read_form(request)
        if session is None or not session.owns(form.get("csrf_token", "")):
            raise ForeignFormError
        async with self._store.connection() as connection:
            await close_session(connection, session)
        return redirect(login_for(_local(form.get("next", ""))))

    async def _verified(self, email: str, password: str, address: str) -> int | None:
        """Return the user's number if the password is right, or None; a failure counts."""
        async with self._turn:
            async with self._store.connection() as connection:
                user = await find_user(connection, email)
                # Counted by the user's number, because several spellings of an address find the same user.
                subject = str(user.id) if user else hash_of(email.lower()).hex()
                attempt = await begin_attempt(connection, subject, address)
            is_right = len(password) <= LONGEST_PASSWORD and await anyio.to_thread.run_sync(
                verify_password, user.password_hash if user else None, password
            )
        if user is None or not is_right or user.status != "active":
            return None
        async with self._store.connection() as connection:
            await forgive(connection, attempt)
        return user.id

    def _form(
        self,
        request: Request,
        session: BrowserSession | None,
        destination: str,
        *,
        problem: str | None = None,
        email: str = "",
        status: int = 200,
        headers: dict[str, str] | None = None,
    ) -> Response:
        kept = session or new_session()
        values = {"problem": problem, "email": email, "next": destination, "csrf_token": kept.csrf_token}
        response = render("login.html", values, status=status, headers=headers)
        keep_session(request, response, kept)
        return response


class ForeignFormError(ApiError):
    """A form was not made for the session that sends it."""

    status = 403

    def __init__(self) -> None:
        super().__init__("This form does not belong to your session. Go back, reload the page and try again.")


def login_for(destination: str) -> str:
    """Return the URL of the login that continues to a page of the service."""
    return f"{LOGIN}?{urlencode({'next': destination})}" if destination != LOGIN else LOGIN


def _local(destination: str) -> str:
    """Return the destination if it is a page that needs a login, else the login."""
    return destination if _NEEDS_LOGIN.fullmatch(destination) else LOGIN
