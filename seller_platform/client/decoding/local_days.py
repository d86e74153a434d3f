"""Local days: computes the days of timestamps in an account's time zone."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import repeat
from operator import add, itemgetter
from zoneinfo import ZoneInfo

# YYYY-MM-DDTHH | :MM:SS | fraction and offset. A page has few different hours, and the hour gives the day.
_HOUR, _REST = itemgetter(slice(0, 13)), itemgetter(slice(19, None))
_CLOCK = "[12][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-5][0-9]:[0-5][0-9]"
_OFFSET = "(Z|[+-](?:0[0-9]|1[0-5]):[0-5][0-9])"  # PostgreSQL has none of 16 hours
_LINES = re.compile(f"(?:{_CLOCK}(?:\\.[0-9]{{1,6}})?{_OFFSET}\n)*")
_AFTER_THE_HOUR = ";"  # the character after the colon that ends the hour
_CANONICAL = re.compile(rf"([12]\d{{3}}-\d\d-\d\dT\d\d):\d\d:\d\d(\.\d{{1,6}})?{_OFFSET}", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?([Zz]|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST_OFFSET = timedelta(hours=16)


class LocalDays:
    """Computes the local days of timestamps in one zone; caches the day of each hour."""

    def __init__(self, zone: ZoneInfo) -> None:
        self.zone = zone
        self._of_hour: dict[str, str] = {}

    def of_all(self, texts: Sequence[str]) -> list[str]:
        """Return the local day of each timestamp.

        Raises:
            ValueError: One of them is not in the canonical form, or is no moment.
        """
        lines = "\n".join((*texts, ""))
        if lines.count("\n") != len(texts):
            raise ValueError("a timestamp of several lines")
        shape = _CANONICAL.fullmatch(texts[0]) if texts else None
        if shape and re.fullmatch(f"(?:{_CLOCK}{re.escape(texts[0][19:])}\n)*", lines):  # all with that ending
            ordered, days = sorted(texts), list[str]()
            if ordered in (texts, texts[::-1]):  # hour by hour
                while (first := len(days)) < len(ordered):
                    hour = ordered[first][:13]
                    after = bisect_left(ordered, hour + _AFTER_THE_HOUR, first)
                    day = self._of_whole_hour(hour, shape[3])
                    days += map(self.of, ordered[first:after]) if day is None else repeat(day, after - first)
                return days if ordered == texts else days[::-1]
        elif not _LINES.fullmatch(lines):
            raise ValueError("a timestamp that is not in the canonical form")
        keys = list(map(add, map(_HOUR, texts), map(_REST, texts)))
        of_key = {key: self._of_whole_hour(key[:13], key[-1:] if key[-1] == "Z" else key[-6:]) for key in set(keys)}
        return [of_key[key] or self.of(text) for key, text in zip(keys, texts, strict=True)]

    def of(self, text: str) -> str:
        """Return the local day of a timestamp with an offset.

        Raises:
            ValueError: It is no moment.
        """
        try:
            return datetime.fromisoformat(text).astimezone(self.zone).date().isoformat()
        except OverflowError as error:
            raise ValueError("a moment outside the years 1 to 9999") from error

    def _of_whole_hour(self, hour: str, offset: str) -> str | None:
        """Return the day of an hour; None where midnight, or a change of clocks, lies inside it."""
        day = self._of_hour.get(hour + offset)
        if day is None:
            day = self.of(f"{hour}:00:00{offset}")
            if day != self.of(f"{hour}:59:59.999999{offset}"):
                return None
            self._of_hour[hour + offset] = day
        return day


local_days = lru_cache(64)(LocalDays)
"""Returns the local days of a zone, whose cache all slices of that zone share."""


def checked_timestamp(text: str, zone: ZoneInfo) -> str:
    """Return the timestamp in ISO 8601 with a `T` and an offset.

    A timestamp that has both is returned as it was sent. One without offset is read in the given zone; where its hour
    occurs twice, it lies in the first.

    Raises:
        ValueError: It is no moment.
    """
    if _CANONICAL.fullmatch(text):
        return canonical_timestamp(text)
    shape = _TIMESTAMP.fullmatch(text)
    if shape is None:
        raise ValueError("not a timestamp")
    day, clock, offset = shape.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}{(offset or '').upper()}")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=zone)
    _, offset_of_it = moment.astimezone(UTC), moment.utcoffset()
    if offset_of_it is not None and abs(offset_of_it) >= _LONGEST_OFFSET:
        raise ValueError("an offset that PostgreSQL does not know")
    return moment.isoformat()


def canonical_timestamp(text: str) -> str:
    """Return a timestamp that is in the form that needs no change.

    Raises:
        ValueError: It is not in that form, or is no moment.
    """
    if not _CANONICAL.fullmatch(text) or datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a timestamp that is not in the canonical form")
    return text


def checked_date(text: str) -> str:
    """Return the date as it was sent.

    Raises:
        ValueError: It is no day written `YYYY-MM-DD`.
    """
    if not _DATE.fullmatch(text):
        raise ValueError("not a date")
    datetime.fromisoformat(text)
    return text
