"""Pages of a user who is logged in: without a login they lead to it, and their forms are for nobody else."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.access import Caller
from seller_platform.service.http.bodies import read_form
from seller_platform.service.pages.login import ForeignFormError, login_for
from seller_platform.service.pages.rendering import Page, redirect
from seller_platform.service.pages.sessions import BrowserSession, session_of, user_of
from seller_platform.service.pool import Connection, Store


@dataclass(frozen=True)
class SignedInRequest:
    """A request for one of the pages, by a user who is logged in; `form` is empty unless one was sent."""

    http: Request
    connection: Connection
    session: BrowserSession
    user: Caller
    form: Mapping[str, str]


Answer = Callable[[SignedInRequest], Awaitable[Response]]


def page_of_user(store: Store, answer: Answer) -> Page:
    """Return a page of the user's own, which leads to the login without one.

    The page raises `ForeignFormError` where the form that was sent is not one of this user's visit.
    """

    async def answer_user(request: Request) -> Response:
        session = session_of(request)
        async with store.connection() as connection:
            user = await user_of(connection, session)
        if user is None or session is None:
            return redirect(login_for(request.scope["path"]))
        form = await read_form(request) if request.method == "POST" else {}
        if request.method == "POST" and not session.owns(form.get("csrf_token", "")):
            raise ForeignFormError
        async with store.connection() as connection:
            return await answer(SignedInRequest(request, connection, session, user, form))

    return answer_user
