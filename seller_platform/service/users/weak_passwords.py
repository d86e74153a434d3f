"""Refuses passwords that are short, or made of common words, sequences and repetitions.

What can be guessed is covered: common words, also with digits in place of letters, the user's own name and address,
runs of neighbours in the alphabet or on the keyboard, years, and repetitions. What stays must have five characters.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from seller_platform.errors import InvalidPasswordError
from seller_platform.service.users.passwords import LONGEST_PASSWORD

SHORTEST_PASSWORD = 12

_LEAST_UNCOVERED = 5
_LEAST_DIFFERENT = 5
_SHORTEST_RUN = 3
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "01234567890", "qwertyuiop", "qwertzuiop", "azertyuiop", "asdfghjkl", "zxcvbnm")
# Walks down the columns of a keyboard.
_WALKS = ("1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p", "1q2w3e4r5t6y7u8i9o0p", "qazwsxedcrfvtgbyhnujmikolp", "!@#$%^&*()_+")
_LETTERS = str.maketrans("0134578@$!|", "oleastbasil")
_YEAR = re.compile(r"(19|20)\d\d")
_COMMON = "is too easy to guess: choose several words that do not belong together, or let a password manager make one"


def check_password(password: str, *personal: str) -> None:
    """Return if a password may be used as a new one.

    Args:
        personal: The e-mail address and the name of the user.

    Raises:
        InvalidPasswordError: It may not; the message says why.
    """
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidPasswordError(f"must have {SHORTEST_PASSWORD} characters at least; it has {len(password)}")
    if len(password) > LONGEST_PASSWORD:
        raise InvalidPasswordError(f"must have {LONGEST_PASSWORD} characters at most; it has {len(password)}")
    if len(set(password)) < _LEAST_DIFFERENT or _uncovered(password, personal) < _LEAST_UNCOVERED:
        raise InvalidPasswordError(_COMMON)


def _uncovered(password: str, personal: tuple[str, ...]) -> int:
    """Return how many characters belong to nothing that can be guessed."""
    # One character for each, so that positions stay the same.
    plain = "".join(character.lower()[0] for character in password)
    covered: set[int] = set()
    for start, end in (*_words(plain, personal), *_runs(plain), *_repetitions(plain)):
        covered.update(range(start, end))
    return len(plain) - len(covered)


def _words(plain: str, personal: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield where common words, personal words and years are."""
    own = {part for text in personal for part in re.split(r"[\W_]+", text.lower()) if len(part) >= _SHORTEST_RUN}
    for text in (plain, plain.translate(_LETTERS), plain.replace("1", "i").translate(_LETTERS)):
        for word in (*_common_words(), *own):
            yield from (match.span() for match in re.finditer(re.escape(word), text))
    yield from (match.span() for match in _YEAR.finditer(plain))


def _runs(plain: str) -> Iterator[tuple[int, int]]:
    """Yield where three or more characters are the same or neighbours in a row."""
    for row in (*_ROWS, *_WALKS):
        for ordered in (row, row[::-1]):
            start = 0
            for end in range(1, len(plain) + 1):
                if end == len(plain) or plain[end - 1 : end + 1] not in ordered:
                    if end - start >= _SHORTEST_RUN:
                        yield start, end
                    start = end
    yield from (match.span() for match in re.finditer(r"(.)\1{2,}", plain))


def _repetitions(plain: str) -> Iterator[tuple[int, int]]:
    """Yield where three characters are repeated that came before."""
    for start in range(1, len(plain) - _SHORTEST_RUN + 1):
        if plain.find(plain[start : start + _SHORTEST_RUN], 0, start + _SHORTEST_RUN - 1) != -1:
            yield start, start + _SHORTEST_RUN


@cache
def _common_words() -> tuple[str, ...]:
    text = files("seller_platform.service.users").joinpath("common_words.txt").read_text("utf-8")
    return tuple(line for line in text.split() if line)
