"""The token endpoint: exchanges codes, rotates token pairs, revokes tokens (RFC 6749, 7009)."""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC
from functools import lru_cache, partial
from typing import TypeVar
from urllib.parse import unquote_plus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.service.errors import ApiError, TokenEndpointError
from seller_platform.service.http.bodies import problem_of, read_form
from seller_platform.service.http.parameters import is_storable, shown
from seller_platform.service.http.responses import JSON, MOST_BASE_URLS, PublicDocument, base_url_of, token_answer
from seller_platform.service.oauth.applications import Application, find_application
from seller_platform.service.oauth.consent_choices import path_of_resource
from seller_platform.service.oauth.issued_tokens import IssuedTokens, RefusedUse, revoke, use_grant
from seller_platform.service.oauth.openapi import CodeExchange, Refresh, Revocation, TokenAnswer, server_metadata
from seller_platform.service.pool import Connection, Store
from seller_platform.service.security_events import EventKind, record_event

Form = TypeVar("Form")

_GRANTS: Mapping[str, type[CodeExchange | Refresh]] = {"authorization_code": CodeExchange, "refresh_token": Refresh}

_REFUSED_LATELY = """
SELECT FROM service.security_events
WHERE at > now() - interval '1 minute' AND kind = %s AND client_id = %s
LIMIT 1
"""


async def issue_tokens(store: Store, request: Request) -> Response:
    """Answer POST /oauth/token.

    Raises:
        TokenEndpointError: The request is refused.
    """
    form = await _read_token_form(request)
    async with store.connection() as connection:
        application = await _authenticate_application(connection, request, form)
        record = partial(record_event, connection, request=request, application=application)
        resource = None  # its path, empty for the REST API (RFC 8707)
        if "resource" in form:
            resource = path_of_resource(form["resource"], base_url_of(request))
            if resource is None:
                problem = f"resource is {shown(form['resource'])}, which is not served here"
                raise TokenEndpointError("invalid_target", problem)
        grant_type = form.get("grant_type", "")
        if grant_type not in _GRANTS:
            code = "unsupported_grant_type" if grant_type else "invalid_request"
            raise TokenEndpointError(code, f"grant_type is {shown(grant_type)}; it must be {' or '.join(_GRANTS)}")
        grant = _read(form, _GRANTS[grant_type])
        async with connection.transaction():
            is_first = isinstance(grant, CodeExchange)
            issued = await use_grant(connection, application, grant, resource)
            if isinstance(issued, IssuedTokens) and is_first:
                details = {"scopes": list(issued.scopes)}
                await record(EventKind.GRANT_ISSUED, user_id=issued.user_id, details=details)
            if isinstance(issued, RefusedUse) and issued.is_repeated:
                kind = EventKind.CODE_REPLAYED if is_first else EventKind.REFRESH_TOKEN_REUSED
                await record(kind, user_id=issued.user_id)
    if isinstance(issued, RefusedUse):
        problem = "the refresh token is unknown, expired, revoked or was used before"
        if is_first:
            problem = (
                "the code is unknown, expired or was used before, or redirect_uri or code_verifier do not belong to it"
            )
        raise _refusal(issued, problem, base_url_of(request))
    scope = " ".join(issued.scopes)
    pair = TokenAnswer(issued.expires_in_seconds, issued.access_token, issued.refresh_token, scope)
    return token_answer(pair)


async def revoke_token(store: Store, request: Request) -> Response:
    """Answer POST /oauth/revoke, with 200 for unknown tokens too (RFC 7009 section 2.2)."""
    form = await _read_token_form(request)
    async with store.connection() as connection:
        application = await _authenticate_application(connection, request, form)
        token = _read(form, Revocation).token
        async with connection.transaction():
            user_id = await revoke(connection, application, token)
            if user_id is not None:
                kind = EventKind.GRANT_REVOKED
                await record_event(connection, kind, request=request, user_id=user_id, application=application)
    return token_answer({})


