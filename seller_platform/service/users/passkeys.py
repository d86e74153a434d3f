"""Passkeys (WebAuthn), the second factor of logins: stored, challenged and verified.

A challenge belongs to one browser and is used once. The private key never leaves the user's device; a stored public
key logs nobody in.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import urlsplit

import webauthn
from sqlalchemy import delete
from starlette.requests import Request
from webauthn.helpers import generate_challenge
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from seller_platform.errors import PasskeyRefusedError
from seller_platform.service.access import Caller, active_user, hash_of
from seller_platform.service.http.responses import base_url_of
from seller_platform.service.pool import Connection, fetch_records
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.service.users.store import user_id_of
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import PASSKEYS

MOST_PASSKEYS = 20
LONGEST_CREDENTIAL = 16_384

_LONGEST_ID = 1_023  # bytes (WebAuthn section 4)
_ANSWERED_WITHIN = timedelta(minutes=5)
_SERVICE_NAME = "Seller Platform"
_LIST = """
SELECT id, name, credential_id, public_key, sign_count, created_at, last_used_at
FROM service.passkeys WHERE user_id = %s ORDER BY id
"""
_CHALLENGE = """
INSERT INTO service.passkey_challenges (session_hash, purpose, user_id, challenge, expires_at)
VALUES (%(hash)s, %(purpose)s, %(user_id)s, %(challenge)s, now() + %(lasts)s)
ON CONFLICT (session_hash, purpose) DO UPDATE
SET user_id = excluded.user_id, challenge = excluded.challenge, expires_at = excluded.expires_at
"""
_RENEW = """
UPDATE service.passkey_challenges SET challenge = %(challenge)s
WHERE session_hash = %(hash)s AND purpose = %(purpose)s AND expires_at > now()
RETURNING user_id
"""
_TAKE = """
WITH former AS (
    SELECT session_hash, purpose, user_id, challenge FROM service.passkey_challenges
    WHERE session_hash = %(hash)s AND purpose = %(purpose)s AND expires_at > now() AND challenge <> ''
    FOR UPDATE
)
UPDATE service.passkey_challenges AS kept SET challenge = ''
FROM former WHERE kept.session_hash = former.session_hash AND kept.purpose = former.purpose
RETURNING former.user_id, former.challenge
"""
_END_CHALLENGE = "DELETE FROM service.passkey_challenges WHERE session_hash = %(hash)s AND purpose = %(purpose)s"
_ADD = """
INSERT INTO service.passkeys (user_id, name, credential_id, public_key, sign_count) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (credential_id) DO NOTHING
"""
_NOTE_USE = """
UPDATE service.passkeys SET sign_count = %(sign_count)s, last_used_at = now()
WHERE id = %(id)s AND sign_count = %(former)s
"""
_REMOVE = "DELETE FROM service.passkeys WHERE user_id = %s AND id = %s RETURNING name"


class Purpose(StrEnum):
    """What a challenge is for."""

    LOGIN = "login"
    ADD = "add"


@dataclass(frozen=True)
class Passkey:
    """A passkey of a user."""

    id: int
    name: str
    credential_id: bytes
    public_key: bytes
    sign_count: int
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True)
class RelyingParty:
    """The service as browsers name it in passkeys: its origin, and the host of that."""

    origin: str

    @property
    def id(self) -> str:
        return urlsplit(self.origin).hostname or "localhost"


def relying_party(request: Request) -> RelyingParty:
    """Return the party that a request's passkeys belong to: the service's public URL."""
    return RelyingParty(base_url_of(request))


async def passkeys_of(connection: Connection, user_id: int) -> Sequence[Passkey]:
    """Return the passkeys of a user, the oldest first."""
    return await fetch_records(connection, Passkey, _LIST, (user_id,))


async def begin_adding(connection: Connection, party: RelyingParty, user: Caller, session_secret: str) -> str:
    """Store a challenge for a new passkey, and return the browser's options as JSON."""
    existing = await passkeys_of(connection, user.id)
    options = webauthn.generate_registration_options(
        rp_id=party.id,
        rp_name=_SERVICE_NAME,
        user_id=hash_of(f"{party.id} user {user.id}"),
        user_name=user.email,
        user_display_name=user.name,
        exclude_credentials=[PublicKeyCredentialDescriptor(id=passkey.credential_id) for passkey in existing],
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.DISCOURAGED,
            user_verification=UserVerificationRequirement.PREFERRED,
        ),
    )
    values = _values(session_secret, Purpose.ADD, options.challenge)
    await connection.execute(_CHALLENGE, {**values, "user_id": user.id, "lasts": _ANSWERED_WITHIN})
    return webauthn.options_to_json(options)


