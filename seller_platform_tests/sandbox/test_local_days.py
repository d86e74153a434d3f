"""Tests that every second of a local day has the right offset."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from seller_platform.sandbox.local_days import DAY_SECONDS, LocalDay, local_days

CHANGES = [
    ("America/Los_Angeles", date(2026, 3, 8), 23),
    ("America/Los_Angeles", date(2026, 11, 1), 25),
    ("Europe/Berlin", date(2026, 3, 29), 23),
    ("Europe/Berlin", date(2026, 10, 25), 25),
    ("Australia/Sydney", date(2026, 4, 5), 25),
    ("Asia/Kolkata", date(2026, 4, 5), 24),
]


def _day(zone: str, day: date) -> LocalDay:
    return local_days(zone, day, 1)[0]


@pytest.mark.parametrize(("zone", "day", "hours"), CHANGES)
def test_every_stamp_is_one_the_zone_itself_would_write(zone: str, day: date, hours: int) -> None:
    local = _day(zone, day)

    written = [local.stamp(second) for second in range(0, DAY_SECONDS, 7)]

    moments = [datetime.fromisoformat(stamp) for stamp in written]
    assert [moment.astimezone(UTC).astimezone(ZoneInfo(zone)).isoformat() for moment in moments] == written
    assert moments == sorted(moments)
    assert {moment.date() for moment in moments} == {day}
    assert moments[-1] - moments[0] > timedelta(hours=hours) - timedelta(seconds=20)
