"""Users of the service and the accounts they may read, which the operator manages.

Functions that take an e-mail address raise a `RequestError` where no user has it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec
from sqlalchemy import Connection, delete, func, select, update
from sqlalchemy.dialects.postgresql import aggregate_order_by, insert

from seller_platform.contract import Account
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.errors import RequestError, UnknownAccountError
from seller_platform.service.errors import DuplicateUserError, InvalidValueError
from seller_platform.service.http.parameters import is_storable
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.service.tables import (
    ACCOUNT_GROUP_MEMBERS,
    ACCOUNT_GROUPS,
    AUTHORIZATIONS,
    RESET_LINKS,
    SESSIONS,
    USER_ACCOUNTS,
    USERS,
)
from seller_platform.service.users.passwords import check_password, hash_password
from seller_platform.warehouse.connections.accounts import key_named
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import table_for

_LONGEST_EMAIL = 254


class ListedUser(msgspec.Struct, frozen=True):
    """A user of the service.

    Attributes:
        accounts: The keys of the accounts that they may read, in order.
    """

    email: str
    name: str
    status: Literal["active", "closed"] = msgspec.field(name="state")
    accounts: tuple[str, ...]


def users_of(database: Database) -> list[ListedUser]:
    """Return all users, by e-mail address."""
    granted = USER_ACCOUNTS.c.account
    accounts = select(func.array_agg(aggregate_order_by(granted, granted))).where(USER_ACCOUNTS.c.user_id == USERS.c.id)
    statement = select(USERS.c.email, USERS.c.name, USERS.c.status, accounts.scalar_subquery()).order_by(USERS.c.email)
    with database.begin() as connection:
        rows = connection.execute(statement).all()
    return [ListedUser(email, name, status, tuple(keys or ())) for email, name, status, keys in rows]


def add_user(database: Database, email: str, name: str, password: str) -> int:
    """Store a user and return their number.

    Raises:
        DuplicateUserError: A user has that e-mail address.
        RequestError: A value cannot be used; `InvalidValueError` names it.
    """
    local, at, domain = email.rpartition("@")
    if not (local and at and domain) or len(email) > _LONGEST_EMAIL or any(map(str.isspace, email)):
        raise InvalidValueError("e-mail address", f"must look like name@example.com; it is {email!r}")
    if not name.strip():
        raise InvalidValueError("name", "must not be empty")
    _check_text("e-mail address", email)
    _check_text("name", name)
    _check_text("password", password)
    check_password(password, email, name)
    values = {"email": email, "name": name, "password_hash": hash_password(password)}
    with database.begin() as connection:
        statement = insert(USERS).values(values).on_conflict_do_nothing().returning(USERS.c.id)
        user_id = connection.execute(statement).scalar_one_or_none()
        if user_id is None:
            raise DuplicateUserError(
                f"there is a user {email!r} already; e-mail addresses are compared without regard to case"
            )
        record_operator_event(connection, EventKind.USER_ADDED, user_id=user_id, details={"email": email})
    return int(user_id)


def grant_accounts(database: Database, email: str, account_keys: Sequence[str]) -> None:
    """Let a user read accounts, beside those they may read already.

    Raises:
        UnknownAccountError: One of the accounts does not exist; nothing was granted.
    """
    with open_user(database, email) as (connection, user_id):
        listed = _accounts(connection)
        for key in account_keys:
            if key not in listed:
                raise UnknownAccountError(key, sorted(listed), [account.title for account in listed.values()])
            values = {"user_id": user_id, "account": key}
            connection.execute(insert(USER_ACCOUNTS).values(values).on_conflict_do_nothing())
        details = {"accounts": list(account_keys)}
        record_operator_event(connection, EventKind.ACCOUNTS_GRANTED, user_id=user_id, details=details)


def account_keys_named(database: Database, names: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the accounts with these keys, titles, or sellers and marketplaces.

    A name that no account has now stays as it is: a user may still have an account that is gone.

    Raises:
        RequestError: Several accounts have one of the names.
    """
    with database.begin() as connection:
        listed = _accounts(connection)

    def key(name: str) -> str:
        try:
            return key_named(name, listed)
        except UnknownAccountError:
            return name

    return tuple(map(key, names))


