"""The authorization endpoint and its consent page (RFC 6749 section 4.1.1, RFC 7636, RFC 9207).

GET shows the consent page, after the login where no user is logged in. The page's form posts to the same address, with
the request in its query, and the fields `decision` (`approve` or `deny`), the hidden `csrf_token`, and the choices.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.clocks import utc_now
from seller_platform.contract.tokens import Scope, scopes_of
from seller_platform.contract.wire import AUTHORIZE, MCP
from seller_platform.errors import ApiError
from seller_platform.service.access import Caller, ServedAccount, accounts_of
from seller_platform.service.http.addresses import is_loopback
from seller_platform.service.http.bodies import read_form
from seller_platform.service.http.parameters import parse_fields, shown
from seller_platform.service.http.responses import ascii_description, base_url_of
from seller_platform.service.limits.admission import Admission
from seller_platform.service.oauth.applications import Application, Origin, find_application, store_application
from seller_platform.service.oauth.client_documents import ClientDocuments, is_document_url
from seller_platform.service.oauth.consent_choices import (
    MOST_FIELDS,
    Choices,
    offered_choices,
    path_of_resource,
    read_choices,
)
from seller_platform.service.oauth.issued_tokens import issue_code
from seller_platform.service.oauth.registration_rules import is_registered, target_of
from seller_platform.service.pages.login import ForeignFormError, login_for
from seller_platform.service.pages.rendering import Page, redirect
from seller_platform.service.pages.sessions import session_of, user_of
from seller_platform.service.pages.signed_in import SignedInRequest
from seller_platform.service.pool import Connection, Store
from seller_platform.service.security_events import EventKind

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class ConsentOptions:
    """What the operator decides about consents.

    Attributes:
        lifetime: How long an approved access may last.
        documents: The documents of clients that are not registered.
        serves_agents: Whether `/mcp` is served.
    """

    lifetime: timedelta
    documents: ClientDocuments
    serves_agents: bool


@dataclass(frozen=True)
class AuthorizationRequest:
    """A request whose answer goes to the application's redirect URI.

    Attributes:
        redirect_uri: The one of the registered redirect URIs that the request names.
        issuer: The URL of this service, which tells the application who answers.
        scopes: What the application requests.
        resource: The path of the resource that its tokens are for; None stands for the REST API.
        is_resource_assumed: Whether the request did not name it.
        problem: The error and its description, where the request cannot be granted.
    """

    application: Application
    redirect_uri: str
    issuer: str
    scopes: Sequence[Scope]
    state: str | None
    code_challenge: str | None
    resource: str | None
    is_resource_assumed: bool
    problem: tuple[str, str] | None

    def answer(self, **parameters: str) -> Response:
        """Redirect the browser to the application."""
        if self.state is not None:
            parameters["state"] = self.state
        parameters["iss"] = self.issuer
        separator = "&" if urlsplit(self.redirect_uri).query else "?"
        return redirect(f"{self.redirect_uri.rstrip('?')}{separator}{urlencode(parameters, quote_via=quote)}")

    def refuse(self, error: str, description: str) -> Response:
        """Redirect the browser to the application with an error (RFC 6749 section 4.1.2.1)."""
        return self.answer(error=error, error_description=ascii_description(description))


@dataclass(frozen=True)
class SignedInAuthorization:
    """An authorization request of a browser in which a user is logged in."""

    request: SignedInRequest
    authorization: AuthorizationRequest
    options: ConsentOptions

    async def ask(self, choices: Choices, accounts: Sequence[ServedAccount], problem: str | None = None) -> Response:
        """Return the consent page."""
        application, target = self.authorization.application, urlsplit(self.authorization.redirect_uri)
        is_web = target.scheme in ("http", "https")
        # A policy cannot name an IPv6 address, only its scheme.
        is_named = is_web and "[" not in target.netloc
        form_target = f"{target.scheme}://{target.netloc}" if is_named else f"{target.scheme}:"
        return self.request.render(
            "consent.html",
            status=422 if problem else 200,
            form_target=form_target,
            application=application,
            accounts=accounts,
            requested=self.authorization.scopes,
            is_for_agents=self.authorization.resource is not None,
            choices=choices,
            problem=problem,
            ends_on=(utc_now() + self.options.lifetime).date(),
            host=target_of(self.authorization.redirect_uri),
            is_local=not is_web or is_loopback(target.hostname or ""),
            action=_own_address(self.request.http),
        )

    async def approve(self, choices: Choices) -> Response:
        """Store the consent, and what the document of the client says, and send the code to the application."""
        application, accounts = self.authorization.application, choices.accounts
        scopes = [scope.value for scope in choices.scopes]
        async with self.request.connection.transaction():
            if application.origin == Origin.DOCUMENT:
                await store_application(self.request.connection, application)
            code = await issue_code(
                self.request.connection,
                application,
                user_id=self.request.user.id,
                scopes=scopes,
                accounts=accounts,
                lifetime=self.options.lifetime,
                redirect_uri=self.authorization.redirect_uri,
                code_challenge=self.authorization.code_challenge,
                resource=self.authorization.resource,
                is_resource_assumed=self.authorization.is_resource_assumed,
            )
            await self.request.record(
                EventKind.CONSENT_GIVEN,
                application,
                scopes=scopes,
                **({"resource": self.authorization.resource} if self.authorization.resource else {}),
                accounts="all" if accounts is None else list(accounts),
            )
        return self.authorization.answer(code=code)

    async def deny(self) -> Response:
        """Tell the application that the user denied the request."""
        await self.request.record(EventKind.CONSENT_DENIED, self.authorization.application)
        return self.authorization.refuse("access_denied", "the user denied the request")


async def answer_consent(store: Store, options: ConsentOptions, request: Request) -> Response:
    """Answer GET and POST /oauth/authorize."""
    form = await read_form(request, most_fields=MOST_FIELDS) if request.method == "POST" else None
    async with store.connection() as connection:
        signed_in = await _sign_in(connection, options, request, form or {})
        if isinstance(signed_in, Response):
            return signed_in
        if form is not None and not signed_in.request.session.owns(form.get("csrf_token", "")):
            raise ForeignFormError
        # Even an error is sent to the application only after the login: any user may register a redirect URI, and
        # a link to this service must not lead to another site by itself (RFC 9700 section 4.11.2).
        if signed_in.authorization.problem is not None:
            return signed_in.authorization.refuse(*signed_in.authorization.problem)
        decision = "" if form is None else form.get("decision")
        if decision == "deny":
            return await signed_in.deny()
        if decision not in ("", "approve"):
            raise ApiError("Choose either to approve or to deny.")
        accounts, requested = await accounts_of(connection, signed_in.request.user), signed_in.authorization.scopes
        if form is None:
            return await signed_in.ask(offered_choices(requested, accounts), accounts)
        choices = read_choices(form, requested, accounts)
        problem = choices.problem(accounts)
        return await (signed_in.approve(choices) if problem is None else signed_in.ask(choices, accounts, problem))


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


async def _sign_in(
    connection: Connection, options: ConsentOptions, request: Request, form: Mapping[str, str]
) -> SignedInAuthorization | Response:
    """Return the request with its user, or a redirect to the login."""
    session = session_of(request)
    user = await user_of(connection, session)
    is_read_later = user is None and is_document_url(_fields_of(request).get("client_id", ""))
    authorization = None if is_read_later else await _read_request(connection, options, request, user)
    if user is None or session is None or authorization is None:
        return redirect(login_for(_own_address(request)))
    signed_in = SignedInRequest(request, connection, session, user, form)
    return SignedInAuthorization(signed_in, authorization, options)


async def _read_request(
    connection: Connection, options: ConsentOptions, request: Request, user: Caller | None
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
    application = options.documents.of(user.id, client_id) if user is not None else None
    application = application or await find_application(connection, client_id)
    if application is None:
        raise ApiError(f"The link that led here names an application that is not registered: {shown(client_id)}.")
    if not is_registered(
        redirect_uri,
        application.redirect_uris,
        is_public=application.is_public,
        has_document=application.origin == Origin.DOCUMENT,
    ):
        raise ApiError(
            f"The link that led here would send you to {shown(redirect_uri)}, which is not an address that "
            f"the application {application.name} has registered."
        )
    if fields.get("response_type") != "code":
        raise ApiError("The link that led here is wrong: response_type must be code.")
    challenge = fields.get("code_challenge") or None
    issuer = base_url_of(request)
    scopes = scopes_of(fields.get("scope", ""))
    resource, is_assumed = _resource_of(application, fields, issuer, serves_agents=options.serves_agents)
    if resource is None:
        problem: tuple[str, str] | None = (
            "invalid_target",
            f"resource is {shown(fields['resource'])}, which is not served here",
        )
    else:
        pkce_problem = _pkce_problem(application, challenge, fields.get("code_challenge_method"))
        problem = None if pkce_problem is None else ("invalid_request", pkce_problem)
    return AuthorizationRequest(
        application,
        redirect_uri,
        issuer,
        # Agents only ask.
        (Scope.READ,) if resource else scopes,
        fields.get("state"),
        challenge,
        resource or None,
        is_assumed,
        problem,
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

    Many hosts of agents name no resource, or the origin.

    Raises:
        ApiError: Its token would be of no use.
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


def _pkce_problem(application: Application, challenge: str | None, method: str | None) -> str | None:
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
