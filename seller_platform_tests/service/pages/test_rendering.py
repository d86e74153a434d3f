"""Tests how pages show moments."""

from datetime import date, datetime, timedelta, timezone

from seller_platform.service.pages.rendering import shown_moment


def test_moments_on_pages_have_a_time_and_a_zone() -> None:
    moment = datetime(2026, 3, 9, 20, 5, tzinfo=timezone(timedelta(hours=-7)))

    assert shown_moment(moment) == '<time datetime="2026-03-10T03:05:00Z">10 March 2026, 03:05 UTC</time>'
    assert shown_moment(date(2026, 3, 9)) == '<time datetime="2026-03-09">9 March 2026 (UTC)</time>'
