"""The token endpoint: exchanges codes, rotates token pairs, revokes tokens (RFC 6749, 7009)."""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC
from functools import lru_cache, partial
from urllib.parse import unquote_plus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.tokens import Scope, scopes_of
from seller_platform.contract.wire import AUTHORIZE, DOCS, REVOKE, TOKEN
from seller_platform.errors import ApiError, BodyTooLargeError, TokenEndpointError, UnreadableCodingError
from seller_platform.service.http.bodies import read_form
from seller_platform.service.http.documents import MOST_BASE_URLS, PublicDocument
from seller_platform.service.http.parameters import is_storable, shown
from seller_platform.service.http.responses import JSON, base_url_of, token_answer
from seller_platform.service.oauth.applications import Application, find_application
from seller_platform.service.oauth.consent_choices import path_of_resource
from seller_platform.service.oauth.issued_tokens import IssuedTokens, RefusedUse, exchange_code, revoke, rotate
from seller_platform.service.pool import Connection, Store
from seller_platform.service.security_events import EventKind, record_event

_REFUSED_LATELY = """
SELECT FROM service.security_events
WHERE at > now() - interval '1 minute' AND kind = %s AND client_id = %s
LIMIT 1
"""
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


async def issue_tokens(store: Store, request: Request) -> Response:
    """Answer POST /oauth/token.

    Raises:
        TokenEndpointError: The request is refused.
    """
    form = await _read_token_form(request)
    async with store.connection() as connection:
        application = await _authenticate_application(connection, request, form)
        record = partial(_record, connection, request, application)
        resource = _resource_of(request, form)
        match _required(form, "grant_type"):
            case "authorization_code":
                code, redirect_uri = _required(form, "code"), _required(form, "redirect_uri")
                verifier = form.get("code_verifier")
                if verifier is not None and not _VERIFIER.fullmatch(verifier):
                    problem = "code_verifier is not 43 to 128 unreserved characters"
                    raise TokenEndpointError("invalid_request", problem)
                async with connection.transaction():
                    issued = await exchange_code(
                        connection, application, code, redirect_uri, verifier, resource=resource
                    )
                    if isinstance(issued, IssuedTokens):
                        await record(EventKind.GRANT_ISSUED, user_id=issued.user_id, scopes=list(issued.scopes))
                    elif issued.is_repeated:
                        await record(EventKind.CODE_REPLAYED, user_id=issued.user_id)
                problem = (
                    "the code is unknown, expired or was used before, or redirect_uri or code_verifier do not "
                    "belong to it"
                )
            case "refresh_token":
                scopes = scopes_of(form["scope"]) if "scope" in form else None
                async with connection.transaction():
                    refresh_token = _required(form, "refresh_token")
                    issued = await rotate(connection, application, refresh_token, scopes, resource=resource)
                    if isinstance(issued, RefusedUse) and issued.is_repeated:
                        await record(EventKind.REFRESH_TOKEN_REUSED, user_id=issued.user_id)
                problem = "the refresh token is unknown, expired, revoked or was used before"
            case other:
                problem = f"grant_type is {shown(other)}; it must be authorization_code or refresh_token"
                raise TokenEndpointError("unsupported_grant_type", problem)
    if isinstance(issued, RefusedUse):
        raise _refusal(issued, problem, base_url_of(request))
    return token_answer(
        {
            "token_type": "Bearer",
            "expires_in": issued.expires_in_seconds,
            "access_token": issued.access_token,
            "refresh_token": issued.refresh_token,
            "scope": " ".join(issued.scopes),
        }
    )


async def revoke_token(store: Store, request: Request) -> Response:
    """Answer POST /oauth/revoke, with 200 for unknown tokens too (RFC 7009 section 2.2).

    Raises:
        TokenEndpointError: The request is refused.
    """
    form = await _read_token_form(request)
    async with store.connection() as connection:
        application = await _authenticate_application(connection, request, form)
        token = _required(form, "token")
        async with connection.transaction():
            user_id = await revoke(connection, application, token)
            if user_id is not None:
                await _record(connection, request, application, EventKind.GRANT_REVOKED, user_id=user_id)
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


async def _record(
    connection: Connection,
    request: Request,
    application: Application,
    kind: EventKind,
    *,
    user_id: int | None,
    **facts: object,
) -> None:
    details, client_id = {"application": application.name, **facts}, application.client_id
    await record_event(connection, kind, user_id=user_id, client_id=client_id, request=request, details=details)


async def _read_token_form(request: Request) -> dict[str, str]:
    try:
        return await read_form(request)
    except ApiError as error:
        is_kept = isinstance(error, BodyTooLargeError | UnreadableCodingError)
        status = error.status if is_kept else 400
        raise TokenEndpointError("invalid_request", error.message, status=status) from None


async def _authenticate_application(connection: Connection, request: Request, form: Mapping[str, str]) -> Application:
    """Return the application of a request, by HTTP Basic or body (RFC 6749 section 2.3.1)."""
    client_id, secret = _basic_credentials(request)
    if client_id is None:
        client_id, secret = _required(form, "client_id"), form.get("client_secret")
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
                owner_id = application.owner_id
                await _record(connection, request, application, EventKind.SECRET_REFUSED, user_id=owner_id)
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


def _resource_of(request: Request, form: Mapping[str, str]) -> str | None:
    """Return the path of the resource that a request names, empty for the REST API; None without one (RFC 8707)."""
    if "resource" not in form:
        return None
    path = path_of_resource(form["resource"], base_url_of(request))
    if path is None:
        raise TokenEndpointError("invalid_target", f"resource is {shown(form['resource'])}, which is not served here")
    return path


def _required(form: Mapping[str, str], name: str) -> str:
    if name not in form:
        raise TokenEndpointError("invalid_request", f"{name} is missing")
    return form[name]


async def answer_metadata(request: Request) -> Response:
    """Answer with the metadata from which OAuth clients configure themselves (RFC 8414)."""
    return _metadata(base_url_of(request)).answer(request)


@lru_cache(MOST_BASE_URLS)
def _metadata(base: str) -> PublicDocument:
    return PublicDocument(
        msgspec.json.encode(
            {
                "issuer": base,
                "authorization_endpoint": f"{base}{AUTHORIZE}",
                "token_endpoint": f"{base}{TOKEN}",
                "revocation_endpoint": f"{base}{REVOKE}",
                "scopes_supported": [scope.value for scope in Scope],
                "response_types_supported": ["code"],
                "response_modes_supported": ["query"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
                "revocation_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                "client_id_metadata_document_supported": True,
                "service_documentation": f"{base}{DOCS}",
            }
        ),
        JSON,
    )
