"""Refuses passwords that are short or can be guessed, as `zxcvbn` estimates."""

import re

from zxcvbn import zxcvbn

from seller_platform.errors import InvalidPasswordError
from seller_platform.service.users.passwords import LONGEST_PASSWORD

SHORTEST_PASSWORD = 12

_LEAST_GUESSES = 1e9
_LEAST_OF_OTHERS = 5  # letters and digits that are not of the user's name or address
_JUDGED_CHARACTERS = 32  # the time of the estimate grows with the square of the length
_SHORTEST_WORD = 3
_COMMON = "is too easy to guess: choose several words that do not belong together, or let a password manager make one"


def check_password(password: str, *personal: str) -> None:
    """Return if a password may be used as a new one.

    The estimate knows common passwords, words and names, also with digits in place of letters, walks over the keyboard,
    dates and repetitions. It takes up to a tenth of a second.

    Args:
        personal: The e-mail address and the name of the user.

    Raises:
        InvalidPasswordError: It may not; the message says why.
    """
    if len(password) < SHORTEST_PASSWORD:
        raise InvalidPasswordError(f"must have {SHORTEST_PASSWORD} characters at least; it has {len(password)}")
    if len(password) > LONGEST_PASSWORD:
        raise InvalidPasswordError(f"must have {LONGEST_PASSWORD} characters at most; it has {len(password)}")
    own = [part.lower() for text in personal for part in re.split(r"[\W_]+", text) if len(part) >= _SHORTEST_WORD]
    others = re.sub("|".join(map(re.escape, own)) or "$", "", password.lower())
    guesses = zxcvbn(password[:_JUDGED_CHARACTERS], user_inputs=own)["guesses"]
    if guesses < _LEAST_GUESSES or sum(map(str.isalnum, others)) < _LEAST_OF_OTHERS:
        raise InvalidPasswordError(_COMMON)
