"""Passwords: argon2id, computed in threads, a few at a time."""

from functools import cache

import anyio
import anyio.to_thread
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

LONGEST_PASSWORD = 1_024
_HASHER = PasswordHasher()


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password, with its parameters and a fresh salt."""
    return _HASHER.hash(password)


def verify_password(password_hash: str | None, password: str) -> bool:
    """Whether a password belongs to a hash; without a hash it takes as long and is False."""
    try:
        return _HASHER.verify(password_hash or _nobodys_hash(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


class PasswordChecker:
    """Verifies passwords off the event loop; each takes memory and a core, so few run at once."""

    def __init__(self, *, at_once: int = 2) -> None:
        self.turn = anyio.Semaphore(at_once)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether a password belongs to a hash. The caller holds `turn`."""
        return await anyio.to_thread.run_sync(verify_password, password_hash, password)


@cache
def _nobodys_hash() -> str:
    return _HASHER.hash("nobody has this password")
