"""Recognizes answers that carry an error, whatever their status; what stands beside it is no reading."""

from collections.abc import Mapping
from typing import Any

from seller_platform.client.http.responses import shortened
from seller_platform.contract.wire import ERROR_WORD, MESSAGE, STATUS
from seller_platform.errors import ErrorAnswerError

ERROR_FIELDS = (ERROR_WORD, STATUS, MESSAGE)
"""The fields of an answer that `check_no_error` looks at."""

_NO_ERROR = frozenset({"", "0", "false", "none", "null"})


def check_no_error(answer: Mapping[str, Any]) -> None:
    """Return if a decoded answer does not say that it is an error.

    Raises:
        ErrorAnswerError: It has an `error`, or the `status` error.
    """
    error, status = answer.get(ERROR_WORD), answer.get(STATUS)
    has_error = error.strip().casefold() not in _NO_ERROR if isinstance(error, str) else bool(error)
    if not has_error and not (isinstance(status, str) and status.strip().casefold() == ERROR_WORD):
        return
    inner = error.get(MESSAGE) if isinstance(error, Mapping) else error
    texts = (text for text in (answer.get(MESSAGE), inner) if isinstance(text, str))
    raise ErrorAnswerError(next((shortened(text) for text in texts if text), ""))
