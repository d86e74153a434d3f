"""Tests that error pages say what happened and what to do next, and lead on."""

import re
from datetime import date, datetime, timedelta, timezone

from seller_platform.service.pages.rendering import render_message, shown_moment
from seller_platform_tests.support.served import ANN, PASSWORD, Served, execute, submit


def test_an_error_page_names_the_next_step_and_links_home() -> None:
    for status in (400, 401, 403, 404, 405, 421, 429, 500, 503):
        page = bytes(render_message(status, "something is wrong").body).decode()

        paragraphs = re.findall("<p>(.*?)</p>", page)
        assert (paragraphs[0], len(paragraphs[1]) > 20) == ("Something is wrong.", True)
        assert 'href="/">To the start page' in page
        assert ("Try again</a>" in page) is (status in {429, 500, 503})
        assert ('href="/login"' in page) is (status in {401, 403})


def test_an_unexpected_error_of_a_page_is_a_page_with_the_request_id(service: Served) -> None:
    with service.client() as browser:
        submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        execute(service.database, "ALTER TABLE service.sessions RENAME TO sessions_elsewhere")
        answer = browser.get("/admin/developers", headers={"X-Request-Id": "my-request"})
        sent = browser.post("/admin/developers/new", data={"name": "x"})

    assert (answer.status_code, answer.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert "Something broke on our side" in answer.text
    assert "my-request" in answer.text
    assert "sessions" not in answer.text
    assert (sent.status_code, "Try again</a>" in sent.text) == (500, False)
    assert sent.headers["x-request-id"] in sent.text


def test_moments_on_pages_have_a_time_and_a_zone() -> None:
    moment = datetime(2026, 3, 9, 20, 5, tzinfo=timezone(timedelta(hours=-7)))

    assert shown_moment(moment) == '<time datetime="2026-03-10T03:05:00Z">10 March 2026, 03:05 UTC</time>'
    assert shown_moment(date(2026, 3, 9)) == '<time datetime="2026-03-09">9 March 2026 (UTC)</time>'
