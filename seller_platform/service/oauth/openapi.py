"""Describes the OAuth server for the OpenAPI document."""

from typing import Any

from seller_platform.contract.wire import (
    ACCESS_TOKEN_SECONDS,
    AUTHORIZATION_CODE_SECONDS,
    AUTHORIZE,
    METADATA,
    REFRESH_TOKEN_SECONDS,
    REVOKE,
    TOKEN,
)
from seller_platform.service.http.bodies import FORM
from seller_platform.service.http.responses import JSON
from seller_platform.service.openapi.operations import ERROR_SCHEMA

_AREA = "oauth"
_HTML = {"text/html": {"schema": {"type": "string"}}}
_TEXT = {"type": "string"}
_TOKEN_PAIR = {
    "title": "TokenPair",
    "type": "object",
    "required": ["token_type", "expires_in", "access_token", "refresh_token"],
    "properties": {
        "token_type": {"const": "Bearer", "description": "Always `Bearer`."},
        "expires_in": {"const": ACCESS_TOKEN_SECONDS, "description": "Seconds for which the access token works."},
        "access_token": {**_TEXT, "description": "Send it as `Authorization: Bearer ACCESS_TOKEN`."},
        "refresh_token": {
            **_TEXT,
            "description": "Works once, for the next pair; store the new one each time before you use it.",
        },
    },
}
_REFUSAL = {
    "title": "TokenError",
    "type": "object",
    "required": ["error", "error_description"],
    "properties": {
        "error": {
            "enum": ["invalid_request", "invalid_client", "invalid_grant", "unsupported_grant_type"],
            "description": "The kind of error (RFC 6749 section 5.2).",
        },
        "error_description": {**_TEXT, "description": "What is wrong, in a sentence."},
    },
}
_CLIENT = {
    "client_id": {**_TEXT, "description": "The client's id; here or by HTTP Basic."},
    "client_secret": {**_TEXT, "description": "The client's secret; here or by HTTP Basic."},
}
_EXCHANGE = {
    "type": "object",
    "title": "CodeExchange",
    "required": ["grant_type", "code", "redirect_uri"],
    "properties": {
        "grant_type": {"const": "authorization_code", "description": "Exchanges a code for a token pair."},
        **_CLIENT,
        "code": {**_TEXT, "description": "The code that the callback received. It works once, for ten minutes."},
        "redirect_uri": {**_TEXT, "description": "The redirect URL that the code was asked for with."},
        "code_verifier": {**_TEXT, "description": "The PKCE verifier, where a challenge was sent (RFC 7636)."},
    },
}
_REFRESH = {
    "type": "object",
    "title": "Refresh",
    "required": ["grant_type", "refresh_token"],
    "properties": {
        "grant_type": {"const": "refresh_token", "description": "Exchanges a refresh token for the next pair."},
        **_CLIENT,
        "refresh_token": {**_TEXT, "description": "The newest refresh token. An older one ends the whole grant."},
    },
}
_REVOCATION = {
    "title": "Revocation",
    "type": "object",
    "required": ["token"],
    "properties": {
        "token": {**_TEXT, "description": "An access token, or a refresh token: then the whole grant ends."},
        "token_type_hint": {**_TEXT, "description": "Ignored; both kinds are looked for."},
        **_CLIENT,
    },
}
_ADDRESS = {"type": "string", "format": "uri"}
_WORDS = {"type": "array", "items": _TEXT}
_SERVER = {
    "title": "ServerMetadata",
    "type": "object",
    "properties": {
        "issuer": {**_ADDRESS, "description": "The service itself."},
        "authorization_endpoint": {**_ADDRESS, "description": "Where the user's browser is sent."},
        "token_endpoint": {**_ADDRESS, "description": "Where codes and refresh tokens are exchanged."},
        "revocation_endpoint": {**_ADDRESS, "description": "Where tokens are revoked."},
        "response_types_supported": {**_WORDS, "description": "What `response_type` may be."},
        "response_modes_supported": {**_WORDS, "description": "How the answer comes back to `redirect_uri`."},
        "grant_types_supported": {**_WORDS, "description": "What `grant_type` may be."},
        "token_endpoint_auth_methods_supported": {**_WORDS, "description": "How a client tells who it is."},
        "revocation_endpoint_auth_methods_supported": {**_WORDS, "description": "The same, to revoke."},
        "code_challenge_methods_supported": {**_WORDS, "description": "What `code_challenge_method` may be."},
        "service_documentation": {**_ADDRESS, "description": "The documentation for people."},
    },
    "examples": [
        {
            "issuer": "https://api.example",
            "authorization_endpoint": "https://api.example/oauth/authorize",
            "token_endpoint": "https://api.example/oauth/token",
        }
    ],
}
_QUERY = (
    ("client_id", True, "The client's id.", _TEXT),
    ("redirect_uri", True, "The redirect URL that the client has registered, exactly.", _TEXT),
    ("response_type", True, "Always `code`.", {"type": "string", "enum": ["code"]}),
    ("state", False, "Comes back unchanged with the code; check it against cross-site request forgery.", _TEXT),
    ("code_challenge", False, "PKCE challenge (RFC 7636).", {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"}),
    ("code_challenge_method", False, "Goes with `code_challenge`.", {"type": "string", "enum": ["S256"]}),
)


def oauth_paths() -> dict[str, dict[str, Any]]:
    """Return the path items of the OAuth server."""
    return {
        AUTHORIZE: {"get": _authorize()},
        TOKEN: {
            "post": _form(
                "issue_tokens",
                "Exchange a code or a refresh token for a token pair.",
                f"The access token works for {ACCESS_TOKEN_SECONDS // 86_400} days, the refresh token for "
                f"{REFRESH_TOKEN_SECONDS // 86_400} days and once: of simultaneous requests with the same one "
                "exactly one gets a pair, and the second use of a code or of a refresh token ends the whole grant. "
                "So store the new refresh token before you use it.\n\nA client tells who it is by HTTP Basic or in "
                "the body, not both. A public client sends its `client_id` alone, and the `code_verifier` of its "
                "challenge.",
                {"oneOf": [_EXCHANGE, _REFRESH]},
                _TOKEN_PAIR,
            )
        },
        REVOKE: {
            "post": _form(
                "revoke_token",
                "Revoke a token, known or not (RFC 7009).",
                "A refresh token ends the whole grant, with every token of it; an access token ends alone. Another "
                "client's token is left as it is. The answer is 200 in any case. Users can end a grant too.",
                _REVOCATION,
                {"type": "object"},
            )
        },
        METADATA: {
            "get": {
                "operationId": "read_oauth_metadata",
                "tags": [_AREA],
                "summary": "Tell where the endpoints of the OAuth server are (RFC 8414).",
                "description": "Addresses begin as the one under which the service was reached.",
                "responses": {"200": _json("The metadata.", _SERVER)},
                "security": [],
            }
        },
    }


def _authorize() -> dict[str, Any]:
    return {
        "operationId": "authorize",
        "tags": [_AREA],
        "summary": "Send the user's browser here, to log in and to approve.",
        "description": "It comes back to `redirect_uri` with `code` and `state`, or with `error` when the user "
        "denies or the request is wrong. Where the client or its redirect URL is not known, the user sees a page "
        f"and is sent nowhere. A code works once, for {AUTHORIZATION_CODE_SECONDS // 60} minutes. PKCE is optional, "
        "but required of a client without a secret; the method is S256. `scope` is ignored: an approval is for "
        "everything that the user may do.",
        "parameters": [
            {"name": name, "in": "query", "required": required, "description": doc, "schema": dict(schema)}
            for name, required, doc, schema in _QUERY
        ],
        "responses": {
            "200": {"description": "The consent page.", "content": _HTML},
            "303": {"description": "To the login, or back to `redirect_uri` with an error."},
            "400": {"description": "A page: client, redirect URL or response type are not known.", "content": _HTML},
            "503": {"description": "A page: the store is away; try again later.", "content": _HTML},
        },
        "security": [],
    }


def _form(name: str, summary: str, rules: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return {
        "operationId": name,
        "tags": [_AREA],
        "summary": summary,
        "description": rules,
        "requestBody": {"required": True, "content": {FORM: {"schema": body}}},
        "responses": {
            "200": _json("Success.", answer),
            "400": _json("The request is refused.", _REFUSAL),
            "401": _json("The client is not known, or its secret is wrong.", _REFUSAL),
            "413": _json("The body is too large.", _REFUSAL),
            "503": _json("The store is away; try again later.", ERROR_SCHEMA),
        },
        "security": [],
    }


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": schema}}}
