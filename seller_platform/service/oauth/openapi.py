"""The requests and answers of the OAuth server, and their description for the OpenAPI document."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from seller_platform.contract.wire import (
    ACCESS_TOKEN_SECONDS,
    AUTHORIZATION_CODE_SECONDS,
    AUTHORIZE,
    DOCS,
    METADATA,
    REFRESH_TOKEN_SECONDS,
    REVOKE,
    TOKEN,
)
from seller_platform.service.access import Scope
from seller_platform.service.http.bodies import FORM
from seller_platform.service.http.parameters import Parameter, about, choice_of
from seller_platform.service.http.responses import JSON, Error
from seller_platform.service.openapi import Answers, Operation

_SCOPES = " ".join(Scope)
_TOO_MANY = "the network has made too many requests, or has too many under way; `Retry-After` says when to try again."
_CLIENT_METHODS = ("client_secret_basic", "client_secret_post", "none")
_ClientId = Annotated[str, about("The client's id; here or by HTTP Basic.")] | UnsetType
_ClientSecret = Annotated[str, about("The client's secret; here or by HTTP Basic.")] | UnsetType
_Verifier = Annotated[
    str,
    about(
        "The PKCE verifier, where a challenge was sent (RFC 7636).",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        min_length=43,
        max_length=128,
        pattern="^[A-Za-z0-9._~-]+$",
    ),
]


class CodeExchange(Struct, tag_field="grant_type", tag="authorization_code"):
    """Exchanges a code for a token pair."""

    code: Annotated[str, about("The code that the callback received. It works once, for ten minutes.")]
    redirect_uri: Annotated[str, about("The redirect URL that the code was asked for with.")]
    client_id: _ClientId = UNSET
    client_secret: _ClientSecret = UNSET
    code_verifier: _Verifier | UnsetType = UNSET


class Refresh(Struct, tag_field="grant_type", tag="refresh_token"):
    """Exchanges a refresh token for the next pair."""

    refresh_token: Annotated[str, about("The newest refresh token. An older one ends the whole grant.")]
    client_id: _ClientId = UNSET
    client_secret: _ClientSecret = UNSET
    scope: (
        Annotated[
            str, about("Scopes of the next access token, out of those that the user approved; by default all.", _SCOPES)
        ]
        | UnsetType
    ) = UNSET


class Revocation(Struct):
    """Revokes a token."""

    token: Annotated[str, about("An access token, or a refresh token: then the whole grant ends.")]
    token_type_hint: Annotated[str, about("Ignored; both kinds are looked for.")] | UnsetType = UNSET
    client_id: _ClientId = UNSET
    client_secret: _ClientSecret = UNSET


class TokenAnswer(Struct, tag_field="token_type", tag="Bearer"):
    """A token pair."""

    expires_in: Annotated[
        int,
        about(
            f"Seconds for which the access token works: {ACCESS_TOKEN_SECONDS}, unless the whole access ends before.",
            ACCESS_TOKEN_SECONDS,
            ge=0,
            le=ACCESS_TOKEN_SECONDS,
        ),
    ]
    access_token: Annotated[str, about("Send it as `Authorization: Bearer ACCESS_TOKEN`.")]
    refresh_token: Annotated[
        str, about("Works once, for the next pair; store the new one each time before you use it.")
    ]
    scope: Annotated[
        str, about("What the access token may do: names of scopes with spaces between (RFC 6749 section 5.1).", _SCOPES)
    ]


class TokenError(Struct):
    """Why no tokens are issued (RFC 6749 section 5.2)."""

    error: Annotated[
        Literal[
            "invalid_request",
            "invalid_client",
            "invalid_grant",
            "invalid_scope",
            "invalid_target",
            "unsupported_grant_type",
        ],
        about("The kind of error."),
    ]
    error_description: Annotated[str, about("What is wrong, in a sentence.")]


class Revoked(Struct):
    """Nothing: the token works no longer, whether it was known or not."""


def server_metadata(base_url: str) -> dict[str, tuple[Any, str]]:
    """Return the metadata of the server (RFC 8414): each value, and a sentence about it."""
    return {
        "issuer": (base_url, "The service itself."),
        "authorization_endpoint": (f"{base_url}{AUTHORIZE}", "Where the user's browser is sent."),
        "token_endpoint": (f"{base_url}{TOKEN}", "Where codes and refresh tokens are exchanged."),
        "revocation_endpoint": (f"{base_url}{REVOKE}", "Where tokens are revoked."),
        "scopes_supported": ([scope.value for scope in Scope], "What `scope` may name."),
        "response_types_supported": (["code"], "What `response_type` may be."),
        "response_modes_supported": (["query"], "How the answer comes back to `redirect_uri`."),
        "grant_types_supported": (["authorization_code", "refresh_token"], "What `grant_type` may be."),
        "token_endpoint_auth_methods_supported": (_CLIENT_METHODS, "How a client tells who it is."),
        "revocation_endpoint_auth_methods_supported": (_CLIENT_METHODS, "The same, to revoke."),
        "code_challenge_methods_supported": (["S256"], "What `code_challenge_method` may be."),
        "authorization_response_iss_parameter_supported": (True, "Whether `iss` comes back with the code (RFC 9207)."),
        "client_id_metadata_document_supported": (
            True,
            "Whether `client_id` may be the URL of a client ID metadata document.",
        ),
        "service_documentation": (f"{base_url}{DOCS}", "The documentation for people."),
    }


_Address = Annotated[str, Meta(extra_json_schema={"format": "uri"})]
_TYPES: Mapping[type, Any] = {str: _Address, bool: bool, list: list[str], tuple: list[str]}
_METADATA = msgspec.defstruct(
    "ServerMetadata",
    [
        (name, Annotated[_TYPES[type(value)], about(doc, value)])
        for name, (value, doc) in server_metadata("https://api.example").items()
    ],
)
_QUERY = (
    Parameter[str](
        "client_id", "The client's id, or the https URL of its client ID metadata document.", str, required=True
    ),
    Parameter[str](
        "redirect_uri", "One of the redirect URLs that the client has registered, exactly.", str, required=True
    ),
    Parameter[str]("response_type", "Always `code`.", choice_of("code"), required=True),
    Parameter[str](
        "scope", "Scopes that the user may approve, with spaces between; by default all.", str, example=_SCOPES
    ),
    Parameter[str](
        "resource",
        "What the token is for (RFC 8707): this service, or its `/mcp`; by default the former, or the latter for a "
        "client with a metadata document that asks for the scope `read` alone, or is registered for agents.",
        _Address,
        example="https://api.example/mcp",
    ),
    Parameter[str]("state", "Comes back unchanged with the code; check it against cross-site request forgery.", str),
    Parameter[str](
        "code_challenge",
        "PKCE challenge (RFC 7636).",
        Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{43}$")],
        example="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    ),
    Parameter[str]("code_challenge_method", "Goes with `code_challenge`.", choice_of("S256")),
)
_OF_FORMS: Answers = {
    400: ("The request is refused.", {JSON: TokenError}),
    401: ("The client is not known, or its secret is wrong.", {JSON: TokenError}),
    413: ("The body is too large.", {JSON: TokenError}),
    429: (_TOO_MANY, {JSON: Error}),
    503: ("The store is away; try again later.", {JSON: Error}),
}

OPERATIONS = (
    Operation(
        AUTHORIZE,
        "authorize",
        "oauth",
        "Send the user's browser here, to log in and to approve.",
        "It comes back to `redirect_uri` with `code` and `state`, or with `error` when the user denies or the request "
        "is wrong; and with `iss`, the issuer of the metadata, which the client compares (RFC 9207). Where the client "
        "or its redirect URL is not known, the user sees a page and is sent nowhere. A code works once, for "
        f"{AUTHORIZATION_CODE_SECONDS // 60} minutes. PKCE is optional, but required of a client without a secret; "
        "the method is S256.\n\nThe user chooses accounts and scopes on the page: the token reads the ticked "
        "accounts, or all of the user's, also later ones. `read` is always given; unknown values of `scope` are "
        "ignored. For a client without a secret, the port of a redirect URL on 127.0.0.1 or [::1] may vary.",
        parameters=_QUERY,
        scope=None,
        others={
            200: ("The consent page.", {"text/html": str}),
            303: ("To the login, or back to `redirect_uri` with an error.", {}),
            400: ("A page: client, redirect URL or response type are not known.", {"text/html": str}),
            429: (f"A page: {_TOO_MANY}", {"text/html": str}),
            503: ("A page: the store is away; try again later.", {"text/html": str}),
        },
    ),
    Operation(
        TOKEN,
        "issue_tokens",
        "oauth",
        "Exchange a code or a refresh token for a token pair.",
        f"The access token works for {ACCESS_TOKEN_SECONDS // 86_400} days, the refresh token for "
        f"{REFRESH_TOKEN_SECONDS // 86_400} days and once: of simultaneous requests with the same one exactly one "
        "gets a pair, and the second use of a code or of a refresh token ends the whole grant. So store the new "
        "refresh token before you use it.\n\nA client tells who it is by HTTP Basic or in the body, not both. A "
        "public client sends its `client_id` alone, and the `code_verifier` of its challenge.\n\nThe whole access "
        "ends a year after the approval, unless the service is set otherwise. Then no token of it works any longer, "
        "and the answer to a refresh is `invalid_grant`: send the user through the authorization again.",
        TokenAnswer,
        method="POST",
        scope=None,
        body={FORM: CodeExchange | Refresh},
        others=_OF_FORMS,
    ),
    Operation(
        REVOKE,
        "revoke_token",
        "oauth",
        "Revoke a token, known or not (RFC 7009).",
        "A refresh token ends the whole grant, with every token of it; an access token ends alone. Another "
        "client's token is left as it is. The answer is 200 in any case. Users can end a grant too.",
        Revoked,
        method="POST",
        scope=None,
        body={FORM: Revocation},
        others=_OF_FORMS,
    ),
    Operation(
        METADATA,
        "read_oauth_metadata",
        "oauth",
        "Tell where the endpoints of the OAuth server are (RFC 8414).",
        "Addresses begin as the one under which the service was reached.",
        scope=None,
        others={200: ("The metadata.", {JSON: _METADATA}), 429: (_TOO_MANY, {JSON: Error})},
    ),
)
