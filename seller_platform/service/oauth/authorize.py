"""The authorization endpoint and its consent page (RFC 6749 section 4.1.1, RFC 7636, RFC 9207).

GET shows the consent page, after the login where no user is logged in. The page's form posts to the same address, with
the request in its query, and the fields `decision` (`approve` or `deny`), the hidden `csrf_token`, and the choices.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import utc_now
from seller_platform.contract.wire import AUTHORIZE, MCP
from seller_platform.service.access import Caller, Scope, accounts_of, scopes_of
from seller_platform.service.errors import ApiError
from seller_platform.service.http.addresses import is_loopback
from seller_platform.service.http.bodies import read_form
from seller_platform.service.http.parameters import parse_fields, shown
from seller_platform.service.http.responses import base_url_of
from seller_platform.service.limits import Admission
from seller_platform.service.oauth.applications import Application, Origin, find_application, store_application
from seller_platform.service.oauth.client_documents import ClientDocuments, is_document_url
from seller_platform.service.oauth.consent_choices import AuthorizationRequest, Choices, path_of_resource, read_choices
from seller_platform.service.oauth.issued_tokens import issue_code
from seller_platform.service.oauth.registration_rules import is_registered, target_of
from seller_platform.service.pages.login import ForeignFormError, login_for
from seller_platform.service.pages.rendering import Page, redirect
from seller_platform.service.pages.sessions import session_of, user_of
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.pool import Connection, Store
from seller_platform.service.security_events import EventKind

_MOST_FIELDS = 4_000
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


async def answer_consent(
    store: Store, documents: ClientDocuments, http: Request, *, lifetime: timedelta, serves_agents: bool
) -> Response:
    """Answer GET and POST /oauth/authorize."""
    form = await read_form(http, most_fields=_MOST_FIELDS) if http.method == "POST" else None
    async with store.connection() as connection:
        session = session_of(http)
        user = await user_of(connection, session)
        authorization = None
        if user is not None or not is_document_url(_fields_of(http).get("client_id", "")):  # which is read later
            authorization = await _read_request(connection, documents, http, user, serves_agents=serves_agents)
        if user is None or session is None or authorization is None:
            return redirect(login_for(_own_address(http)))
        if form is not None and not session.owns(form.get("csrf_token", "")):
            raise ForeignFormError
        # Even an error is sent to the application only after the login: any user may register a redirect URI, and
        # a link to this service must not lead to another site by itself (RFC 9700 section 4.11.2).
        if authorization.problem is not None:
            return authorization.refuse(*authorization.problem)
        request = SignedInRequest(http, connection, session, user, form or {})
        decision = request.form.get("decision", "")
        if decision == "deny":
            await request.record(EventKind.CONSENT_DENIED, authorization.application)
            return authorization.refuse("access_denied", "the user denied the request")
        if form is not None and decision != "approve":
            raise ApiError("Choose either to approve or to deny.")
        choices = read_choices(request.form, authorization.scopes, await accounts_of(connection, user))
        if form is not None and choices.problem is None:
            return await _approve(request, authorization, choices, lifetime)
        return _page(request, authorization, choices, lifetime)


def _page(
    request: SignedInRequest, authorization: AuthorizationRequest, choices: Choices, lifetime: timedelta
) -> Response:
    """Return the consent page."""
    target = urlsplit(authorization.redirect_uri)
    is_web = target.scheme in ("http", "https")
    # A policy cannot name an IPv6 address, only its scheme.
    is_named = is_web and "[" not in target.netloc
    return request.render(
        "consent.html",
        status=422 if choices.problem else 200,
        form_target=f"{target.scheme}://{target.netloc}" if is_named else f"{target.scheme}:",
        application=authorization.application,
        accounts=choices.offered,
        requested=authorization.scopes,
        is_for_agents=authorization.resource is not None,
        choices=choices,
        problem=choices.problem,
        ends_on=(utc_now() + lifetime).date(),
        host=target_of(authorization.redirect_uri),
        is_local=not is_web or is_loopback(target.hostname or ""),
        action=_own_address(request.http),
    )


async def _approve(
    request: SignedInRequest, authorization: AuthorizationRequest, choices: Choices, lifetime: timedelta
) -> Response:
    """Store the consent, and what the document of the client says, and send the code to the application."""
    application, accounts, resource = authorization.application, choices.accounts, authorization.resource
    async with request.connection.transaction():
        if application.origin == Origin.DOCUMENT:
            await store_application(request.connection, application)
        code = await issue_code(request.connection, authorization, choices, user_id=request.user.id, lifetime=lifetime)
        await request.record(
            EventKind.CONSENT_GIVEN,
            application,
            scopes=[scope.value for scope in choices.scopes],
            **({"resource": resource} if resource else {}),
            accounts="all" if accounts is None else list(accounts),
        )
    return authorization.answer(code=code)


def with_document(admission: Admission, store: Store, documents: ClientDocuments, page: Page) -> Page:
    """Return a page that begins once the document of its client is read, if it has one.

    Neither a turn nor a connection is held while the client's host is waited for. Without a user nothing is read:
    strangers must not let this service send requests.
    """

    async def answer(request: Request) -> Response:
        client_id = ""
        with suppress(ApiError):  # the page itself refuses it
            client_id = _fields_of(request).get("client_id", "")
        if is_document_url(client_id):
            async with admission.turn_of_network(request), store.connection() as connection:
                user = await user_of(connection, session_of(request))
            if user is not None:
                await documents.read(user.id, client_id)
        return await page(request)

    return answer


async def _read_request(
    connection: Connection, documents: ClientDocuments, request: Request, user: Caller | None, *, serves_agents: bool
) -> AuthorizationRequest:
    """Return the authorization request in the query of a request.

    Raises:
        ApiError: It names no registered application with its redirect URI, so that the browser is not redirected; or
            its token would be of no use.
    """
    fields = _fields_of(request)
    client_id, redirect_uri = fields.get("client_id", ""), fields.get("redirect_uri", "")
    if not client_id or not redirect_uri:
        missing = "redirect_uri" if client_id else "client_id"
        raise ApiError(f"The link that led here is incomplete: {missing} is missing.")
    application = documents.of(user.id, client_id) if user is not None else None
    application = application or await find_application(connection, client_id)
    if application is None:
        raise ApiError(f"The link that led here names an application that is not registered: {shown(client_id)}.")
    if not is_registered(
        redirect_uri, application.redirect_uris, is_public=application.is_public, is_host=application.is_host
    ):
        raise ApiError(
            f"The link that led here would send you to {shown(redirect_uri)}, which is not an address that "
            f"the application {application.name} has registered."
        )
    if fields.get("response_type") != "code":
        raise ApiError("The link that led here is wrong: response_type must be code.")
    issuer = base_url_of(request)
    resource, is_assumed = _resource_of(application, fields, issuer, serves_agents=serves_agents)
    return AuthorizationRequest(
        application,
        redirect_uri,
        issuer,
        # Agents only ask.
        (Scope.READ,) if resource else scopes_of(fields.get("scope", "")),
        fields.get("state"),
        fields.get("code_challenge") or None,
        resource or None,
        is_assumed,
        _problem(application, fields, resource),
    )


def _fields_of(request: Request) -> dict[str, str]:
    try:
        return parse_fields(request.scope["query_string"])
    except ValueError as error:
        raise ApiError(f"The link that led here {error}.") from None


def _resource_of(
    application: Application, fields: Mapping[str, str], issuer: str, *, serves_agents: bool
) -> tuple[str | None, bool]:
    """Return the path of the resource that a request is for, and whether it is assumed; None: it is not served.

    Many hosts of agents name no resource, or the origin. A request whose token would be of no use is refused.
    """
    resource = path_of_resource(fields.get("resource") or issuer, issuer)
    further = {Scope.COSTS_WRITE, Scope.REPORTS}.intersection(fields.get("scope", "").split(" "))
    is_reader = application.origin == Origin.DOCUMENT and serves_agents and not further
    is_assumed = resource == "" and (is_reader or application.resource == MCP)
    if is_assumed and further:
        raise ApiError(
            f"The application {application.name} is registered for {issuer}{MCP} alone, where a token may only read, "
            f"and it asks for {' and '.join(sorted(further))}. Ask who runs it to request the scope read."
        )
    if (is_assumed or resource == MCP) and not serves_agents:
        raise ApiError(
            f"The application {application.name} asks for access to {issuer}{MCP}, and agents are not served here. The "
            "operator starts `service run` with --mcp to serve them."
        )
    return (MCP, True) if is_assumed else (resource, False)


def _problem(application: Application, fields: Mapping[str, str], resource: str | None) -> tuple[str, str] | None:
    """Return the error and its description of a request that cannot be granted, or None."""
    challenge = fields.get("code_challenge")
    if resource is None:
        return "invalid_target", f"resource is {shown(fields['resource'])}, which is not served here"
    if not challenge:
        problem = "code_challenge is required of an application without a secret"
        return ("invalid_request", problem) if application.is_public else None
    if fields.get("code_challenge_method") != "S256":
        return "invalid_request", "code_challenge_method must be S256"
    if not _CHALLENGE.fullmatch(challenge):
        return "invalid_request", "code_challenge must be 43 characters of base64url"
    return None


def _own_address(request: Request) -> str:
    query = quote(request.scope["query_string"], safe="=&%+~!$'()*,;:@/?-._")
    return f"{AUTHORIZE}?{query}"
