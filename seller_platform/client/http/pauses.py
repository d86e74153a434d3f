"""The pause that an answer asks for, in the forms that are in use."""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

_LONGEST_SECONDS = 366 * 86_400.0
_FIRST_EPOCH, _FIRST_MILLISECONDS = 10**9, 10**11
_NUMBER = re.compile(r"([+-]?)0*(\d{1,400})(?:[.,](\d{0,9})\d*)?\s*(?:s|secs?|seconds?)?", re.ASCII | re.IGNORECASE)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*(ms|h|m|s)[a-z]*\s*", re.ASCII | re.IGNORECASE)
_RESETS = ("RateLimit-Reset", "X-RateLimit-Reset", "X-Rate-Limit-Reset", "X-RateLimit-Reset-After")
_LIMIT_RESET = re.compile(r"\breset\s*=\s*(\d+)|;\s*r\s*=\s*0\s*;\s*t\s*=\s*(\d+)", re.ASCII)
"""A member of the header `RateLimit`, in the words of an older and a newer draft; in the newer one, of a used limit."""


def pause_seconds(headers: httpx.Headers, status: int, now: datetime) -> float | None:
    """Return the pause in whole seconds, from 0 to a year; None where the answer asks for none.

    It is that of `Retry-After` (RFC 9110 section 10.2.3), and for a 429 else the time until the rate is reset. A moment
    is compared with the answer's own `Date`, for the local clock may be wrong.
    """
    began = moment_of(headers.get("Date", "")) or now
    texts = [headers.get("Retry-After", "")]
    if status == 429:
        texts += [headers.get(name, "") for name in _RESETS]
        texts += ["".join(found) for found in _LIMIT_RESET.findall(headers.get("RateLimit", ""))]
    pauses = (_pause_of(text.strip(), began) for text in texts)
    pause = next((pause for pause in pauses if pause is not None), None)
    return None if pause is None else float(math.ceil(min(max(0.0, pause), _LONGEST_SECONDS)))


def _pause_of(text: str, now: datetime) -> float | None:
    number = _NUMBER.fullmatch(text)
    if number is None:
        if moment := moment_of(text):
            return (moment - now).total_seconds()
        if text and not _PART.sub("", text):  # such as 1m30s
            return sum(float(count) * _UNITS[unit.lower()] for count, unit in _PART.findall(text))
        # Two headers of one name are one with a comma.
        parts = [_pause_of(part.strip(), now) for part in text.split(",")] if "," in text else []
        return max((part for part in parts if part is not None), default=None)
    seconds = float(f"{number[2][:20]}.{number[3] or 0}")
    if number[1] == "-":
        return 0.0
    if seconds >= _FIRST_EPOCH:  # a moment, in seconds or milliseconds since 1970
        seconds = (seconds / 1000 if seconds >= _FIRST_MILLISECONDS else seconds) - now.timestamp()
    return seconds


def moment_of(text: str) -> datetime | None:
    """Return the moment of a date of HTTP or of RFC 3339; None where the text is no date."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(text)
        except (ValueError, OverflowError):
            continue
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return None
