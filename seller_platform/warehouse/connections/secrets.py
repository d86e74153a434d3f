"""Encryption of stored secrets: MultiFernet over the keys of the installation.

Keys may change while programs run. A box reads its key file again for each secret. A secret for the database is sealed
in a transaction of `sealing`; a change of keys waits until such transactions have ended.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import SecretStr
from sqlalchemy import Column, Connection, select, text, update

from seller_platform.errors import InvalidSettingError, SecretKeyError
from seller_platform.files import create_atomically, delete_leftovers, make_folders, sync_written, write_atomically
from seller_platform.warehouse.postgres.advisory_locks import lock
from seller_platform.warehouse.postgres.database import Database

_SETTING = "SELLER_PLATFORM_SECRET_KEY"
_KEY_FILE = "secret.key"
_SEALING_LOCK = 0x5EA1
# Files with a token pair, or with its former key, are deleted once a transaction is committed.
_WAIT_FOR_THE_DISK = text(
    "SELECT set_config('synchronous_commit', 'local', true) WHERE current_setting('synchronous_commit') = 'off'"
)

_Stored = TypeVar("_Stored")
_Opened = TypeVar("_Opened")


class SecretBox:
    """Encrypts with the first key, decrypts with any; threads may share it."""

    def __init__(self, keys: str | Path) -> None:
        """Take one or more Fernet keys, separated by commas, or the file that has them.

        A file is read again for each secret. Those that were sealed with its former keys can still be opened, if the
        box has read these keys.

        Raises:
            InvalidSettingError: One of them is not a Fernet key.
        """
        self._source, self._lock = keys, threading.Lock()
        self._ciphers = {key: Fernet(key) for key in self.keys}

    @property
    def keys(self) -> tuple[str, ...]:
        """The present keys, of which the first one encrypts."""
        return split_keys(self._source if isinstance(self._source, str) else self._source.read_text())

    def seal(self, secret: bytes) -> bytes:
        """Return the secret, encrypted."""
        return self._current().encrypt(secret)

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return the secret.

        Raises:
            SecretKeyError: It was encrypted with another key; the message names it.
        """
        try:
            return self._current().decrypt(sealed)
        except InvalidToken:
            raise SecretKeyError(name, "it cannot be decrypted with the present key") from None

    def reseal(self, sealed: bytes, name: str) -> bytes:
        """Return the same secret, opened as `open` does, and encrypted with the first key."""
        return self.seal(self.open(sealed, name))

    def first(self) -> "SecretBox":
        """Return a box with the first key alone. It opens only what that key sealed."""
        return SecretBox(self.keys[0])

    def _current(self) -> MultiFernet:
        """Return the encryption with the present keys, and after these with the former ones of this process."""
        with self._lock:
            with suppress(OSError):  # without its file, the box goes on with the keys that it has read
                present = {key: self._ciphers.get(key) or Fernet(key) for key in self.keys}
                self._ciphers = {**present, **{key: each for key, each in self._ciphers.items() if key not in present}}
            return MultiFernet(list(self._ciphers.values()))


def open_stored(read: Callable[[], _Stored], opened: Callable[[_Stored], _Opened]) -> _Opened:
    """Return what `opened` makes of a stored secret. It is read again if it was replaced meanwhile.

    Between reading a secret and reading the key file, the keys may change twice.

    Raises:
        SecretKeyError: It was encrypted with another key.
    """
    stored = read()
    while True:
        try:
            return opened(stored)
        except SecretKeyError:
            newer = read()
            if newer == stored:
                raise
            stored = newer


def reseal_column(transaction: Connection, box: SecretBox, column: Column[Any], name: Callable[[str], str]) -> int:
    """Encrypt every secret of a column with the first key of the box and return their number.

    Args:
        name: Returns what errors call a secret, by the key of its row.

    Raises:
        SecretKeyError: One was encrypted with another key.
    """
    (key,) = column.table.primary_key
    rows = transaction.execute(select(key, column).where(column.is_not(None)).with_for_update()).all()
    for owner, sealed in rows:
        resealed = {column.name: box.reseal(bytes(sealed), name(owner))}
        transaction.execute(update(column.table).where(key == owner).values(resealed))
    return len(rows)


def split_keys(keys: str) -> tuple[str, ...]:
    """Return the Fernet keys of a text.

    Raises:
        InvalidSettingError: One of them is not a Fernet key.
    """
    fernet_keys = tuple(key.strip() for key in keys.split(","))
    try:
        for key in fernet_keys:
            Fernet(key)
    except ValueError:
        raise InvalidSettingError(_SETTING, "is not a Fernet key: 32 bytes in URL-safe base64") from None
    return fernet_keys


def new_key() -> str:
    """Return a new Fernet key."""
    return Fernet.generate_key().decode()


def secret_box(home: Path, configured: SecretStr | None) -> SecretBox:
    """Return the box with the configured key, else with the home folder's key file.

    The file is created on first use, and on disk when this returns.
    """
    if configured:
        return SecretBox(configured.get_secret_value())
    path = key_file(home)
    make_folders(home)
    delete_leftovers(path)
    if path.exists():  # also while the process that creates it has not synced it yet
        sync_written(home, [path])
    else:
        create_atomically(path, new_key().encode(), 0o600)  # of two processes, both use the key of the first
    return SecretBox(path)


def key_file(home: Path) -> Path:
    """Return the path of the key file. It is used where the settings name no key."""
    return home / _KEY_FILE


def write_keys(path: Path, keys: Sequence[str]) -> None:
    """Replace the key file, which only this user may read.

    A process that reads it meanwhile gets the old or the new keys, never a part.
    """
    write_atomically(path, ",".join(keys).encode(), 0o600)


@contextmanager
def sealing(database: Database, *, shared: bool = True) -> Iterator[Connection]:
    """Open a transaction to seal and store secrets, which others may do meanwhile unless it is not `shared`.

    The keys do not change until it ends. What it commits is on the server's disk, also where the server does not wait
    for its disk otherwise.
    """
    with database.begin() as transaction:
        transaction.execute(_WAIT_FOR_THE_DISK)
        lock(transaction, _SEALING_LOCK, shared=shared)
        yield transaction
