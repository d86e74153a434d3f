"""A temporary user and access token for `verify`."""

import secrets
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import delete, func, insert, select

from seller_platform.contract.tokens import Scope
from seller_platform.service.access import hash_of
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.service.users.store import add_user, grant_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import ACCESS_TOKENS, AUTHORIZATIONS, USERS

_LONGEST_ACCESS = timedelta(days=1)
_DOMAIN = "visit.invalid"  # no mail can be sent there (RFC 2606)
_REDIRECT_URI = "https://visit.invalid/"


@contextmanager
def temporary_access(database: Database, account_keys: Sequence[str]) -> Iterator[str]:
    """Yield an access token that reads accounts until the block ends.

    Its user, application and token are deleted at the end. Those of a process that was killed are deleted by the next
    call after the token has expired, which is a day later.

    Raises:
        UnknownAccountError: One of the accounts does not exist.
    """
    _remove_expired(database)
    email = f"{uuid.uuid4()}@{_DOMAIN}"
    user_id = add_user(database, email, "A visit", secrets.token_urlsafe(32))
    try:
        grant_accounts(database, email, account_keys)
        # The temporary user owns the application, so that it is deleted with them.
        client_id, _ = add_application(database, "A visit", _REDIRECT_URI, owner_id=user_id)
        family, token = uuid.uuid4(), secrets.token_urlsafe(32)
        issued = {"token_hash": hash_of(token), "family": family, "expires_at": func.now() + _LONGEST_ACCESS}
        with database.begin() as connection:
            consent = {"family": family, "client_id": client_id, "user_id": user_id, "scopes": [Scope.READ.value]}
            connection.execute(insert(AUTHORIZATIONS).values({**consent, "accounts": list(account_keys)}))
            connection.execute(insert(ACCESS_TOKENS).values(issued))
            facts = {"accounts": list(account_keys)}
            record_operator_event(
                connection, EventKind.TEMPORARY_ACCESS_GIVEN, user_id=user_id, client_id=client_id, details=facts
            )
        yield token
    finally:
        with database.begin() as connection:
            connection.execute(delete(USERS).where(USERS.c.id == user_id))


def _remove_expired(database: Database) -> None:
    with_valid_token = (
        select(AUTHORIZATIONS.c.user_id)
        .join(ACCESS_TOKENS, ACCESS_TOKENS.c.family == AUTHORIZATIONS.c.family)
        .where(ACCESS_TOKENS.c.expires_at > func.now())
    )
    expired = (
        USERS.c.email.endswith(f"@{_DOMAIN}"),
        USERS.c.created_at < func.now() - _LONGEST_ACCESS,
        USERS.c.id.not_in(with_valid_token),
    )
    with database.begin() as connection:
        connection.execute(delete(USERS).where(*expired))
