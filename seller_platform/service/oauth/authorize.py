"""The authorization endpoint and its consent page (RFC 6749 section 4.1.1, RFC 7636).

GET shows the consent page, after the login where no user is logged in. The page's form posts to the same address, with
the request in its query, and the fields `decision` (`approve` or `deny`) and the hidden `csrf_token`.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import AUTHORIZE
from seller_platform.errors import ApiError
from seller_platform.service.access import accounts_of
from seller_platform.service.http.bodies import read_form
from seller_platform.service.http.parameters import parse_fields, shown
from seller_platform.service.oauth.issued_tokens import RegisteredApplication, find_application, issue_code
from seller_platform.service.pages.login import ForeignFormError, login_for
from seller_platform.service.pages.rendering import redirect, render
from seller_platform.service.pages.sessions import session_of, user_of
from seller_platform.service.pool import Connection, Store

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class AuthorizationRequest:
    """A request whose answer goes to the application's redirect URI."""

    application: RegisteredApplication
    state: str | None
    code_challenge: str | None
    problem: str | None

    def answer(self, **parameters: str) -> Response:
        """Redirect the browser to the application."""
        if self.state is not None:
            parameters["state"] = self.state
        uri = self.application.redirect_uri
        separator = "&" if urlsplit(uri).query else "?"
        return redirect(f"{uri.rstrip('?')}{separator}{urlencode(parameters, quote_via=quote)}")

    def refuse(self, error: str, description: str) -> Response:
        """Redirect the browser to the application with an error (RFC 6749 section 4.1.2.1)."""
        return self.answer(error=error, error_description=description)


async def show_consent(store: Store, request: Request) -> Response:
    """Answer GET /oauth/authorize."""
    session = session_of(request)
    async with store.connection() as connection:
        authorization = await read_request(connection, request)
        user = await user_of(connection, session)
        # Even an error is sent to the application only after the login: any user may register a redirect URI, and
        # a link to this service must not lead to another site by itself (RFC 9700 section 4.11.2).
        if user is None or session is None:
            return redirect(login_for(_own_address(request)))
        if authorization.problem is not None:
            return authorization.refuse("invalid_request", authorization.problem)
        accounts = await accounts_of(connection, user)
    target = urlsplit(authorization.application.redirect_uri)
    # A policy cannot name an IPv6 address, only its scheme.
    form_target = f"{target.scheme}:" if "[" in target.netloc else f"{target.scheme}://{target.netloc}"
    values = {
        "application": authorization.application,
        "accounts": accounts,
        "user": user,
        "host": target.netloc,
        "action": _own_address(request),
        "csrf_token": session.csrf_token,
    }
    return render("consent.html", values, form_target=form_target)


async def submit_consent(store: Store, request: Request) -> Response:
    """Answer POST /oauth/authorize."""
    session, form = session_of(request), await read_form(request)
    async with store.connection() as connection:
        authorization = await read_request(connection, request)
        user = await user_of(connection, session)
        if user is None or session is None:
            return redirect(login_for(_own_address(request)))
        if not session.owns(form.get("csrf_token", "")):
            raise ForeignFormError
        if authorization.problem is not None:
            return authorization.refuse("invalid_request", authorization.problem)
        match form.get("decision"):
            case "approve":
                code = await issue_code(connection, authorization.application, user.id, authorization.code_challenge)
                return authorization.answer(code=code)
            case "deny":
                return authorization.refuse("access_denied", "the user denied the request")
            case _:
                raise ApiError("Choose either to approve or to deny.")


async def read_request(connection: Connection, request: Request) -> AuthorizationRequest:
    """Return the authorization request in the query of a request.

    Raises:
        ApiError: It names no registered application with its redirect URI, so that the browser is not redirected.
    """
    try:
        fields = parse_fields(request.scope["query_string"])
    except ValueError as error:
        raise ApiError(f"The link that led here {error}.") from None
    client_id, redirect_uri = fields.get("client_id", ""), fields.get("redirect_uri", "")
    if not client_id or not redirect_uri:
        missing = "redirect_uri" if client_id else "client_id"
        raise ApiError(f"The link that led here is incomplete: {missing} is missing.")
    application = await find_application(connection, client_id)
    if application is None:
        raise ApiError(f"The link that led here names an application that is not registered: {shown(client_id)}.")
    if redirect_uri != application.redirect_uri:
        raise ApiError(
            f"The link that led here would send you to {shown(redirect_uri)}, which is not the address that "
            f"the application {application.name} has registered."
        )
    if fields.get("response_type") != "code":
        raise ApiError("The link that led here is wrong: response_type must be code.")
    challenge = fields.get("code_challenge") or None
    problem = _pkce_problem(application, challenge, fields.get("code_challenge_method"))
    return AuthorizationRequest(application, fields.get("state"), challenge, problem)


def _pkce_problem(application: RegisteredApplication, challenge: str | None, method: str | None) -> str | None:
    if challenge is None:
        return "code_challenge is required of an application without a secret" if application.is_public else None
    if method != "S256":
        return "code_challenge_method must be S256"
    if not _CHALLENGE.fullmatch(challenge):
        return "code_challenge must be 43 characters of base64url"
    return None


def _own_address(request: Request) -> str:
    query = quote(request.scope["query_string"], safe="=&%+~!$'()*,;:@/?-._")
    return f"{AUTHORIZE}?{query}"
