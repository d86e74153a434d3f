"""Answers a repeated request once: the header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header).

The key and the answer are stored in the transaction of the effect, so that a crash loses or repeats neither. A refusal
has no effect, and is not stored. A key belongs to a user and an endpoint, and is kept for a day.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import IDEMPOTENCY_KEY
from seller_platform.errors import ApiError, InvalidParametersError
from seller_platform.service.http.parameters import Parameter, shown
from seller_platform.service.pool import Connection, Store
from seller_platform.warehouse.postgres.advisory_locks import TRY_LOCK

KEPT_HOURS = 24

_LONGEST_KEY = 255
_RETRY_SECONDS = 1

_FIND = """
SELECT fingerprint, status, media_type, body FROM service.idempotency_keys
WHERE user_id = %(user)s AND endpoint = %(endpoint)s AND key = %(key)s
  AND stored_at > now() - %(hours)s * interval '1 hour'
"""
_STORE = """
INSERT INTO service.idempotency_keys (user_id, endpoint, key, fingerprint, status, media_type, body)
VALUES (%(user)s, %(endpoint)s, %(key)s, %(fingerprint)s, %(status)s, %(media_type)s, %(body)s)
ON CONFLICT (user_id, endpoint, key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = excluded.status, media_type = excluded.media_type,
    body = excluded.body, stored_at = now()
"""


def _read_key(text: str) -> str:
    key = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if not 1 <= len(key) <= _LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise ValueError(f"must have 1 to {_LONGEST_KEY} printable ASCII characters; it is {shown(text)}")
    return key


KEY = Parameter(
    IDEMPOTENCY_KEY,
    f"A text that no other request of the user to this endpoint has, such as a UUID. For {KEPT_HOURS} hours the same "
    "request with the same key gets the same answer, and is carried out once. A refusal is not kept.",
    _read_key,
    {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY + 2},
    place="header",
)


@dataclass(frozen=True)
class RepeatableRequest:
    """A request that may be sent more than once.

    Attributes:
        key: The value of its Idempotency-Key; None without that header.
        endpoint: Its method and path.
        fingerprint: The hash of its query, its body and the accounts of its token.
    """

    user_id: int
    endpoint: str
    key: str | None
    fingerprint: bytes

    @classmethod
    def of(
        cls,
        request: Request,
        body: Mapping[str, object],
        *,
        user_id: int,
        accounts: Sequence[str] | None,
    ) -> "RepeatableRequest":
        """Return a request that was sent with this body.

        Args:
            accounts: The accounts that its token may read, so that a token for others gets no stored answer.

        Raises:
            InvalidParametersError: The key has a wrong form, or was sent more than once.
        """
        endpoint = f"{request.method} {request.scope['path']}"
        keys = request.headers.getlist(IDEMPOTENCY_KEY)
        if not keys:
            return cls(user_id, endpoint, None, b"")
        if len(keys) > 1:
            raise InvalidParametersError({IDEMPOTENCY_KEY: [f"was sent {len(keys)} times; send it once"]})
        try:
            return cls(
                user_id, endpoint, KEY.read(keys[0]), _fingerprint(accounts, request.scope["query_string"], body)
            )
        except ValueError as error:
            raise InvalidParametersError({IDEMPOTENCY_KEY: [str(error)]}) from None


async def answer_once(
    store: Store, request: RepeatableRequest, work: Callable[[Connection], Awaitable[Response]]
) -> Response:
    """Return the stored answer of a request, or that of `work`, which is then stored.

    Without a key, `work` runs outside of a transaction.

    Raises:
        IdempotencyKeyReusedError: Another request was sent with the key.
        IdempotencyKeyBusyError: A request with the key is under way.
        ApiError: The request is refused.
    """
    async with store.connection() as connection:
        if request.key is None:
            return await work(connection)
        values = {"user": request.user_id, "endpoint": request.endpoint, "key": request.key}
        async with connection.transaction():
            name = f"service.idempotency_keys {request.user_id} {request.endpoint} {request.key}"
            if await (await connection.execute(TRY_LOCK, {"name": name})).fetchone() != (True,):
                raise ApiError(
                    f"a request with the Idempotency-Key {request.key[:40]!r} is under way; send it again in "
                    f"{_RETRY_SECONDS} s",
                    status=409,
                    retry_after_seconds=_RETRY_SECONDS,
                )
            stored = await (await connection.execute(_FIND, {**values, "hours": KEPT_HOURS})).fetchone()
            if stored is not None:
                fingerprint, status, media_type, body = stored
                if fingerprint != request.fingerprint:
                    problem = (
                        f"is {request.key[:40]!r}, with which another request was sent to this endpoint; send a key of "
                        "its own"
                    )
                    parameters = {"Idempotency-Key": [problem]}
                    raise ApiError(f"Idempotency-Key {problem}", status=422, parameters=parameters)
                return Response(body, status, media_type=media_type)
            answer = await work(connection)
            kept = {"status": answer.status_code, "media_type": answer.media_type, "body": bytes(answer.body)}
            await connection.execute(_STORE, {**values, **kept, "fingerprint": request.fingerprint})
        return answer


def _fingerprint(accounts: Sequence[str] | None, query: bytes, body: Mapping[str, object]) -> bytes:
    """Return the hash of a request; the fields of its body may be in any order.

    Raises:
        ValueError: The body is nested too deeply.
    """
    try:
        text = json.dumps([accounts and sorted(accounts), body], sort_keys=True, default=_number)
    except RecursionError:
        raise ValueError("is sent with a body that is nested too deeply") from None
    return hashlib.sha256(b"%b\n%b" % (query, text.encode())).digest()


def _number(value: object) -> object:
    """Return a decimal in a form that no text of JSON has."""
    assert isinstance(value, Decimal)
    return {"decimal": str(value)}
