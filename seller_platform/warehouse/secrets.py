"""Encryption of what must not be readable in a dump: MultiFernet over the key of the installation."""

import os
import threading
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from seller_platform.errors import InvalidSettingError, SecretKeyError

_KEY_FILE = "secret.key"


class SecretBox:
    """Encrypts with the first key, decrypts with any."""

    def __init__(self, keys: str) -> None:
        """Take one or more Fernet keys, separated by commas.

        Raises:
            InvalidSettingError: One of them is not a Fernet key.
        """
        try:
            self._fernet = MultiFernet([Fernet(key.strip()) for key in keys.split(",")])
        except ValueError:
            raise InvalidSettingError(
                "SELLER_PLATFORM_SECRET_KEY", "is not a Fernet key: 32 bytes in URL-safe base64"
            ) from None

    def seal(self, secret: bytes) -> bytes:
        """Return the secret, encrypted."""
        return self._fernet.encrypt(secret)

    def open(self, sealed: bytes, what: str) -> bytes:
        """Return the secret.

        Raises:
            SecretKeyError: It was sealed with another key; `what` names it in the message.
        """
        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken:
            raise SecretKeyError(what) from None


def secret_box(home: Path, configured: str | None) -> SecretBox:
    """Return the box of this installation: the configured key, else the one in the home folder, made on first use."""
    return SecretBox(configured or _key_of(home / _KEY_FILE))


def _key_of(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(Fernet.generate_key())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, path)  # of two processes that begin together, one wins and both use its key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text().strip()
