"""Connections and the accounts they see: the registry in schema `platform`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import RowMapping, func, select, update
from sqlalchemy.dialects.postgresql import insert

from seller_platform.contract import Account
from seller_platform.contract.accounts import zone_or_none
from seller_platform.errors import ACCOUNTS_NAMED, RequestError, UnknownAccountError, UnusableAccountError, first_few
from seller_platform.warehouse.connections.secrets import SecretBox, open_stored, sealing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import ACCOUNTS, CONNECTIONS, GRANTS

_SPELLINGS: tuple[Callable[[str], str], ...] = (str, lambda name: name.strip().casefold())


@dataclass(frozen=True)
class KnownConnection:
    """A user of an API whose accounts are read."""

    name: str
    base_url: str
    auth_url: str
    client_id: str
    redirect_uri: str | None = None


@dataclass(frozen=True)
class KnownAccount:
    """An account, the key of its rows, and the connection that reads it."""

    key: str
    connection: str
    account: Account

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the account's local days.

        Raises:
            UnusableAccountError: The account cannot be read.
        """
        problem = self.account.problem
        if problem is not None:
            raise UnusableAccountError(f"account {self.key}", problem)
        return self.account.zone

    @property
    def label(self) -> str:
        """Title, country and currency, without those that it does not have: how people know it beside its key."""
        facts = self.account
        return ", ".join(filter(None, (facts.title.strip(), facts.country_code, facts.currency_code)))

    @property
    def zone_or_utc(self) -> ZoneInfo:
        """The zone in which an account is planned and shown, even if it cannot be read."""
        return zone_or_none(self.account.timezone) or ZoneInfo("UTC")


def save_connection(database: Database, connection: KnownConnection) -> None:
    """Store a connection. A field that is None keeps its stored value."""
    values = {name: value for name, value in asdict(connection).items() if value is not None}
    statement = insert(CONNECTIONS).values(values)
    database.execute(statement.on_conflict_do_update(index_elements=[CONNECTIONS.c.name], set_=values))


def save_user(database: Database, connection: str, user_id: int | None, user_name: str | None) -> None:
    """Store the API user whose accounts a connection reads."""
    statement = update(CONNECTIONS).where(CONNECTIONS.c.name == connection)
    database.execute(statement.values(user_id=user_id, user_name=user_name))


def save_client_secret(database: Database, box: SecretBox, connection: str, client_secret: str) -> None:
    """Store the client secret of a connection's application, encrypted."""
    statement = update(CONNECTIONS).where(CONNECTIONS.c.name == connection)
    with sealing(database) as transaction:
        transaction.execute(statement.values(client_secret=box.seal(client_secret.encode())))


def client_secret_of(database: Database, box: SecretBox, connection: str) -> str | None:
    """Return the client secret of a connection's application, as `open_stored` does; None where none is stored."""
    statement = select(CONNECTIONS.c.client_secret).where(CONNECTIONS.c.name == connection)
    return open_stored(
        lambda: database.execute(statement).scalar_one_or_none(),
        lambda sealed: None if sealed is None else box.open(bytes(sealed), secret_name(connection)).decode(),
    )


def account_titles(database: Database) -> dict[str, str]:
    """Return the titles of all accounts by key, retired ones included."""
    return dict(database.execute(select(ACCOUNTS.c.key, ACCOUNTS.c.title)).tuples().all())


def connections(database: Database) -> tuple[KnownConnection, ...]:
    """Return every connection, by name."""
    columns = [CONNECTIONS.c[name] for name in KnownConnection.__dataclass_fields__]
    rows = database.execute(select(*columns).order_by(CONNECTIONS.c.name)).tuples()
    return tuple(KnownConnection(*row) for row in rows)


