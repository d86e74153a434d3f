"""Encryption of stored secrets: MultiFernet over the keys of the installation.

Keys may change while programs run. A box reads a key file again when it was replaced. A secret for the database is
sealed in a transaction of `sealing`; a change of keys waits until such transactions have ended.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlalchemy import Connection, text

from seller_platform.errors import InvalidSettingError, SecretKeyError
from seller_platform.files import (
    create_atomically,
    delete_leftovers,
    make_folders,
    sync_written,
    write_atomically,
)
from seller_platform.warehouse.postgres.advisory_locks import lock, share
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
_Stamp = tuple[int, int, int]


@dataclass(frozen=True, repr=False)
class _Ring:
    """The keys in use, and the ciphers of these and of those that this process used before."""

    keys: tuple[str, ...]
    ciphers: Mapping[str, Fernet]
    stamp: _Stamp | None = None

    @classmethod
    def of(cls, text: str, stamp: _Stamp | None = None, former: Mapping[str, Fernet] = MappingProxyType({})) -> Self:
        keys = split_keys(text)
        present = {key: former.get(key) or Fernet(key) for key in keys}
        return cls(keys, {**present, **{key: cipher for key, cipher in former.items() if key not in present}}, stamp)


class SecretBox:
    """Encrypts with the first key, decrypts with any; threads may share it."""

    def __init__(self, keys: str) -> None:
        """Take one or more Fernet keys, separated by commas.

        Raises:
            InvalidSettingError: One of them is not a Fernet key.
        """
        self._file: Path | None = None
        self._lock = threading.Lock()
        self._use(_Ring.of(keys))

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Return a box with the keys of a file. It reads the file again when it was replaced.

        Secrets that were sealed with earlier keys can still be opened, if the box has read those keys.

        Raises:
            InvalidSettingError: One of them is not a Fernet key.
        """
        stamp = _stamp_of(file)
        box = cls(file.read_text())
        box._file = file
        box._use(replace(box._ring, stamp=stamp))
        return box

    @property
    def key_count(self) -> int:
        self._current()
        return len(self._ring.keys)

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
        """Return the same secret, encrypted with the first key.

        Raises:
            SecretKeyError: It was encrypted with another key; the message names it.
        """
        return self.seal(self.open(sealed, name))

    def first(self) -> "SecretBox":
        """Return a box with the first key alone. It opens only what that key sealed."""
        self._current()
        return SecretBox(self._ring.keys[0])

    def _current(self) -> MultiFernet:
        """Return the encryption with the present keys: a replaced file is read again."""
        stamp = _stamp_of(self._file) if self._file is not None else None
        if self._file is not None and stamp is not None and stamp != self._ring.stamp:
            with self._lock:
                self._use(_Ring.of(self._file.read_text(), stamp, self._ring.ciphers))
        return self._fernet

    def _use(self, ring: _Ring) -> None:
        self._ring, self._fernet = ring, MultiFernet(list(ring.ciphers.values()))


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


def secret_box(home: Path, configured: str | None) -> SecretBox:
    """Return the box with the configured key, else with the home folder's key file.

    The file is created on first use, and on disk when this returns.
    """
    if configured:
        return SecretBox(configured)
    path = key_file(home)
    make_folders(home)
    delete_leftovers(path)
    if path.exists():  # also while the process that creates it has not synced it yet
        sync_written(home, [path])
    else:
        create_atomically(path, new_key().encode(), 0o600)  # of two processes, both use the key of the first
    return SecretBox.of_file(path)


def key_file(home: Path) -> Path:
    """Return the path of the key file. It is used where the settings name no key."""
    return home / _KEY_FILE


def write_keys(path: Path, keys: Sequence[str]) -> None:
    """Replace the key file, which only this user may read.

    A process that reads it meanwhile gets the old or the new keys, never a part.
    """
    write_atomically(path, ",".join(keys).encode(), 0o600)


@contextmanager
def sealing(database: Database) -> Iterator[Connection]:
    """Open a transaction to seal and store secrets. The keys do not change until it ends.

    What it commits is on the server's disk also where the server does not wait for its disk otherwise.
    """
    with database.begin() as transaction:
        transaction.execute(_WAIT_FOR_THE_DISK)
        share(transaction, _SEALING_LOCK)
        yield transaction


@contextmanager
def resealing(database: Database) -> Iterator[Connection]:
    """Open a transaction to change the keys. No secret is sealed for the database until it ends."""
    with database.begin() as transaction:
        transaction.execute(_WAIT_FOR_THE_DISK)
        lock(transaction, _SEALING_LOCK)
        yield transaction


def _stamp_of(file: Path) -> _Stamp | None:
    """Return facts that change when a file is replaced; None where there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
