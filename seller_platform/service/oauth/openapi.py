"""Describes the OAuth server for the OpenAPI document."""

from typing import Any

from seller_platform.contract.tokens import Scope
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
from seller_platform.service.openapi.operations import ERROR_SCHEMA, INTEGER, TEXT, object_schema

_HTML = {"text/html": {"schema": TEXT}}
_TOKEN_PAIR = object_schema(
    "TokenPair",
    {
        "token_type": ({"const": "Bearer"}, "Always `Bearer`."),
        "expires_in": (
            {**INTEGER, "minimum": 0, "maximum": ACCESS_TOKEN_SECONDS, "examples": [ACCESS_TOKEN_SECONDS]},
            f"Seconds for which the access token works: {ACCESS_TOKEN_SECONDS}, unless the whole access ends before.",
        ),
        "access_token": (TEXT, "Send it as `Authorization: Bearer ACCESS_TOKEN`."),
        "refresh_token": (TEXT, "Works once, for the next pair; store the new one each time before you use it."),
        "scope": (TEXT, "What the access token may do: names of scopes with spaces between (RFC 6749 section 5.1)."),
    },
)
_KINDS = {
    "enum": [
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unsupported_grant_type",
    ]
}
_REFUSAL = object_schema(
    "TokenError",
    {
        "error": (_KINDS, "The kind of error (RFC 6749 section 5.2)."),
        "error_description": (TEXT, "What is wrong, in a sentence."),
    },
)
_SCOPE = {**TEXT, "examples": [" ".join(Scope)]}
_CLIENT = {
    "client_id": (TEXT, "The client's id; here or by HTTP Basic."),
    "client_secret": (TEXT, "The client's secret; here or by HTTP Basic."),
}
# The type of these two comes first, so that the served document stays as it is to the byte.
_EXCHANGE = {"type": "object"} | object_schema(
    "CodeExchange",
    {
        "grant_type": ({"const": "authorization_code"}, "Exchanges a code for a token pair."),
        **_CLIENT,
        "code": (TEXT, "The code that the callback received. It works once, for ten minutes."),
        "redirect_uri": (TEXT, "The redirect URL that the code was asked for with."),
        "code_verifier": (TEXT, "The PKCE verifier, where a challenge was sent (RFC 7636)."),
    },
    required=("grant_type", "code", "redirect_uri"),
)
_REFRESH = {"type": "object"} | object_schema(
    "Refresh",
    {
        "grant_type": ({"const": "refresh_token"}, "Exchanges a refresh token for the next pair."),
        **_CLIENT,
        "refresh_token": (TEXT, "The newest refresh token. An older one ends the whole grant."),
        "scope": (_SCOPE, "Scopes of the next access token, out of those that the user approved; by default all."),
    },
    required=("grant_type", "refresh_token"),
)
_REVOCATION = object_schema(
    "Revocation",
    {
        "token": (TEXT, "An access token, or a refresh token: then the whole grant ends."),
        "token_type_hint": (TEXT, "Ignored; both kinds are looked for."),
        **_CLIENT,
    },
    required=("token",),
)
_TOO_MANY = "the network has made too many requests, or has too many under way; `Retry-After` says when to try again."
_ADDRESS = {"type": "string", "format": "uri"}
_WORDS = {"type": "array", "items": TEXT}
_SERVER = object_schema(
    "ServerMetadata",
    {
        "issuer": (_ADDRESS, "The service itself."),
        "authorization_endpoint": (_ADDRESS, "Where the user's browser is sent."),
        "token_endpoint": (_ADDRESS, "Where codes and refresh tokens are exchanged."),
        "revocation_endpoint": (_ADDRESS, "Where tokens are revoked."),
        "scopes_supported": (_WORDS, "What `scope` may name."),
        "response_types_supported": (_WORDS, "What `response_type` may be."),
        "response_modes_supported": (_WORDS, "How the answer comes back to `redirect_uri`."),
        "grant_types_supported": (_WORDS, "What `grant_type` may be."),
        "token_endpoint_auth_methods_supported": (_WORDS, "How a client tells who it is."),
        "revocation_endpoint_auth_methods_supported": (_WORDS, "The same, to revoke."),
        "code_challenge_methods_supported": (_WORDS, "What `code_challenge_method` may be."),
        "authorization_response_iss_parameter_supported": (
            {"type": "boolean"},
            "Whether `iss` comes back with the code (RFC 9207).",
        ),
        "client_id_metadata_document_supported": (
            {"type": "boolean"},
            "Whether `client_id` may be the URL of a client ID metadata document.",
        ),
        "service_documentation": (_ADDRESS, "The documentation for people."),
    },
    required=(),
) | {
    "examples": [
        {
            "issuer": "https://api.example",
            "authorization_endpoint": "https://api.example/oauth/authorize",
            "token_endpoint": "https://api.example/oauth/token",
        }
    ],
}
_QUERY = (
    ("client_id", True, "The client's id, or the https URL of its client ID metadata document.", TEXT),
    ("redirect_uri", True, "One of the redirect URLs that the client has registered, exactly.", TEXT),
    ("response_type", True, "Always `code`.", {"type": "string", "enum": ["code"]}),
    ("scope", False, "Scopes that the user may approve, with spaces between; by default all.", _SCOPE),
    (
        "resource",
        False,
        "What the token is for (RFC 8707): this service, or its `/mcp`; by default the former, or the latter for a "
        "client with a metadata document that asks for the scope `read` alone, or is registered for agents.",
        _ADDRESS,
    ),
    ("state", False, "Comes back unchanged with the code; check it against cross-site request forgery.", TEXT),
    ("code_challenge", False, "PKCE challenge (RFC 7636).", {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"}),
    ("code_challenge_method", False, "Goes with `code_challenge`.", {"type": "string", "enum": ["S256"]}),
)


def oauth_paths() -> dict[str, dict[str, Any]]:
    """Return the path items of the OAuth server."""
    return {
        AUTHORIZE: {
            "get": _operation(
                "authorize",
                "Send the user's browser here, to log in and to approve.",
                "It comes back to `redirect_uri` with `code` and `state`, or with `error` when the user denies or the "
                "request is wrong; and with `iss`, the issuer of the metadata, which the client compares (RFC 9207). "
                "Where the client or its redirect URL is not known, the user sees a page and is "
                f"sent nowhere. A code works once, for {AUTHORIZATION_CODE_SECONDS // 60} minutes. PKCE is optional, "
                "but required of a client without a secret; the method is S256.\n\nThe user chooses "
                "accounts and scopes on the page: the token reads the ticked accounts, or all of the user's, also "
                "later ones. `read` is always given; unknown values of `scope` are ignored. For a client without a "
                "secret, the port of a redirect URL on 127.0.0.1 or [::1] may vary.",
                parameters=[
                    {"name": name, "in": "query", "required": required, "description": doc, "schema": dict(schema)}
                    for name, required, doc, schema in _QUERY
                ],
                responses={
                    "200": {"description": "The consent page.", "content": _HTML},
                    "303": {"description": "To the login, or back to `redirect_uri` with an error."},
                    "400": {
                        "description": "A page: client, redirect URL or response type are not known.",
                        "content": _HTML,
                    },
                    "429": {"description": f"A page: {_TOO_MANY}", "content": _HTML},
                    "503": {"description": "A page: the store is away; try again later.", "content": _HTML},
                },
            )
        },
        TOKEN: {
            "post": _form(
                "issue_tokens",
                "Exchange a code or a refresh token for a token pair.",
                f"The access token works for {ACCESS_TOKEN_SECONDS // 86_400} days, the refresh token for "
                f"{REFRESH_TOKEN_SECONDS // 86_400} days and once: of simultaneous requests with the same one "
                "exactly one gets a pair, and the second use of a code or of a refresh token ends the whole grant. "
                "So store the new refresh token before you use it.\n\nA client tells who it is by HTTP Basic or in "
                "the body, not both. A public client sends its `client_id` alone, and the `code_verifier` of its "
                "challenge.\n\nThe whole access ends a year after the approval, unless the service is set otherwise. "
                "Then no token of it works any longer, and the answer to a refresh is `invalid_grant`: send the user "
                "through the authorization again.",
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
            "get": _operation(
                "read_oauth_metadata",
                "Tell where the endpoints of the OAuth server are (RFC 8414).",
                "Addresses begin as the one under which the service was reached.",
                responses={"200": _json("The metadata.", _SERVER), "429": _json(_TOO_MANY, ERROR_SCHEMA)},
            )
        },
    }


def _form(name: str, summary: str, rules: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    return _operation(
        name,
        summary,
        rules,
        requestBody={"required": True, "content": {FORM: {"schema": body}}},
        responses={
            "200": _json("Success.", answer),
            "400": _json("The request is refused.", _REFUSAL),
            "401": _json("The client is not known, or its secret is wrong.", _REFUSAL),
            "413": _json("The body is too large.", _REFUSAL),
            "415": _json("The body is compressed, or in another charset than UTF-8.", _REFUSAL),
            "429": _json(_TOO_MANY, ERROR_SCHEMA),
            "503": _json("The store is away; try again later.", ERROR_SCHEMA),
        },
    )


def _operation(name: str, summary: str, rules: str, **keywords: object) -> dict[str, Any]:
    identity = {"operationId": name, "tags": ["oauth"], "summary": summary, "description": rules}
    return {**identity, **keywords, "security": []}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {JSON: {"schema": schema}}}
