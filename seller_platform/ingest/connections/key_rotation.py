"""Replaces the key of stored secrets while programs read and write them.

A key in use is removed last. First all programs can read with both keys; then everything is encrypted with the new key
while no process writes; then the old key is removed.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from seller_platform.errors import SecretKeyError
from seller_platform.files import open_lock
from seller_platform.ingest.connections.token_rotation import SPOOL_FOLDER, reseal_spools, spools
from seller_platform.warehouse.connections.accounts import client_secret_of, connections, secret_name
from seller_platform.warehouse.connections.grants import Grants, grant_facts, grant_name
from seller_platform.warehouse.connections.secrets import (
    SecretBox,
    key_file,
    new_key,
    reseal_column,
    sealing,
    split_keys,
    write_keys,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.tables import CONNECTIONS, GRANTS


class Resealed(msgspec.Struct, frozen=True):
    """How many secrets were encrypted again.

    Attributes:
        spools: Files of token pairs that are not in the database yet.
    """

    grants: int
    client_secrets: int
    spools: int


def rotate_key_file(database: Database, home: Path, *, finish: bool = False) -> Resealed:
    """Replace the key in the home folder, or finish an interrupted rotation.

    Args:
        finish: Make no new key in any case.

    Raises:
        SecretKeyError: A secret is encrypted with a key that is no longer in the file. All keys stay in the file.
    """
    path = key_file(home)
    with open_lock(home / "secret.key.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = split_keys(path.read_text())
        if len(keys) == 1 and not finish:
            write_keys(path, (new_key(), *keys))
        resealed = reseal(database, home, SecretBox(path))
        write_keys(path, split_keys(path.read_text())[:1])
        return resealed


def reseal(database: Database, home: Path, box: SecretBox) -> Resealed:
    """Encrypt every stored secret with the first key of a box.

    Readers continue meanwhile; writers wait.

    Raises:
        SecretKeyError: A secret is encrypted with none of its keys. Nothing was changed in the database.
    """
    with sealing(database, shared=False) as transaction:
        return Resealed(
            grants=reseal_column(transaction, box, GRANTS.c.token_pair, grant_name),
            client_secrets=reseal_column(transaction, box, CONNECTIONS.c.client_secret, secret_name),
            spools=reseal_spools(home / SPOOL_FOLDER, box),
        )


def sealed_otherwise(database: Database, home: Path, box: SecretBox) -> tuple[str, ...]:
    """Return the secrets that a box cannot decrypt, in words."""
    grants = Grants(database, box)
    unreadable: list[str] = []
    for grant in grant_facts(database):
        with _collecting(unreadable):
            grants.current(grant.connection)
    for connection in connections(database):
        with _collecting(unreadable):
            client_secret_of(database, box, connection.name)
    for spool in spools(home / SPOOL_FOLDER):
        with _collecting(unreadable):
            box.open(spool.read_bytes(), f"the spooled grant in {spool}")
    return tuple(unreadable)


@contextmanager
def _collecting(unreadable: list[str]) -> Iterator[None]:
    """Collect the secret that cannot be decrypted inside the block."""
    try:
        yield
    except SecretKeyError as error:
        unreadable.append(error.subject)
    except FileNotFoundError:
        pass  # the spool was committed meanwhile
