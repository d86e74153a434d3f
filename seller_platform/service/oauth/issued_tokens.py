"""Issues, rotates and revokes codes and tokens, each in one statement or transaction."""

import hmac
import secrets
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.tokens import code_challenge
from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS, AUTHORIZATION_CODE_SECONDS, REFRESH_TOKEN_SECONDS
from seller_platform.service.access import hash_of, scopes_of
from seller_platform.service.oauth.applications import Application
from seller_platform.service.oauth.consent_choices import AuthorizationRequest, Choices
from seller_platform.service.oauth.openapi import CodeExchange, Refresh
from seller_platform.service.pool import Connection

_RANDOM_BYTES = 32


@dataclass(frozen=True)
class IssuedTokens:
    """An access token and the refresh token that came with it."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    user_id: int
    scopes: Sequence[str]
    expires_in_seconds: int


@dataclass(frozen=True)
class RefusedUse:
    """A code or refresh token that gives no tokens.

    Attributes:
        user_id: The user whose consent it belonged to; None if it is unknown.
        is_repeated: Whether it was used before, so that its consent was revoked now.
        ended_at: When its consent came to its absolute end; None if it did not.
        exceeded_scopes: The scopes of its consent, where others were requested.
        issued_for: The path of its resource, empty for the REST API, where the request names another one.
    """

    user_id: int | None = None
    is_repeated: bool = False
    ended_at: datetime | None = None
    exceeded_scopes: Sequence[str] | None = None
    issued_for: str | None = None


_CONSENT = """
WITH consent AS (
    INSERT INTO service.authorizations
        (family, client_id, user_id, scopes, accounts, resource, is_resource_assumed, expires_at)
    VALUES (%(family)s, %(client_id)s, %(user_id)s, %(scopes)s, %(accounts)s, %(resource)s, %(is_resource_assumed)s,
            now() + %(consent_lifetime)s)
    RETURNING family, expires_at
)
INSERT INTO service.authorization_codes (code_hash, family, redirect_uri, code_challenge, expires_at)
SELECT %(code_hash)s, family, %(redirect_uri)s, %(code_challenge)s, least(now() + %(lifetime)s, expires_at) FROM consent
"""


# A code or a token works once; a second use revokes its consent. SQL of a use: where it is allowed, what notes it, and
# the key with which its tokens are derived.
_CODE: Mapping[str, LiteralString] = {
    "table": "service.authorization_codes",
    "hash": "code_hash",
    "condition": "once.redirect_uri = %(redirect_uri)s AND once.code_challenge IS NOT DISTINCT FROM %(code_challenge)s",
    "unused": "once.used_at IS NULL",
    "use": "used_at = now()",
    "key": "%(key)s::bytea",
}
# The processes of an agent's host refresh one grant at once. All uses within a minute get the same tokens.
_REFRESH_TOKEN: Mapping[str, LiteralString] = {
    "table": "service.refresh_tokens",
    "hash": "token_hash",
    "condition": "true",
    "unused": "(once.used_at IS NULL OR consent.resource IS NOT NULL AND once.used_at > now() - interval '1 minute')",
    "use": """
    used_at = coalesce(once.used_at, now()),
    successor_key = CASE WHEN consent.resource IS NOT NULL THEN coalesce(once.successor_key, %(key)s::bytea) END
    """,
    "key": "coalesce(once.successor_key, %(key)s::bytea)",
}

_OTHER_RESOURCE: LiteralString = """
%(resource)s <> coalesce(consent.resource, '') AND NOT (%(resource)s = '' AND consent.is_resource_assumed)
"""

# The UPDATE locks the row: of simultaneous requests, one uses it and the others see that it was used.
_USE = """
UPDATE {table} AS once
SET {use}
FROM service.authorizations AS consent
JOIN service.users AS users ON users.id = consent.user_id AND users.status = 'active'
WHERE once.{hash} = %(hash)s AND {unused} AND once.expires_at > now() AND {condition}
  AND (%(resource)s::text IS NULL OR NOT ({other_resource}))
  AND consent.family = once.family AND consent.client_id = %(client_id)s AND consent.revoked_at IS NULL
  AND consent.expires_at > now() AND coalesce(%(scopes)s::text[] <@ consent.scopes, true)
RETURNING once.family, {key}
"""

_ISSUE = """
WITH refresh AS (
    INSERT INTO service.refresh_tokens (token_hash, family, expires_at)
    SELECT %(refresh_hash)s, family, least(now() + %(refresh_lifetime)s, expires_at)
    FROM service.authorizations WHERE family = %(family)s
)
INSERT INTO service.access_tokens (token_hash, family, expires_at, scopes)
SELECT %(access_hash)s, family, least(now() + %(access_lifetime)s, expires_at), %(scopes)s::text[]
FROM service.authorizations WHERE family = %(family)s
"""

_ISSUED = """
SELECT consent.user_id, coalesce(token.scopes, consent.scopes),
       extract(epoch FROM token.expires_at - now())::integer
FROM service.access_tokens AS token
JOIN service.authorizations AS consent USING (family)
WHERE token.token_hash = %(access_hash)s
"""

_REVOKE_CONSENT = """
UPDATE service.authorizations AS consent
SET revoked_at = now()
FROM {table} AS once
WHERE once.{hash} = %(hash)s AND {condition}
  AND consent.family = once.family AND consent.client_id = %(client_id)s AND consent.revoked_at IS NULL
