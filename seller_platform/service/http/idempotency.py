"""Answers a repeated request once: the header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header).

The key and the answer are stored in the transaction of the effect, so that a crash loses or repeats neither. A refusal
has no effect, and is not stored. A key belongs to a user and an endpoint, and is kept for a day.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from seller_platform.contract.wire import IDEMPOTENCY_KEY
from seller_platform.service.errors import ApiError, InvalidParametersError
from seller_platform.service.http.parameters import Parameter
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


_FORM = Meta(
    min_length=1,
    max_length=_LONGEST_KEY,
    pattern="^[ -~]+$",
    description=f"1 to {_LONGEST_KEY} printable ASCII characters",
)

KEY = Parameter[str](
    IDEMPOTENCY_KEY,
    f"A text that no other request of the user to this endpoint has, such as a UUID. For {KEPT_HOURS} hours the same "
    "request with the same key gets the same answer, and is carried out once. A refusal is not kept.",
    Annotated[str, _FORM],
    place="header",
    example="8e03978e-40d5-43dd-bc93-6894a57f9324",
)


async def answer_once(
    store: Store,
    request: Request,
    body: Mapping[str, object],
    work: Callable[[Connection], Awaitable[Response]],
    *,
    user_id: int,
    accounts: Sequence[str] | None,
) -> Response:
    """Return the stored answer of a request that was sent with this body, or that of `work`, which is then stored.

    Without a key, `work` runs outside of a transaction.

    Args:
        accounts: The accounts that its token may read, so that a token for others gets no stored answer.

    Raises:
        InvalidParametersError: The key has a wrong form, or was sent more than once.
        ApiError: Another request was sent with the key, or is under way, or `work` refuses the request.
    """
    keys = request.headers.getlist(IDEMPOTENCY_KEY)
    if not keys:
        async with store.connection() as connection:
            return await work(connection)
    if len(keys) > 1:
        raise InvalidParametersError({IDEMPOTENCY_KEY: [f"was sent {len(keys)} times; send it once"]})
    try:
        key = KEY.read(keys[0][1:-1] if len(keys[0]) > 1 and keys[0][0] == keys[0][-1] == '"' else keys[0])
        fingerprint = _fingerprint(accounts, request.scope["query_string"], body)
    except ValueError as error:
        raise InvalidParametersError({IDEMPOTENCY_KEY: [str(error)]}) from None
    endpoint = f"{request.method} {request.scope['path']}"
    values = {"user": user_id, "endpoint": endpoint, "key": key}
    async with store.connection() as connection, connection.transaction():
        name = f"service.idempotency_keys {user_id} {endpoint} {key}"
        if await (await connection.execute(TRY_LOCK, {"name": name})).fetchone() != (True,):
            raise ApiError(
                f"a request with the Idempotency-Key {key[:40]!r} is under way; send it again in {_RETRY_SECONDS} s",
                status=409,
                retry_after_seconds=_RETRY_SECONDS,
            )
        stored = await (await connection.execute(_FIND, {**values, "hours": KEPT_HOURS})).fetchone()
        if stored is not None:
            stored_fingerprint, status, media_type, stored_body = stored
            if stored_fingerprint != fingerprint:
                problem = f"is {key[:40]!r}, with which another request was sent to this endpoint; send another key"
                raise InvalidParametersError({IDEMPOTENCY_KEY: [problem]})
            return Response(stored_body, status, media_type=media_type)
        answer = await work(connection)
        kept = {"status": answer.status_code, "media_type": answer.media_type, "body": bytes(answer.body)}
        await connection.execute(_STORE, {**values, **kept, "fingerprint": fingerprint})
    return answer


def _fingerprint(accounts: Sequence[str] | None, query: bytes, body: Mapping[str, object]) -> bytes:
    """Return the hash of a request; the fields of its body may be in any order.

    Raises:
        ValueError: The body is nested too deeply.
    """
    try:
        # The body's decimals are written in a form that no text of JSON has.
        text = json.dumps(
            [accounts and sorted(accounts), body], sort_keys=True, default=lambda number: {"decimal": str(number)}
        )
    except RecursionError:
        raise ValueError("is sent with a body that is nested too deeply") from None
    return hashlib.sha256(b"%b\n%b" % (query, text.encode())).digest()
