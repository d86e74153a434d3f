"""Connections and the accounts they see: the registry in schema `platform`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import RowMapping, func, select, update
from sqlalchemy.dialects.postgresql import insert

from seller_platform.contract import Account
from seller_platform.errors import UnknownAccountError
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.tables import ACCOUNTS, CONNECTIONS


@dataclass(frozen=True)
class KnownConnection:
    """A user of an API whose accounts are read."""

    name: str
    base_url: str
    auth_url: str
    client_id: str
    user_id: int | None = None
    user_name: str | None = None


@dataclass(frozen=True)
class KnownAccount:
    """An account, the key of its rows, and the connection that reads it."""

    key: str
    connection: str
    account: Account


def save_connection(database: Database, connection: KnownConnection) -> None:
    """Store a connection, or what changed of it."""
    values = asdict(connection)
    statement = insert(CONNECTIONS).values(values)
    with database.begin() as transaction:
        transaction.execute(statement.on_conflict_do_update(index_elements=[CONNECTIONS.c.name], set_=values))


def connections(database: Database) -> tuple[KnownConnection, ...]:
    """Return every connection, by name."""
    columns = [CONNECTIONS.c[name] for name in KnownConnection.__dataclass_fields__]
    with database.begin() as transaction:
        rows = transaction.execute(select(*columns).order_by(CONNECTIONS.c.name)).tuples()
        return tuple(KnownConnection(*row) for row in rows)


def save_accounts(database: Database, connection: str, accounts: Sequence[tuple[str, Account]]) -> None:
    """Make the registry say what a connection sees now; accounts it no longer sees are retired, never deleted.

    Args:
        accounts: Each account with its key.
    """
    with database.begin() as transaction:
        for key, account in accounts:
            values = {**asdict(account), "key": key, "connection": connection}
            seen = {**values, "last_seen_at": func.now(), "retired_at": None}
            statement = insert(ACCOUNTS).values(values)
            transaction.execute(statement.on_conflict_do_update(index_elements=[ACCOUNTS.c.key], set_=seen))
        gone = ACCOUNTS.c.key.not_in([key for key, _ in accounts])
        transaction.execute(
            update(ACCOUNTS)
            .where(ACCOUNTS.c.connection == connection, ACCOUNTS.c.retired_at.is_(None), gone)
            .values(retired_at=func.now())
        )


def accounts(database: Database) -> tuple[KnownAccount, ...]:
    """Return the accounts that are listed today, by key."""
    statement = select(ACCOUNTS).where(ACCOUNTS.c.retired_at.is_(None)).order_by(ACCOUNTS.c.key)
    with database.begin() as transaction:
        return tuple(_known(row) for row in transaction.execute(statement).mappings())


def account_of(database: Database, key: str) -> KnownAccount:
    """Return the account of that key, retired or not.

    Raises:
        UnknownAccountError: No account ever had it.
    """
    with database.begin() as transaction:
        row = transaction.execute(select(ACCOUNTS).where(ACCOUNTS.c.key == key)).mappings().one_or_none()
    if row is None:
        raise UnknownAccountError(key, [known.key for known in accounts(database)])
    return _known(row)


def _known(row: RowMapping) -> KnownAccount:
    account = Account(**{name: row[name] for name in Account.__dataclass_fields__})
    return KnownAccount(row["key"], row["connection"], account)
