"""Encryption of what must not be readable in a dump: MultiFernet over the keys of the installation.

Keys may change while programs run. Where they lie in the home folder, a box notices a new file by itself; whoever
seals something for the database does so in a transaction of `sealing`, which a change of keys waits for.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from sqlalchemy import Connection

from seller_platform.errors import InvalidSettingError, SecretKeyError
from seller_platform.files import create_atomically, write_atomically
from seller_platform.warehouse.postgres.advisory_locks import lock_number, share_number
from seller_platform.warehouse.postgres.database import Database

_SETTING = "SELLER_PLATFORM_SECRET_KEY"
_KEY_FILE = "secret.key"
_SEALING_LOCK = 0x5EA1

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, repr=False)
class _Ring:
    """Keys as they were found: those that hold now, and those that held before in the same process."""

    keys: tuple[str, ...]
    former: tuple[str, ...] = ()
    stamp: _Stamp | None = None

    @property
    def fernet(self) -> MultiFernet:
        return MultiFernet([Fernet(key) for key in (*self.keys, *self.former)])


class SecretBox:
    """Encrypts with the first key, decrypts with any; threads may share it."""

    def __init__(self, keys: str) -> None:
        """Take one or more Fernet keys, separated by commas.

        Raises:
            InvalidSettingError: One of them is not a Fernet key.
        """
        self._file: Path | None = None
        self._lock = threading.Lock()
        self._hold(_Ring(split_keys(keys)))

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Return a box with the keys of a file, which reads them again whenever the file was replaced.

        What was read before, sealed with keys that are in the file no longer, can be opened all the same.

        Raises:
            InvalidSettingError: One of them is not a Fernet key.
        """
        stamp = _stamp_of(file)
        box = cls(file.read_text())
        box._file = file
        box._hold(replace(box._ring, stamp=stamp))
        return box

    @property
    def key_count(self) -> int:
        self._look()
        return len(self._ring.keys)

    def seal(self, secret: bytes) -> bytes:
        """Return the secret, encrypted."""
        return self._look().encrypt(secret)

    def open(self, sealed: bytes, what: str) -> bytes:
        """Return the secret.

        Raises:
            SecretKeyError: It was sealed with another key; `what` names it in the message.
        """
        try:
            return self._look().decrypt(sealed)
        except InvalidToken:
            raise SecretKeyError(what) from None

    def reseal(self, sealed: bytes, what: str) -> bytes:
        """Return the same secret, encrypted with the first key.

        Raises:
            SecretKeyError: It was sealed with another key; `what` names it in the message.
        """
        try:
            return self._look().rotate(sealed)
        except InvalidToken:
            raise SecretKeyError(what) from None

    def first(self) -> "SecretBox":
        """Return a box with the first key alone, which opens only what is sealed with it."""
        self._look()
        return SecretBox(self._ring.keys[0])

    def _look(self) -> MultiFernet:
        """Return what encrypts and decrypts, after a look at the file."""
        stamp = _stamp_of(self._file) if self._file is not None else None
        if self._file is not None and stamp is not None and stamp != self._ring.stamp:
            with self._lock:
                keys = split_keys(self._file.read_text())
                former = (key for key in (*self._ring.keys, *self._ring.former) if key not in keys)
                self._hold(_Ring(keys, tuple(former), stamp))
        return self._fernet

    def _hold(self, ring: _Ring) -> None:
        self._ring, self._fernet = ring, ring.fernet


def split_keys(keys: str) -> tuple[str, ...]:
    """Return the Fernet keys of a text.

    Raises:
        InvalidSettingError: One of them is none.
    """
    found = tuple(key.strip() for key in keys.split(","))
    try:
        for key in found:
            Fernet(key)
    except ValueError:
        raise InvalidSettingError(_SETTING, "is not a Fernet key: 32 bytes in URL-safe base64") from None
    return found


def new_key() -> str:
    """Return a new Fernet key."""
    return Fernet.generate_key().decode()


def secret_box(home: Path, configured: str | None) -> SecretBox:
    """Return the box of this installation: the configured key, else the one in the home folder, made on first use."""
    if configured:
        return SecretBox(configured)
    path = key_file(home)
    make_home(home)
    if not path.exists():
        create_atomically(path, new_key().encode(), 0o600)  # of two processes, both use the key of the first
    return SecretBox.of_file(path)


def key_file(home: Path) -> Path:
    """Return where the keys of an installation lie whose settings name none."""
    return home / _KEY_FILE


def write_keys(path: Path, keys: Sequence[str]) -> None:
    """Replace the key file, for us alone to read; whoever reads it finds the old or the new content."""
    write_atomically(path, ",".join(keys).encode(), 0o600)


@contextmanager
def sealing(database: Database) -> Iterator[Connection]:
    """Open a transaction in which secrets may be sealed and stored: the keys do not change until it has ended."""
    with database.begin() as transaction:
        share_number(transaction, _SEALING_LOCK)
        yield transaction


@contextmanager
def resealing(database: Database) -> Iterator[Connection]:
    """Open a transaction in which the keys may change: nobody seals anything for the database until it has ended."""
    with database.begin() as transaction:
        lock_number(transaction, _SEALING_LOCK)
        yield transaction


def make_home(home: Path) -> None:
    """Make the home folder, which others cannot list; the embedded server's own user has to pass through it."""
    home.mkdir(mode=0o711, parents=True, exist_ok=True)


def _stamp_of(file: Path) -> _Stamp | None:
    """Return what tells one version of a file from the next; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
