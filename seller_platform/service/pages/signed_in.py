"""Pages that need a login.

Without one they redirect to the login. Their forms work only in the session that they were made for.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.access import Caller
from seller_platform.service.http.bodies import read_form
from seller_platform.service.pages.login import ForeignFormError, login_for
from seller_platform.service.pages.rendering import Page, redirect, render
from seller_platform.service.pages.sessions import BrowserSession, session_of, user_of
from seller_platform.service.pool import Connection, Store
from seller_platform.service.security_events import EventKind, NamedClient, record_event


@dataclass(frozen=True)
class SignedInRequest:
    """A request for a page by a user who is logged in; the form is empty unless the method is POST."""

    http: Request
    connection: Connection
    session: BrowserSession
    user: Caller
    form: Mapping[str, str]

    def render(self, template: str, *, status: int = 200, form_target: str = "", **values: object) -> Response:
        """Return a page for the user, whose forms carry the token of the session."""
        shared = {"user": self.user, "csrf_token": self.session.csrf_token}
        return render(template, {**values, **shared}, status=status, form_target=form_target)

    async def record(self, kind: EventKind, application: NamedClient | None = None, **details: object) -> None:
        """Record a security event of the user."""
        await record_event(
            self.connection, kind, request=self.http, user_id=self.user.id, application=application, details=details
        )


Answer = Callable[[SignedInRequest], Awaitable[Response]]


def page_of_user(store: Store, answer: Answer) -> Page:
    """Return a page that redirects to the login if no user is logged in.

    The page raises `ForeignFormError` if the form that was sent was not made for the session.
    """

    async def answer_user(request: Request) -> Response:
        session, form = session_of(request), await read_form(request) if request.method == "POST" else {}
        async with store.connection() as connection:
            user = await user_of(connection, session)
            if user is None or session is None:
                return redirect(login_for(request.scope["path"]))
            if request.method == "POST" and not session.owns(form.get("csrf_token", "")):
                raise ForeignFormError
            return await answer(SignedInRequest(request, connection, session, user, form))

    return answer_user
