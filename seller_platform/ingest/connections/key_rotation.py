"""Another key for the secrets at rest, while programs go on reading and writing them.

A key that is in use is never taken away at once: first everybody can read with both, then everything is encrypted with
the new one while nobody writes, and only then does the old one go.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seller_platform.errors import SecretKeyError
from seller_platform.ingest.connections.token_rotation import SPOOL_FOLDER, reseal_spools, spools
from seller_platform.warehouse.connections.accounts import client_secret_of, connections, reseal_client_secrets
from seller_platform.warehouse.connections.grants import Grants, reseal_grants
from seller_platform.warehouse.connections.secrets import (
    SecretBox,
    key_file,
    new_key,
    resealing,
    split_keys,
    write_keys,
)
from seller_platform.warehouse.postgres.database import Database


@dataclass(frozen=True)
class Resealed:
    """What was encrypted anew.

    Attributes:
        others: What had been encrypted with another key than the first.
    """

    grants: int
    client_secrets: int
    spools: int
    others: tuple[str, ...]


def rotate_key_file(database: Database, home: Path) -> Resealed:
    """Put a new key in the place of the one in the home folder; what was interrupted before is brought to its end.

    Raises:
        SecretKeyError: Something is encrypted with a key that is in the file no longer. Both keys stay in the file.
    """
    with _alone(home):
        keys = split_keys(key_file(home).read_text())
        if len(keys) == 1:
            write_keys(key_file(home), (new_key(), *keys))
        return _finish(database, home)


def finish_key_file(database: Database, home: Path) -> Resealed:
    """Bring a rotation that was interrupted to its end, without another key.

    Raises:
        SecretKeyError: Something is encrypted with a key that is in the file no longer. The file stays as it is.
    """
    with _alone(home):
        return _finish(database, home)


def reseal(database: Database, home: Path, box: SecretBox) -> Resealed:
    """Encrypt every secret at rest with the first key of a box; readers go on meanwhile, writers wait a moment.

    Raises:
        SecretKeyError: Something is encrypted with none of its keys. Nothing was changed in the database.
    """
    others = sealed_otherwise(database, home, box.first())
    with resealing(database) as transaction:
        return Resealed(
            grants=reseal_grants(transaction, box),
            client_secrets=reseal_client_secrets(transaction, box),
            spools=reseal_spools(home / SPOOL_FOLDER, box),
            others=others,
        )


def sealed_otherwise(database: Database, home: Path, box: SecretBox) -> tuple[str, ...]:
    """Return what a box cannot open, in words."""
    grants = Grants(database, box)
    unreadable: list[str] = []
    for grant in grants.facts():
        with _collecting(unreadable):
            grants.current(grant.connection)
    for connection in connections(database):
        with _collecting(unreadable):
            client_secret_of(database, box, connection.name)
    for spool in spools(home / SPOOL_FOLDER):
        with _collecting(unreadable):
            box.open(spool.read_bytes(), f"the spooled grant in {spool}")
    return tuple(unreadable)


def _finish(database: Database, home: Path) -> Resealed:
    box = SecretBox.of_file(key_file(home))
    resealed = reseal(database, home, box)
    write_keys(key_file(home), split_keys(key_file(home).read_text())[:1])
    return resealed


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Wait until no other process changes the key file."""
    with (home / "secret.key.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _collecting(unreadable: list[str]) -> Iterator[None]:
    """Note what cannot be opened inside the block."""
    try:
        yield
    except SecretKeyError as error:
        unreadable.append(error.what)
    except FileNotFoundError:
        pass  # a spool that was committed meanwhile