RETURNING consent.user_id
"""

_WHY_REFUSED = """
SELECT consent.user_id, false AS is_repeated,
       CASE WHEN consent.expires_at <= now() THEN consent.expires_at END AS ended_at,
       CASE WHEN NOT %(scopes)s::text[] <@ consent.scopes THEN consent.scopes END AS exceeded_scopes,
       CASE WHEN {other_resource} THEN coalesce(consent.resource, '') END AS issued_for
FROM {table} AS once
JOIN service.authorizations AS consent USING (family)
WHERE once.{hash} = %(hash)s AND consent.client_id = %(client_id)s AND consent.revoked_at IS NULL
"""

_END_ACCESS = """
DELETE FROM service.access_tokens AS token
USING service.authorizations AS consent
WHERE token.token_hash = %(hash)s AND consent.family = token.family AND consent.client_id = %(client_id)s
"""


async def issue_code(
    connection: Connection, request: AuthorizationRequest, choices: Choices, *, user_id: int, lifetime: timedelta
) -> str:
    """Store a user's consent and return the code for it.

    Args:
        lifetime: How long any token of it may be valid.
    """
    code = secrets.token_urlsafe(_RANDOM_BYTES)
    values = {
        **vars(request),
        "family": uuid.uuid4(),
        "client_id": request.application.client_id,
        "user_id": user_id,
        "scopes": [scope.value for scope in choices.scopes],
        "accounts": choices.accounts,
        "consent_lifetime": lifetime,
        "code_hash": hash_of(code),
        "lifetime": timedelta(seconds=AUTHORIZATION_CODE_SECONDS),
    }
    await connection.execute(_CONSENT, values)
    return code


async def use_grant(
    connection: Connection, application: Application, grant: CodeExchange | Refresh, resource: str | None
) -> IssuedTokens | RefusedUse:
    """Use a code or a refresh token, and return the tokens for it; without scopes, they do what the consent permits.

    A second use revokes the consent, with its token family. That of a refresh token for agents gives the same tokens
    again within a minute: they are derived from it, so that only hashes are stored.

    Args:
        resource: The path of the resource that the grant must be for, empty for the REST API; None is any.
    """
    key = secrets.token_bytes(_RANDOM_BYTES)
    values: dict[str, object] = {"client_id": application.client_id, "key": key, "resource": resource}
    if isinstance(grant, CodeExchange):
        once, secret = _CODE, grant.code
        challenge = code_challenge(grant.code_verifier) if grant.code_verifier else None
        values |= {"redirect_uri": grant.redirect_uri, "code_challenge": challenge, "scopes": None}
    else:
        once, secret = _REFRESH_TOKEN, grant.refresh_token
        values["scopes"] = [scope.value for scope in scopes_of(grant.scope)] if grant.scope else None
    values["hash"] = hash_of(secret)
    used = await connection.execute(_statement(_USE, once), values)
    row = await used.fetchone()
    if row is not None:
        family, used_key = row
        access, refresh = (
            urlsafe_b64encode(hmac.digest(used_key, use + secret.encode(), "sha256")).rstrip(b"=").decode()
            for use in (b"access", b"refresh")
        )
        issued = {
            "family": family,
            "scopes": values["scopes"],
            "access_hash": hash_of(access),
            "refresh_hash": hash_of(refresh),
            "access_lifetime": timedelta(seconds=ACCESS_TOKEN_SECONDS),
            "refresh_lifetime": timedelta(seconds=REFRESH_TOKEN_SECONDS),
        }
        if used_key == key:
            await connection.execute(_ISSUE, issued)
        row = await (await connection.execute(_ISSUED, issued)).fetchone()
        return IssuedTokens(access, refresh, *row) if row is not None else RefusedUse()
    user_id = await _revoke_consent(connection, once, values, only_used=True)
    if user_id is not None:
        return RefusedUse(user_id, is_repeated=True)
    why = await (await connection.execute(_statement(_WHY_REFUSED, once), values)).fetchone()
    return RefusedUse() if why is None else RefusedUse(*why)


async def revoke(connection: Connection, application: Application, token: str) -> int | None:
    """Revoke a token of an application.

    A refresh token revokes the consent, with its token family (RFC 7009 section 2.1).

    Returns:
        The user whose consent was revoked; None if none was.
    """
    values = {"hash": hash_of(token), "client_id": application.client_id}
    async with connection.transaction():
        user_id = await _revoke_consent(connection, _REFRESH_TOKEN, values)
        await connection.execute(_END_ACCESS, values)
    return user_id


async def _revoke_consent(
    connection: Connection, once: Mapping[str, LiteralString], values: Mapping[str, object], *, only_used: bool = False
) -> int | None:
    """Revoke the consent of a code or refresh token, and return its user.

    Args:
        only_used: Only where it was used, and may not be used again.
    """
    statement = _statement(_REVOKE_CONSENT, {**once, "condition": f"NOT {once['unused']}" if only_used else "true"})
    row = await (await connection.execute(statement, values)).fetchone()
    return None if row is None else int(row[0])


def _statement(template: LiteralString, once: Mapping[str, LiteralString]) -> sql.Composed:
    parts = {name: sql.SQL(part) for name, part in once.items()}
    return sql.SQL(template).format(**parts, other_resource=sql.SQL(_OTHER_RESOURCE))
