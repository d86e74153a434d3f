"""The current token pair of each connection: encrypted, and changed only under its row lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Literal

import msgspec
from sqlalchemy import Connection, RowMapping, case, func, select, update
from sqlalchemy.dialects.postgresql import insert

from seller_platform.contract.tokens import TokenPair
from seller_platform.contract.wire import REFRESH_TOKEN_SECONDS
from seller_platform.errors import NotConnectedError
from seller_platform.warehouse.connections.secrets import SecretBox, open_stored, sealing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import GRANTS


class GrantFacts(msgspec.Struct, frozen=True):
    """What may be shown of the grant of a connection.

    Attributes:
        refused: Why the upstream refused it for good.
        rotations: How many times the token pair was replaced.
        expires_at: When its access token ends.
        ends_at: When its refresh token ends, unless it is rotated before.
    """

    connection: str
    state: Literal["granted", "refused"]
    refused: str | None
    rotations: int
    issued_at: datetime
    expires_at: datetime
    ends_at: datetime


class LockedGrant:
    """A grant under its row lock. Only the holder of the lock may rotate it."""

    def __init__(self, transaction: Connection, box: SecretBox, name: str, row: RowMapping) -> None:
        self._transaction, self._box, self._name = transaction, box, name
        self.pair = _opened(box, name, row)
        self.refused: str | None = row["refused"]

    def replace(self, pair: TokenPair) -> None:
        """Store a new pair in place of the old. It is committed when the lock is released."""
        statement = update(GRANTS).where(GRANTS.c.connection == self._name)
        self._transaction.execute(statement.values(**_sealed(self._box, pair)))
        self.pair, self.refused = pair, None

    def refuse(self, reason: str) -> None:
        """Store why the upstream refused the grant for good. Its tokens are kept."""
        values = {"refused": reason, "refused_at": func.coalesce(GRANTS.c.refused_at, func.now())}
        self._transaction.execute(update(GRANTS).where(GRANTS.c.connection == self._name).values(values))


class Grants:
    """The grants of a warehouse."""

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database, self._box = database, box

    def store(self, connection: str, pair: TokenPair) -> None:
        """Store the first pair of a new authorisation. It replaces any grant of the connection."""
        with sealing(self._database) as transaction:
            values = _sealed(self._box, pair)
            statement = insert(GRANTS).values(connection=connection, **values)
            transaction.execute(statement.on_conflict_do_update(index_elements=[GRANTS.c.connection], set_=values))

    def current(self, connection: str) -> tuple[TokenPair, str | None]:
        """Return the stored pair, and why it was refused; None if it was not.

        Raises:
            NotConnectedError: The connection has no grant.
        """

        def stored() -> RowMapping:
            with self._database.begin() as transaction:
                return _grant_of(transaction, connection)

        return open_stored(stored, lambda row: (_opened(self._box, connection, row), row["refused"]))

    @contextmanager
    def locked(self, connection: str) -> Iterator[LockedGrant]:
        """Hold the row lock of a grant; the end of the block commits its changes.

        Raises:
            NotConnectedError: The connection has no grant.
        """
        with sealing(self._database) as transaction:
            yield LockedGrant(transaction, self._box, connection, _grant_of(transaction, connection, locked=True))


def grant_facts(database: Database) -> tuple[GrantFacts, ...]:
    """Return what may be shown of every grant; no key is needed."""
    of_grant = GRANTS.c
    state = case((of_grant.refused.is_(None), "granted"), else_="refused")
    ends_at = of_grant.issued_at + timedelta(seconds=REFRESH_TOKEN_SECONDS)
    rotations = of_grant.generation - 1
    facts = (of_grant.connection, state, of_grant.refused, rotations, of_grant.issued_at, of_grant.expires_at, ends_at)
    return tuple(GrantFacts(*row) for row in database.execute(select(*facts).order_by(of_grant.connection)))


def seal_pair(box: SecretBox, pair: TokenPair) -> bytes:
    """Return a pair as encrypted bytes, for a row or a spool file."""
    return box.seal(msgspec.json.encode(pair))


def open_pair(box: SecretBox, sealed: bytes, name: str) -> TokenPair:
    """Return the pair that `seal_pair` encrypted, as `SecretBox.open` does."""
    return msgspec.json.decode(box.open(sealed, name), type=TokenPair)


def _grant_of(transaction: Connection, connection: str, *, locked: bool = False) -> RowMapping:
    statement = select(GRANTS).where(GRANTS.c.connection == connection)
    row = transaction.execute(statement.with_for_update() if locked else statement).mappings().one_or_none()
    if row is None:
        raise NotConnectedError(connection)
    return row


def _sealed(box: SecretBox, pair: TokenPair) -> dict[str, object]:
    return {
        "token_pair": seal_pair(box, pair),
        "generation": pair.generation,
        "issued_at": pair.issued_at,
        "expires_at": pair.expires_at,
        "refused": None,
        "refused_at": None,
    }


def _opened(box: SecretBox, name: str, row: RowMapping) -> TokenPair:
    return open_pair(box, bytes(row["token_pair"]), grant_name(name))


def grant_name(connection: str) -> str:
    """Return what errors call the grant of a connection."""
    return f"the grant of connection {connection!r}"
