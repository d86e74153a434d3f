"""Local days of an account's time zone, and timestamps in them, also when clocks change."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY_SECONDS = 86_400
_CLOCK = tuple(f"{s // 3600:02d}:{s // 60 % 60:02d}:{s % 60:02d}" for s in range(DAY_SECONDS))


@dataclass(frozen=True)
class LocalDay:
    """One day of a zone.

    Attributes:
        text: The day as `YYYY-MM-DD`.
        seconds: How long it is: 23 or 25 hours where clocks change.
        change_at: The second of the day at which the offset changes; `seconds` on most days.
        offset: The offset from UTC before the change, such as `-08:00`.
        offset_after: The offset after it.
        clock_jump: Seconds by which the clock is ahead after the change.
    """

    date: date
    text: str
    seconds: int
    change_at: int
    offset: str
    offset_after: str
    clock_jump: int

    def stamp(self, second: int) -> str:
        """Return the moment as ISO 8601 with offset.

        Args:
            second: Second of a day of 86,400 seconds; it is scaled to a longer or shorter day.
        """
        if self.seconds != DAY_SECONDS:
            second = second * self.seconds // DAY_SECONDS
        if second < self.change_at:
            return f"{self.text}T{_CLOCK[second]}{self.offset}"
        return f"{self.text}T{_CLOCK[second + self.clock_jump]}{self.offset_after}"


@lru_cache(maxsize=64)
def local_days(zone: str, first: date, count: int) -> tuple[LocalDay, ...]:
    """Return consecutive days of a zone."""
    return tuple(_local_day(ZoneInfo(zone), first + timedelta(days=offset)) for offset in range(count))


def stamps(days: Sequence[LocalDay], indexes: Iterable[int], seconds: Iterable[int]) -> list[str]:
    """Return a timestamp for each pair of an index of `days` and a second."""
    return [days[index].stamp(second) for index, second in zip(indexes, seconds, strict=True)]


def _local_day(zone: ZoneInfo, day: date) -> LocalDay:
    start = datetime.combine(day, time(), zone).astimezone(UTC)
    seconds = int((datetime.combine(day + timedelta(days=1), time(), zone).astimezone(UTC) - start).total_seconds())
    before, after = (_offset(zone, start, at) for at in (0, seconds - 1))
    change_at = seconds
    if before != after:
        change_at = bisect_left(range(seconds), True, key=lambda second: _offset(zone, start, second) != before)
    jump = int((after - before).total_seconds())
    offset, offset_after = (str(timezone(each)).removeprefix("UTC") or "+00:00" for each in (before, after))
    return LocalDay(day, day.isoformat(), seconds, change_at, offset, offset_after, jump)


def _offset(zone: ZoneInfo, start: datetime, second: int) -> timedelta:
    return (start + timedelta(seconds=second)).astimezone(zone).utcoffset() or timedelta()