async def add_passkey(
    connection: Connection, party: RelyingParty, user_id: int, session_secret: str, *, name: str, credential: str
) -> None:
    """Store a new passkey, if the browser signed the challenge of its session.

    Raises:
        PasskeyRefusedError: The credential does not belong to the challenge, or is stored already.
    """
    challenged_id, challenge = await _take(connection, session_secret, Purpose.ADD)
    if challenged_id != user_id:
        raise PasskeyRefusedError("was made for another user")
    try:
        verified = webauthn.verify_registration_response(
            credential=_parsed(credential),
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
        )
    except Exception as error:  # the library raises many classes for broken input
        raise PasskeyRefusedError("does not fit the request of this page") from error
    if len(verified.credential_id) > _LONGEST_ID:
        raise PasskeyRefusedError("has too long an id")
    values = (user_id, name, verified.credential_id, verified.credential_public_key, verified.sign_count)
    if (await connection.execute(_ADD, values)).rowcount == 0:
        raise PasskeyRefusedError("is registered already")


async def begin_login(connection: Connection, user_id: int, session_secret: str) -> None:
    """Note that a browser gave the right password, and must now sign a challenge within five minutes."""
    values = _values(session_secret, Purpose.LOGIN, b"")
    await connection.execute(_CHALLENGE, {**values, "user_id": user_id, "lasts": _ANSWERED_WITHIN})


async def login_options(connection: Connection, party: RelyingParty, session_secret: str) -> str | None:
    """Return the options for a login with a passkey as JSON; None if no right password came before."""
    challenge = generate_challenge()
    values = _values(session_secret, Purpose.LOGIN, challenge)
    row = await (await connection.execute(_RENEW, values)).fetchone()
    if row is None:
        return None
    allowed = [
        PublicKeyCredentialDescriptor(id=each.credential_id) for each in await passkeys_of(connection, int(row[0]))
    ]
    options = webauthn.generate_authentication_options(
        rp_id=party.id,
        challenge=challenge,
        allow_credentials=allowed,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return webauthn.options_to_json(options)


async def verify_login(connection: Connection, party: RelyingParty, session_secret: str, credential: str) -> Caller:
    """Return the user who gave the password and now a signature of a passkey.

    Raises:
        PasskeyRefusedError: The signature is not one of the user's passkeys, or its counter went back.
    """
    user_id, challenge = await _take(connection, session_secret, Purpose.LOGIN)
    user = await active_user(connection, user_id)
    if user is None:
        raise PasskeyRefusedError("belongs to a user who is closed")
    passkeys = {passkey.credential_id: passkey for passkey in await passkeys_of(connection, user.id)}
    try:
        parsed = _parsed(credential)
        passkey = passkeys[webauthn.base64url_to_bytes(str(parsed["rawId"]))]
        verified = webauthn.verify_authentication_response(
            credential=parsed,
            expected_challenge=challenge,
            expected_rp_id=party.id,
            expected_origin=party.origin,
            credential_public_key=passkey.public_key,
            credential_current_sign_count=passkey.sign_count,
        )
    except Exception as error:  # the library raises many classes for broken input
        raise PasskeyRefusedError("is not one of this user's, or did not sign the request", user.id) from error
    values = {"id": passkey.id, "sign_count": verified.new_sign_count, "former": passkey.sign_count}
    if (await connection.execute(_NOTE_USE, values)).rowcount == 0:
        raise PasskeyRefusedError("was used by two logins at once", user.id)
    await connection.execute(_END_CHALLENGE, _values(session_secret, Purpose.LOGIN, b""))
    return user


async def remove_passkey(connection: Connection, user_id: int, number: int) -> str | None:
    """Delete a passkey of a user, and return its name; None if there is none."""
    row = await (await connection.execute(_REMOVE, (user_id, number))).fetchone()
    return str(row[0]) if row is not None else None


def remove_passkeys(database: Database, email: str) -> int:
    """Delete all passkeys of a user, and return how many; the password alone logs in then.

    Raises:
        RequestError: No user has that e-mail address.
    """
    with database.begin() as connection:
        user_id = user_id_of(connection, email)
        deleted = delete(PASSKEYS).where(PASSKEYS.c.user_id == user_id).returning(PASSKEYS.c.name)
        names = connection.execute(deleted).scalars().all()
        for name in names:
            record_operator_event(connection, EventKind.PASSKEY_REMOVED, user_id=user_id, details={"name": name})
    return len(names)


async def _take(connection: Connection, session_secret: str, purpose: Purpose) -> tuple[int, bytes]:
    """Return the user and the challenge of a session, which cannot be taken again."""
    taken = await (await connection.execute(_TAKE, _values(session_secret, purpose, b""))).fetchone()
    if taken is None:
        raise PasskeyRefusedError("came too late; load the page again")
    return taken[0], taken[1]


def _values(session_secret: str, purpose: Purpose, challenge: bytes) -> dict[str, object]:
    return {"hash": hash_of(session_secret), "purpose": purpose.value, "challenge": challenge}


def _parsed(credential: str) -> dict[str, object]:
    """Return the browser's credential.

    Raises:
        ValueError: It is no JSON object, or too large.
    """
    parsed = json.loads(credential) if len(credential) <= LONGEST_CREDENTIAL else None
    if not isinstance(parsed, dict):
        raise ValueError("the credential is no JSON object")
    return parsed