def save_accounts(database: Database, connection: str, accounts: Sequence[tuple[str, Account]]) -> None:
    """Store which accounts a connection lists now. The others of its accounts are retired, never deleted.

    Several connections may list an account. It stays with the connection that reads it, while that one lists it and its
    grant is honoured.
    """
    keys = [key for key, _ in accounts]
    is_honoured = (GRANTS.c.connection == ACCOUNTS.c.connection, GRANTS.c.refused.is_(None))
    honoured = select(GRANTS.c.connection).where(*is_honoured).correlate(ACCOUNTS).exists()
    is_held = (ACCOUNTS.c.key.in_(keys), ACCOUNTS.c.retired_at.is_(None), honoured)
    held = select(ACCOUNTS.c.key, ACCOUNTS.c.connection).where(*is_held)
    with database.begin() as transaction:
        held = held.order_by(ACCOUNTS.c.key).with_for_update(of=ACCOUNTS)
        reader_of = dict(transaction.execute(held).tuples().all())
        for key, account in accounts:
            values = {**asdict(account), "key": key, "connection": reader_of.get(key, connection)}
            seen = {**values, "last_seen_at": func.now(), "retired_at": None}
            statement = insert(ACCOUNTS).values(values)
            transaction.execute(statement.on_conflict_do_update(index_elements=[ACCOUNTS.c.key], set_=seen))
        not_listed = ACCOUNTS.c.key.not_in(keys)
        is_gone = (ACCOUNTS.c.connection == connection, ACCOUNTS.c.retired_at.is_(None), not_listed)
        transaction.execute(update(ACCOUNTS).where(*is_gone).values(retired_at=func.now()))


def accounts(database: Database, *, with_retired: bool = False) -> tuple[KnownAccount, ...]:
    """Return the accounts that are listed today, by key, or all that ever were."""
    statement = select(ACCOUNTS).order_by(ACCOUNTS.c.key)
    if not with_retired:
        statement = statement.where(ACCOUNTS.c.retired_at.is_(None))
    return tuple(_account(row) for row in database.execute(statement).mappings())


def accounts_named(database: Database, names: Sequence[str]) -> tuple[KnownAccount, ...]:
    """Return the listed accounts that have these names, by key; without names, every listed account.

    The errors are those of `key_named`.
    """
    listed = accounts(database)
    by_key = {each.key: each.account for each in listed}
    keys = {key_named(name, by_key) for name in names}
    return tuple(each for each in listed if not names or each.key in keys)


def account_named(database: Database, name: str) -> KnownAccount:
    """Return the account of that name; listed ones come before retired ones. The errors are those of `key_named`."""
    every = {each.key: each for each in accounts(database, with_retired=True)}
    listed = {each.key: each.account for each in accounts(database)}
    try:
        return every[name if name in every else key_named(name, listed)]
    except UnknownAccountError:
        return every[key_named(name, {key: each.account for key, each in every.items()})]


def key_named(name: str, accounts: Mapping[str, Account]) -> str:
    """Return the key of the account with that key, title, or `<seller_id>.<marketplace>`, in this order.

    The exact spelling comes first. Then upper and lower case are the same.

    Raises:
        RequestError: Several accounts have that name.
        UnknownAccountError: No account has that key, title, or seller and marketplace.
    """
    if name in accounts:
        return name
    names = {key: (key, account.title, account.seller) for key, account in accounts.items()}
    for spelled in _SPELLINGS:
        for kind in range(3):
            keys = [key for key, of in names.items() if (own := of[kind]) and spelled(own) == spelled(name)]
            if len(keys) == 1:
                return keys[0]
            if keys:
                listed = first_few([f"{key} ({accounts[key].title})" for key in keys], ACCOUNTS_NAMED)
                raise RequestError(
                    f"several accounts are named {name!r}: {listed}",
                    code="AmbiguousAccountError",
                    step="Name the account by its key, as the message lists it.",
                )
    raise UnknownAccountError(name, sorted(accounts), [accounts[key].title for key in sorted(accounts)])


def account_of(database: Database, key: str) -> KnownAccount:
    """Return the account of that key, retired or not.

    Raises:
        UnknownAccountError: No account ever had it.
    """
    account = accounts_by_key(database, [key]).get(key)
    if account is None:
        raise UnknownAccountError(key, [listed.key for listed in accounts(database)])
    return account


def accounts_by_key(database: Database, keys: Collection[str]) -> dict[str, KnownAccount]:
    """Return those of these accounts that exist, retired or not, by key."""
    rows = database.execute(select(ACCOUNTS).where(ACCOUNTS.c.key.in_(keys))).mappings()
    return {row["key"]: _account(row) for row in rows}


def _account(row: RowMapping) -> KnownAccount:
    account = Account(**{name: row[name] for name in Account.__dataclass_fields__})
    return KnownAccount(row["key"], row["connection"], account)


def secret_name(connection: str) -> str:
    """Return what errors call the client secret of a connection."""
    return f"the client secret of connection {connection!r}"
