"""Tests windows, which are half-open ranges of days."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seller_platform.contract import Window

_DAYS = st.dates(date(1990, 1, 1), date(2090, 1, 1))
_WINDOWS = st.builds(lambda start, days: Window(start, start + timedelta(days=days)), _DAYS, st.integers(0, 800))


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="before its start"):
        Window(date(2026, 3, 2), date(2026, 3, 1))


def test_a_month_ends_where_the_next_begins() -> None:
    assert Window.month_of(date(2024, 2, 29)) == Window(date(2024, 2, 1), date(2024, 3, 1))
    assert Window.month_of(date(2026, 12, 31)).end == date(2027, 1, 1)
    assert str(Window.month_of(date(2026, 2, 5))) == "2026-02-01..2026-02-28"


@given(_WINDOWS, st.integers(1, 40))
def test_parts_add_up_to_the_whole(window: Window, days: int) -> None:
    for parts in (list(window.split(days)), list(window.months())):
        assert [day for part in parts for day in part.each_day()] == list(window.each_day())
        assert not any(part.is_empty for part in parts)


@given(_WINDOWS)
def test_months_do_not_cross_borders(window: Window) -> None:
    for part in window.months():
        assert part.start.replace(day=1) == part.last_day.replace(day=1)


@given(_WINDOWS, _DAYS)
def test_until_and_since_cut_a_window_in_two(window: Window, day: date) -> None:
    assert [*window.until(day).each_day(), *window.since(day).each_day()] == list(window.each_day())
    assert (day in window) == (window.start <= day < window.end)
