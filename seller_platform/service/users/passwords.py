"""Hashes and verifies passwords with argon2id."""

from functools import cache

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
    if len(password) > LONGEST_PASSWORD:
        return False
    try:
        return _HASHER.verify(password_hash or _unused_hash(), password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _unused_hash() -> str:
    return _HASHER.hash("nobody has this password")
