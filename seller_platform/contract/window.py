"""Windows: half-open ranges of an account's local days."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

_DAY = timedelta(days=1)
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


@dataclass(frozen=True, order=True)
class Window:
    """The local days from `start` up to, not including, `end`."""

    start: date
    end: date

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"a window ends on {self.end}, before its start {self.start}")

    @classmethod
    def month_of(cls, day: date) -> Window:
        """Return the calendar month that `day` lies in."""
        start = day.replace(day=1)
        return cls(start, (start + timedelta(days=32)).replace(day=1))

    @classmethod
    def day(cls, day: date) -> Window:
        return cls(day, day + _DAY)

    @property
    def days(self) -> int:
        return (self.end - self.start).days

    @property
    def last_day(self) -> date:
        """The last day inside, which is the API's inclusive `end_date`."""
        return self.end - _DAY

    @property
    def is_empty(self) -> bool:
        return self.start == self.end

    def __contains__(self, day: object) -> bool:
        return isinstance(day, date) and self.start <= day < self.end

    def __str__(self) -> str:
        return f"{self.start}..{self.last_day}"

    def each_day(self) -> Iterator[date]:
        """Yield the days inside, oldest first."""
        return (self.start + timedelta(days=offset) for offset in range(self.days))

    def until(self, end: date) -> Window:
        """Return the part of this window before `end`, which may be empty."""
        return Window(self.start, max(self.start, min(self.end, end)))

    def since(self, start: date) -> Window:
        """Return the part of this window from `start` on, which may be empty."""
        return Window(min(self.end, max(self.start, start)), self.end)

    def split(self, days: int) -> Iterator[Window]:
        """Yield the consecutive windows of at most `days` days that make up this one."""
        return self._cut(lambda start: start + timedelta(days=days))

    def months(self) -> Iterator[Window]:
        """Yield the parts of this window in each calendar month."""
        return self._cut(lambda start: Window.month_of(start).end)

    def _cut(self, end_after: Callable[[date], date]) -> Iterator[Window]:
        start = self.start
        while start < self.end:
            end = min(self.end, end_after(start))
            yield Window(start, end)
            start = end


def read_month(text: str) -> date:
    """Return the first day of a month that is written as 2026-03.

    Raises:
        ValueError: It is not written so.
    """
    match = _MONTH.fullmatch(text)
    if match is None or match[1] in ("0000", "9999"):
        raise ValueError(f"{text!r} is not a month; write it as 2026-03")
    return date(int(match[1]), int(match[2]), 1)
