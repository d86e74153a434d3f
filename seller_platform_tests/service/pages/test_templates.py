"""Tests the templates of pages, and how they show moments."""

import re
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from seller_platform.service.pages.rendering import shown_moment


def test_the_templates_hold_no_inline_code_and_no_moments_of_another_form() -> None:
    folder = Path(__file__).parents[3] / "seller_platform" / "service" / "pages" / "templates"

    for template in folder.glob("*.html"):
        assert not re.search(r"<script(?! src=)|style=|<style|\son\w+=|javascript:|strftime", template.read_text()), (
            template.name
        )


def test_moments_on_pages_have_a_time_and_a_zone() -> None:
    moment = datetime(2026, 3, 9, 20, 5, tzinfo=timezone(timedelta(hours=-7)))

    assert shown_moment(moment) == '<time datetime="2026-03-10T03:05:00Z">10 March 2026, 03:05 UTC</time>'
    assert shown_moment(date(2026, 3, 9)) == '<time datetime="2026-03-09">9 March 2026 (UTC)</time>'
