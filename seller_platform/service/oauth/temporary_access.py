"""Visits: access for a program of ours, as a user that exists no longer than it is needed."""

import secrets
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import delete, func, insert, select

from seller_platform.service.access import hash_of
from seller_platform.service.oauth.applications import add_application
from seller_platform.service.users.store import add_user, grant_accounts
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.service_tables import ACCESS_TOKENS, AUTHORIZATIONS, USERS

_LONGEST_ACCESS = timedelta(days=1)
_DOMAIN = "visit.invalid"  # nobody receives mail there (RFC 2606)
_REDIRECT_URI = "https://visit.invalid/"


@contextmanager
def temporary_access(database: Database, account_keys: Sequence[str]) -> Iterator[str]:
    """Lend an access token that reads accounts until the block ends; user, application and token end with it.

    What a temporary_access that was killed left behind is removed by the next one, once its token has expired.

    Raises:
        UnknownAccountError: One of the accounts does not exist.
    """
    _remove_expired(database)
    email = f"{uuid.uuid4()}@{_DOMAIN}"
    user_id = add_user(database, email, "A visit", secrets.token_urlsafe(32))
    try:
        grant_accounts(database, email, account_keys)
        # The application is the visitor's own, so that it is deleted with them.
        client_id, _ = add_application(database, "A visit", _REDIRECT_URI, owner_id=user_id)
        family, token = uuid.uuid4(), secrets.token_urlsafe(32)
        issued = {"token_hash": hash_of(token), "family": family, "expires_at": func.now() + _LONGEST_ACCESS}
        with database.begin() as connection:
            connection.execute(insert(AUTHORIZATIONS).values(family=family, client_id=client_id, user_id=user_id))
            connection.execute(insert(ACCESS_TOKENS).values(issued))
        yield token
    finally:
        with database.begin() as connection:
            connection.execute(delete(USERS).where(USERS.c.id == user_id))


def _remove_expired(database: Database) -> None:
    lasting = (
        select(AUTHORIZATIONS.c.user_id)
        .join(ACCESS_TOKENS, ACCESS_TOKENS.c.family == AUTHORIZATIONS.c.family)
        .where(ACCESS_TOKENS.c.expires_at > func.now())
    )
    expired = (
        USERS.c.email.endswith(f"@{_DOMAIN}"),
        USERS.c.created_at < func.now() - _LONGEST_ACCESS,
        USERS.c.id.not_in(lasting),
    )
    with database.begin() as connection:
        connection.execute(delete(USERS).where(*expired))
