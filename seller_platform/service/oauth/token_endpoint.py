"""The token endpoint: exchanges codes, rotates token pairs, revokes tokens (RFC 6749, 7009)."""

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from urllib.parse import unquote_plus

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS, AUTHORIZE, DOCS, REVOKE, TOKEN
from seller_platform.errors import ApiError, BodyTooLargeError, TokenEndpointError, UnreadableCodingError
from seller_platform.service.access import hash_of
from seller_platform.service.http.bodies import read_form
from seller_platform.service.http.parameters import is_storable, shown
from seller_platform.service.http.responses import base_url_of, json_answer, token_answer
from seller_platform.service.oauth.issued_tokens import (
    RegisteredApplication,
    exchange_code,
    find_application,
    revoke,
    rotate,
)
from seller_platform.service.pool import Connection, Store

_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


async def issue_tokens(store: Store, request: Request) -> Response:
    """Answer POST /oauth/token.

    Raises:
        TokenEndpointError: The request is refused.
    """
    form = await _read_token_form(request)
    async with store.connection() as connection:
        application = await _authenticate_application(connection, request, form)
        match _required(form, "grant_type"):
            case "authorization_code":
                code, redirect_uri = _required(form, "code"), _required(form, "redirect_uri")
                verifier = form.get("code_verifier")
                if verifier is not None and not _VERIFIER.fullmatch(verifier):
                    problem = "code_verifier is not 43 to 128 unreserved characters"
                    raise TokenEndpointError("invalid_request", problem)
                pair = await exchange_code(connection, application, code, redirect_uri, verifier)
                problem = (
                    "the code is unknown, expired or was used before, or redirect_uri or code_verifier do not "
                    "belong to it"
                )
            case "refresh_token":
                pair = await rotate(connection, application, _required(form, "refresh_token"))
                problem = "the refresh token is unknown, expired, revoked or was used before"
            case other:
                problem = f"grant_type is {shown(other)}; it must be authorization_code or refresh_token"
                raise TokenEndpointError("unsupported_grant_type", problem)
    if pair is None:
        raise TokenEndpointError("invalid_grant", problem)
    return token_answer(
        {
            "token_type": "Bearer",
            "expires_in": ACCESS_TOKEN_SECONDS,
            "access_token": pair.access_token,
            "refresh_token": pair.refresh_token,
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
        await revoke(connection, application, _required(form, "token"))
    return token_answer({})


async def _read_token_form(request: Request) -> dict[str, str]:
    try:
        return await read_form(request)
    except ApiError as error:
        is_kept = isinstance(error, BodyTooLargeError | UnreadableCodingError)
        status = error.status if is_kept else 400
        raise TokenEndpointError("invalid_request", error.message, status=status) from None


async def _authenticate_application(
    connection: Connection, request: Request, form: Mapping[str, str]
) -> RegisteredApplication:
    """Return the application of a request, by HTTP Basic or body (RFC 6749 section 2.3.1)."""
    client_id, secret = _basic_credentials(request)
    if client_id is None:
        client_id, secret = _required(form, "client_id"), form.get("client_secret")
    elif "client_secret" in form or form.get("client_id", client_id) != client_id:
        raise TokenEndpointError("invalid_request", "authenticate by the Authorization header or by the body, not both")
    application = await find_application(connection, client_id) if is_storable(client_id) else None
    known_hash = application.secret_hash if application is not None else None
    if application is not None and application.is_public and secret is None:
        return application
    if application is None or known_hash is None or not hmac.compare_digest(known_hash, hash_of(secret or "")):
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


def _required(form: Mapping[str, str], name: str) -> str:
    if name not in form:
        raise TokenEndpointError("invalid_request", f"{name} is missing")
    return form[name]


async def answer_metadata(request: Request) -> Response:
    """Answer with the metadata from which OAuth clients configure themselves (RFC 8414)."""
    base = base_url_of(request)
    return json_answer(
        {
            "issuer": base,
            "authorization_endpoint": f"{base}{AUTHORIZE}",
            "token_endpoint": f"{base}{TOKEN}",
            "revocation_endpoint": f"{base}{REVOKE}",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "revocation_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "none"],
            "code_challenge_methods_supported": ["S256"],
            "service_documentation": f"{base}{DOCS}",
        }
    )
