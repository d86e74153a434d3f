"""Tests that a moment in the past or far in the future counts as past."""

from datetime import UTC, datetime, timedelta

import pytest

from seller_platform.clocks import is_past, using_clock, utc_now

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("ahead", "past"),
    [
        (-timedelta(days=9000), True),
        (timedelta(), True),
        (timedelta(microseconds=1), False),
        (HOUR, False),
        (HOUR + timedelta(microseconds=1), True),
        (timedelta(days=9000), True),
    ],
)
def test_a_moment_is_past_once_reached_or_where_it_is_too_far_ahead(ahead: timedelta, past: bool) -> None:
    assert is_past(NOW + ahead, NOW, HOUR) is past


def test_the_time_has_its_zone() -> None:
    assert utc_now().tzinfo is UTC


def test_a_process_takes_its_time_from_another_clock() -> None:
    with using_clock(lambda: NOW):
        assert utc_now() == NOW
    assert utc_now() != NOW
