"""Hashes and verifies passwords with argon2id, in threads, a few at a time."""

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
    """Whether a password belongs to a hash.

    Without a hash the answer is False after as long, so that the time does not show whether a user exists.
    """
    try:
        return _HASHER.verify(password_hash or _unused_hash(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


class PasswordChecker:
    """Verifies passwords outside the event loop.

    Each verification takes memory and a core, so that few run at once.
    """

    def __init__(self, *, at_once: int = 2) -> None:
        self.turn = anyio.Semaphore(at_once)

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether a password belongs to a hash. The caller holds `turn`."""
        return await anyio.to_thread.run_sync(verify_password, password_hash, password)


@cache
def _unused_hash() -> str:
    return _HASHER.hash("nobody has this password")
