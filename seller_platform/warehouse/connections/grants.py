"""Grants at rest: the current token pair of each connection, encrypted, changed only under its row lock."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, select, update
from sqlalchemy.dialects.postgresql import insert

from seller_platform.contract.tokens import TokenPair
from seller_platform.contract.wire import REFRESH_TOKEN_SECONDS
from seller_platform.errors import NotConnectedError
from seller_platform.warehouse.connections.secrets import SecretBox, sealing
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import GRANTS


@dataclass(frozen=True)
class GrantFacts:
    """What may be shown of a grant."""

    connection: str
    generation: int
    issued_at: datetime
    expires_at: datetime
    refused: str | None

    @property
    def dies_at(self) -> datetime:
        """When the refresh token can no longer be expected to work, unless it is rotated before."""
        return self.issued_at + timedelta(seconds=REFRESH_TOKEN_SECONDS)


class LockedGrant:
    """A grant under its row lock: whoever holds it is the only one who may rotate."""

    def __init__(self, transaction: Connection, box: SecretBox, name: str, row: RowMapping) -> None:
        self._transaction, self._box, self._name = transaction, box, name
        self.pair = _opened(box, name, row)
        self.refused: str | None = row["refused"]

    def replace(self, pair: TokenPair) -> None:
        """Keep a new pair in place of the old; it holds once the lock is released."""
        self._transaction.execute(
            update(GRANTS).where(GRANTS.c.connection == self._name).values(**_sealed(self._box, pair), refused=None)
        )
        self.pair = pair

    def refuse(self, reason: str) -> None:
        """Note that the upstream will not honour the grant again. Its tokens are kept."""
        self._transaction.execute(update(GRANTS).where(GRANTS.c.connection == self._name).values(refused=reason))


class Grants:
    """The grants of a warehouse."""

    def __init__(self, database: Database, box: SecretBox) -> None:
        self._database, self._box = database, box

    def store(self, connection: str, pair: TokenPair) -> None:
        """Keep the first pair of a new authorisation, in place of any grant the connection had."""
        with sealing(self._database) as transaction:
            values = {**_sealed(self._box, pair), "refused": None}
            statement = insert(GRANTS).values(connection=connection, **values)
            transaction.execute(statement.on_conflict_do_update(index_elements=[GRANTS.c.connection], set_=values))

    def current(self, connection: str) -> tuple[TokenPair, str | None]:
        """Return the pair that is kept now, and why it was refused if it was.

        Raises:
            NotConnectedError: The connection has no grant.
        """
        with self._database.begin() as transaction:
            row = transaction.execute(_grant_of(connection)).mappings().one_or_none()
        if row is None:
            raise NotConnectedError(connection)
        return _opened(self._box, connection, row), row["refused"]

    @contextmanager
    def locked(self, connection: str) -> Iterator[LockedGrant]:
        """Hold the row lock of a grant; what is replaced inside is committed at the end of the block.

        Raises:
            NotConnectedError: The connection has no grant.
        """
        with sealing(self._database) as transaction:
            row = transaction.execute(_grant_of(connection).with_for_update()).mappings().one_or_none()
            if row is None:
                raise NotConnectedError(connection)
            yield LockedGrant(transaction, self._box, connection, row)

    def facts(self) -> tuple[GrantFacts, ...]:
        """Return what may be shown of every grant."""
        columns = [GRANTS.c[name] for name in GrantFacts.__dataclass_fields__]
        with self._database.begin() as transaction:
            rows = transaction.execute(select(*columns).order_by(GRANTS.c.connection)).tuples()
            return tuple(GrantFacts(*row) for row in rows)


def reseal_grants(transaction: Connection, box: SecretBox) -> int:
    """Encrypt every grant with the first key of the box, in a transaction of `resealing`, and return their number.

    Raises:
        SecretKeyError: A grant was sealed with none of its keys.
    """
    rows = transaction.execute(select(GRANTS.c.connection, GRANTS.c.token_pair).with_for_update()).all()
    for name, sealed in rows:
        resealed = box.reseal(bytes(sealed), _what(name))
        transaction.execute(update(GRANTS).where(GRANTS.c.connection == name).values(token_pair=resealed))
    return len(rows)


def seal_pair(box: SecretBox, pair: TokenPair) -> bytes:
    """Return a pair as encrypted bytes, for a row or a spool file."""
    facts = {
        "access_token": pair.access_token,
        "refresh_token": pair.refresh_token,
        "issued_at": pair.issued_at.isoformat(),
        "expires_in_seconds": pair.expires_in_seconds,
        "generation": pair.generation,
    }
    return box.seal(json.dumps(facts).encode())


def open_pair(box: SecretBox, sealed: bytes, what: str) -> TokenPair:
    """Return the pair that `seal_pair` sealed.

    Raises:
        SecretKeyError: It was sealed with another key.
    """
    facts = json.loads(box.open(sealed, what))
    facts["issued_at"] = datetime.fromisoformat(facts["issued_at"])
    return TokenPair(**facts)


def _grant_of(connection: str) -> Select[Any]:
    return select(GRANTS).where(GRANTS.c.connection == connection)


def _sealed(box: SecretBox, pair: TokenPair) -> dict[str, object]:
    return {
        "token_pair": seal_pair(box, pair),
        "generation": pair.generation,
        "issued_at": pair.issued_at,
        "expires_at": pair.expires_at,
    }


def _opened(box: SecretBox, name: str, row: RowMapping) -> TokenPair:
    return open_pair(box, bytes(row["token_pair"]), _what(name))


def _what(connection: str) -> str:
    return f"the grant of connection {connection!r}"
