"""Issues, rotates and revokes codes and tokens, each in one statement or transaction."""

import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import LiteralString

from psycopg import sql

from seller_platform.contract.tokens import code_challenge
from seller_platform.contract.wire import ACCESS_TOKEN_SECONDS, AUTHORIZATION_CODE_SECONDS, REFRESH_TOKEN_SECONDS
from seller_platform.service.access import hash_of
from seller_platform.service.pool import Connection, fetch_record

_RANDOM_BYTES = 32


@dataclass(frozen=True)
class RegisteredApplication:
    """A registered application; without a secret it is a public client."""

    client_id: str
    name: str
    secret_hash: bytes | None
    redirect_uri: str

    @property
    def is_public(self) -> bool:
        return self.secret_hash is None


@dataclass(frozen=True)
class IssuedTokens:
    """An access token and the refresh token that came with it."""

    access_token: str
    refresh_token: str


_FIND = "SELECT client_id, name, secret_hash, redirect_uri FROM service.applications WHERE client_id = %s"

_CONSENT = """
WITH consent AS (
    INSERT INTO service.authorizations (family, client_id, user_id) VALUES (%(family)s, %(client_id)s, %(user_id)s)
    RETURNING family
)
INSERT INTO service.authorization_codes (code_hash, family, redirect_uri, code_challenge, expires_at)
SELECT %(code_hash)s, family, %(redirect_uri)s, %(code_challenge)s, now() + %(lifetime)s FROM consent
"""


@dataclass(frozen=True)
class _SingleUse:
    """A kind of code or token that works once; a second use revokes its consent.

    Attributes:
        condition: SQL that must be true, beside what is true of all kinds.
    """

    table: str
    hash_column: str
    condition: LiteralString


_CODE = _SingleUse(
    "authorization_codes",
    "code_hash",
    "once.redirect_uri = %(redirect_uri)s AND once.code_challenge IS NOT DISTINCT FROM %(code_challenge)s",
)
_REFRESH_TOKEN = _SingleUse("refresh_tokens", "token_hash", "true")

# The UPDATE locks the row: of simultaneous requests, one uses it and the others see that it was used.
_USE = """
WITH used AS (
    UPDATE {table} AS once
    SET used_at = now()
    FROM service.authorizations AS consent
    JOIN service.users AS users ON users.id = consent.user_id AND users.status = 'active'
    WHERE once.{hash} = %(hash)s AND once.used_at IS NULL AND once.expires_at > now() AND {condition}
      AND consent.family = once.family AND consent.client_id = %(client_id)s AND consent.revoked_at IS NULL
    RETURNING once.family
),
access AS (
    INSERT INTO service.access_tokens (token_hash, family, expires_at)
    SELECT %(access_hash)s, family, now() + %(access_lifetime)s FROM used
),
refresh AS (
    INSERT INTO service.refresh_tokens (token_hash, family, expires_at)
    SELECT %(refresh_hash)s, family, now() + %(refresh_lifetime)s FROM used
)
SELECT family FROM used
"""

_REVOKE_CONSENT = """
UPDATE service.authorizations AS consent
SET revoked_at = now()
FROM {table} AS once
WHERE once.{hash} = %(hash)s AND {condition}
  AND consent.family = once.family AND consent.client_id = %(client_id)s AND consent.revoked_at IS NULL
"""

_END_ACCESS = """
DELETE FROM service.access_tokens AS token
USING service.authorizations AS consent
WHERE token.token_hash = %(hash)s AND consent.family = token.family AND consent.client_id = %(client_id)s
"""


async def find_application(connection: Connection, client_id: str) -> RegisteredApplication | None:
    """Return the application of that id, or None where there is none."""
    return await fetch_record(connection, RegisteredApplication, _FIND, (client_id,))


async def issue_code(
    connection: Connection, application: RegisteredApplication, user_id: int, code_challenge: str | None
) -> str:
    """Record a user's consent and return the code for it."""
    code = secrets.token_urlsafe(_RANDOM_BYTES)
    await connection.execute(
        _CONSENT,
        {
            "family": uuid.uuid4(),
            "client_id": application.client_id,
            "user_id": user_id,
            "code_hash": hash_of(code),
            "redirect_uri": application.redirect_uri,
            "code_challenge": code_challenge,
            "lifetime": timedelta(seconds=AUTHORIZATION_CODE_SECONDS),
        },
    )
    return code


async def exchange_code(
    connection: Connection, application: RegisteredApplication, code: str, redirect_uri: str, code_verifier: str | None
) -> IssuedTokens | None:
    """Use a code and return the first tokens issued for it; None if invalid.

    A second use of a code revokes the consent, with all tokens issued for it.
    """
    values = {
        "hash": hash_of(code),
        "client_id": application.client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": code_challenge(code_verifier) if code_verifier is not None else None,
    }
    return await _use_once(connection, _CODE, values)


async def rotate(connection: Connection, application: RegisteredApplication, refresh_token: str) -> IssuedTokens | None:
    """Use a refresh token and return the next tokens; None if invalid.

    A second use of a refresh token revokes the consent, with its token family.
    """
    values = {"hash": hash_of(refresh_token), "client_id": application.client_id}
    return await _use_once(connection, _REFRESH_TOKEN, values)


async def revoke(connection: Connection, application: RegisteredApplication, token: str) -> None:
    """Revoke a token of an application.

    A refresh token revokes the consent, with its token family (RFC 7009 section 2.1).
    """
    values = {"hash": hash_of(token), "client_id": application.client_id}
    async with connection.transaction():
        await _revoke_consent(connection, _REFRESH_TOKEN, values)
        await connection.execute(_END_ACCESS, values)


async def _use_once(connection: Connection, once: _SingleUse, values: Mapping[str, object]) -> IssuedTokens | None:
    tokens = IssuedTokens(secrets.token_urlsafe(_RANDOM_BYTES), secrets.token_urlsafe(_RANDOM_BYTES))
    token_values = {
        "access_hash": hash_of(tokens.access_token),
        "refresh_hash": hash_of(tokens.refresh_token),
        "access_lifetime": timedelta(seconds=ACCESS_TOKEN_SECONDS),
        "refresh_lifetime": timedelta(seconds=REFRESH_TOKEN_SECONDS),
    }
    used = await connection.execute(_statement(_USE, once, once.condition), {**values, **token_values})
    if await used.fetchone() is not None:
        return tokens
    await _revoke_consent(connection, once, values, only_used=True)
    return None


async def _revoke_consent(
    connection: Connection, once: _SingleUse, values: Mapping[str, object], *, only_used: bool = False
) -> None:
    """Revoke the consent of a code or refresh token; with `only_used`, only after its use."""
    condition: LiteralString = "once.used_at IS NOT NULL" if only_used else "true"
    await connection.execute(_statement(_REVOKE_CONSENT, once, condition), values)


def _statement(template: LiteralString, once: _SingleUse, condition: LiteralString) -> sql.Composed:
    return sql.SQL(template).format(
        table=sql.Identifier("service", once.table),
        hash=sql.Identifier(once.hash_column),
        condition=sql.SQL(condition),
    )
