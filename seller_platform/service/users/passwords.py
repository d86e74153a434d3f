"""Hashes and verifies passwords with argon2id, and refuses those that can be guessed, as `zxcvbn` estimates."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from zxcvbn import zxcvbn

from seller_platform.service.errors import InvalidValueError

LONGEST_PASSWORD = 1_024
SHORTEST_PASSWORD = 12

_LEAST_GUESSES = 1e9
_LEAST_OF_OTHERS = 5  # letters and digits that are not of the user's name or address
_JUDGED_CHARACTERS = 32  # the time of the estimate grows with the square of the length
_SHORTEST_WORD = 3
_COMMON = "is too easy to guess: choose several words that do not belong together, or let a password manager make one"
_HASHER = PasswordHasher()

Result = TypeVar("Result")


_THREADS = ThreadPoolExecutor(1, thread_name_prefix="passwords")


async def in_background(work: Callable[..., Result], *arguments: str | None) -> Result:
    """Hash or verify a password in a thread, one after another."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work, *arguments)


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


def check_password(password: str, *personal: str) -> None:
    """Refuse a password that may not be used as a new one, with the reason.

    The estimate knows common passwords, words and names, also with digits in place of letters, walks over the keyboard,
    dates and repetitions. It takes up to a tenth of a second.

    Args:
        personal: The e-mail address and the name of the user.

    Raises:
        InvalidValueError: It may not; the message says why.
    """
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        allowed = f"must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters"
        raise InvalidValueError("password", f"{allowed}; it has {len(password)}")
    own = [part.lower() for text in personal for part in re.split(r"[\W_]+", text) if len(part) >= _SHORTEST_WORD]
    others = re.sub("|".join(map(re.escape, own)) or "$", "", password.lower())
    guesses = zxcvbn(password[:_JUDGED_CHARACTERS], user_inputs=own)["guesses"]
    if guesses < _LEAST_GUESSES or sum(map(str.isalnum, others)) < _LEAST_OF_OTHERS:
        raise InvalidValueError("password", _COMMON)