def _refusal(refused: RefusedUse, problem: str, base: str) -> TokenEndpointError:
    """Return the error for a code or refresh token that gives no tokens."""
    if refused.ended_at is not None:
        day = f"{refused.ended_at.astimezone(UTC):%Y-%m-%d}"
        problem = f"the access that the user approved ended on {day}; send the user through the authorization again"
    elif refused.exceeded_scopes is not None:
        problem = f"scope may name only what the user approved: {' '.join(refused.exceeded_scopes)}"
        return TokenEndpointError("invalid_scope", problem)
    elif refused.issued_for is not None:
        problem = (
            f"it was issued for the resource {base}{refused.issued_for}, and the request names another one; name that "
            "one, or none"
        )
        return TokenEndpointError("invalid_target", problem)
    return TokenEndpointError("invalid_grant", problem)


async def _read_token_form(request: Request) -> dict[str, str]:
    try:
        return await read_form(request)
    except ApiError as error:
        status = error.status if error.status == 413 else 400  # RFC 6749, section 5.2
        raise TokenEndpointError("invalid_request", error.message, status=status) from None


async def _authenticate_application(connection: Connection, request: Request, form: Mapping[str, str]) -> Application:
    """Return the application of a request, by HTTP Basic or body (RFC 6749 section 2.3.1)."""
    client_id, secret = _basic_credentials(request)
    if client_id is None:
        if "client_id" not in form:
            raise TokenEndpointError("invalid_request", "client_id is required")
        client_id, secret = form["client_id"], form.get("client_secret")
    elif "client_secret" in form or form.get("client_id", client_id) != client_id:
        raise TokenEndpointError("invalid_request", "authenticate by the Authorization header or by the body, not both")
    application = await find_application(connection, client_id) if is_storable(client_id) else None
    if application is not None and application.is_public and secret is None:
        return application
    if application is None or not application.has_secret(secret or ""):
        if application is not None:
            # Client ids are public, so that anyone can send wrong secrets; they must not fill the table of events.
            lately = await connection.execute(_REFUSED_LATELY, (EventKind.SECRET_REFUSED.value, client_id))
            if await lately.fetchone() is None:
                kind, owner_id = EventKind.SECRET_REFUSED, application.owner_id
                await record_event(connection, kind, request=request, user_id=owner_id, application=application)
        raise TokenEndpointError("invalid_client", "client_id or client_secret is wrong or missing", status=401)
    return application


def _basic_credentials(request: Request) -> tuple[str | None, str | None]:
    sent = request.headers.getlist("authorization")
    if not sent:
        return None, None
    scheme, _, encoded = sent[0].partition(" ")
    try:
        if len(sent) > 1 or scheme.lower() != "basic":
            raise ValueError("not HTTP Basic")
        client_id, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
        if not colon:
            raise ValueError("no colon")
        return unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict")
    except (ValueError, binascii.Error):
        raise TokenEndpointError(
            "invalid_client", "the Authorization header is not HTTP Basic with client id and secret", status=401
        ) from None


def _read(form: Mapping[str, str], kind: type[Form]) -> Form:
    """Return a form as its type; a missing or wrong field is refused."""
    try:
        return msgspec.convert(form, kind)
    except msgspec.ValidationError as error:
        path, problem = problem_of(error)
        raise TokenEndpointError("invalid_request", f"{path.removeprefix('.')} {problem}") from None


async def answer_metadata(request: Request) -> Response:
    """Answer with the metadata from which OAuth clients configure themselves (RFC 8414)."""
    return _metadata(base_url_of(request)).answer(request)


@lru_cache(MOST_BASE_URLS)
def _metadata(base: str) -> PublicDocument:
    metadata = {name: value for name, (value, _) in server_metadata(base).items()}
    return PublicDocument(msgspec.json.encode(metadata), JSON)