def _accounts(connection: Connection) -> dict[str, Account]:
    listed = table_for(ACCOUNTS).c
    rows = connection.execute(select(listed.account, *(listed[column.name] for column in ACCOUNTS.columns)))
    return {key: Account(number, title or "", *others) for key, number, title, *others in rows}


def revoke_accounts(database: Database, email: str, account_keys: Sequence[str]) -> None:
    """Take accounts away from a user and out of their groups.

    From then on, no token of the user reads these accounts.

    Raises:
        RequestError: The user may not read one of the accounts; nothing was changed.
    """
    with open_user(database, email) as (connection, user_id):
        require_accounts(connection, user_id, email, account_keys)
        groups = select(ACCOUNT_GROUPS.c.id).where(ACCOUNT_GROUPS.c.user_id == user_id)
        members, granted = ACCOUNT_GROUP_MEMBERS.c, USER_ACCOUNTS.c
        connection.execute(
            delete(ACCOUNT_GROUP_MEMBERS).where(members.group_id.in_(groups), members.account.in_(account_keys))
        )
        connection.execute(delete(USER_ACCOUNTS).where(granted.user_id == user_id, granted.account.in_(account_keys)))
        details = {"accounts": list(account_keys)}
        record_operator_event(connection, EventKind.ACCOUNTS_REVOKED, user_id=user_id, details=details)


def set_password(database: Database, email: str, password: str) -> None:
    """Change a user's password and end their browser sessions, but no consent."""
    with open_user(database, email) as (connection, user_id):
        name = connection.execute(select(USERS.c.name).where(USERS.c.id == user_id)).scalar_one()
        _check_text("password", password)
        check_password(password, email, name)
        values = {"password_hash": hash_password(password)}
        connection.execute(update(USERS).where(USERS.c.id == user_id).values(values))
        end_sessions(connection, user_id)
        record_operator_event(connection, EventKind.PASSWORD_CHANGED, user_id=user_id)


def set_status(database: Database, email: str, status: Literal["active", "closed"]) -> None:
    """Close a user, who then cannot log in, or reopen them with the same password and accounts.

    Every session ends, and every consent with its tokens. The applications that a user registered stay, because other
    users may have approved them.
    """
    with open_user(database, email) as (connection, user_id):
        connection.execute(update(USERS).where(USERS.c.id == user_id).values(status=status))
        end_sessions(connection, user_id)
        active = (AUTHORIZATIONS.c.user_id == user_id, AUTHORIZATIONS.c.revoked_at.is_(None))
        connection.execute(update(AUTHORIZATIONS).where(*active).values(revoked_at=func.now()))
        kind = EventKind.USER_CLOSED if status == "closed" else EventKind.USER_REOPENED
        record_operator_event(connection, kind, user_id=user_id)


@contextmanager
def open_user(database: Database, email: str) -> Iterator[tuple[Connection, int]]:
    """Begin a transaction, and yield its connection and the number of the user with an e-mail address.

    Raises:
        RequestError: No user has it.
    """
    statement = select(USERS.c.id).where(func.lower(USERS.c.email) == func.lower(email))
    with database.begin() as connection:
        user_id = connection.execute(statement).scalar_one_or_none() if is_storable(email) else None
        if user_id is None:
            raise RequestError(
                f"there is no user {email!r}; run `seller-platform service user add {email}` first",
                code="UnknownUserError",
            )
        yield connection, int(user_id)


def require_accounts(connection: Connection, user_id: int, email: str, account_keys: Sequence[str]) -> None:
    """Refuse accounts that a user may not read.

    Raises:
        RequestError: The user may not read one of them.
    """
    granted = USER_ACCOUNTS.c
    statement = select(granted.account).where(granted.user_id == user_id).order_by(granted.account)
    allowed_keys = connection.execute(statement).scalars().all()
    for key in account_keys:
        if key not in allowed_keys:
            raise RequestError(
                f"{email} may not read account {key!r}; they may read: {', '.join(allowed_keys) or 'none yet'}",
                code="AccountNotGrantedError",
            )


def end_sessions(connection: Connection, user_id: int) -> None:
    """End a user's sessions and reset links."""
    for table in (SESSIONS, RESET_LINKS):
        connection.execute(delete(table).where(table.c.user_id == user_id))


def _check_text(field: str, text: str) -> None:
    if not is_storable(text):
        raise InvalidValueError(field, "must be Unicode without NUL characters")
