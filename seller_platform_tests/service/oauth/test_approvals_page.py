"""Tests the pages of applications with access, and the end of an access."""

import re
from datetime import UTC, datetime

import httpx
import pytest

from seller_platform_tests.support.served import ANN, BOB, Served, execute, issue_token, stored, submit

HOME = "/admin/applications"


def _names(page: httpx.Response) -> list[str]:
    assert page.status_code == 200
    return re.findall("<h2>([^<]+)</h2>", page.text)


def test_ending_an_access_ends_everything_the_application_holds(service: Served) -> None:
    first, second = service.pair(), service.pair()
    of_bob = issue_token(service.database, BOB)
    with service.logged_in() as browser:
        # A code that was not exchanged yet becomes invalid, too.
        page = service.request_code(browser)
        code = submit(browser, page, decision="approve").headers["location"].partition("code=")[2].partition("&")[0]
        assert [service.status_of(pair["access_token"]) for pair in (first, second)] == [200, 200]

        answer = submit(browser, browser.get(f"{HOME}/{service.client_id}/end"))
        after = browser.get(answer.headers["location"])
        exchanged = service.exchange(browser, code)
        refreshed = [service.refresh(browser, pair["refresh_token"]) for pair in (first, second)]

    assert answer.status_code == 303
    assert "The access is ended." in after.text
    assert _names(after) == ["No application has access"]
    assert [service.status_of(pair["access_token"]) for pair in (first, second)] == [401, 401]
    assert [each.json()["error"] for each in (exchanged, *refreshed)] == ["invalid_grant"] * 3
    assert service.status_of(of_bob) == 200
    # It may be approved again.
    assert service.status_of(service.pair()["access_token"]) == 200


def test_the_last_use_is_noted_once_a_day(service: Served) -> None:
    token = issue_token(service.database, ANN)

    execute(service.database, "UPDATE service.authorizations SET last_used_on = '2026-01-01'")
    noted = []
    for _ in range(3):
        assert service.status_of(token) == 200
        noted += stored(service.database, "SELECT last_used_on, xmin::text FROM service.authorizations")

    assert {day for day, _ in noted} == {datetime.now(UTC).date()}
    assert len({version for _, version in noted}) == 1


@pytest.mark.parametrize(
    "over",
    [
        "UPDATE service.authorizations SET revoked_at = now()",
        "UPDATE service.access_tokens SET expires_at = now(); UPDATE service.refresh_tokens SET used_at = now()",
        "UPDATE service.access_tokens SET expires_at = now(); UPDATE service.refresh_tokens SET expires_at = now()",
    ],
    ids=["revoked", "refresh token used", "expired"],
)
def test_access_that_has_ended_is_not_listed(service: Served, over: str) -> None:
    service.pair()
    for statement in over.split(";"):
        execute(service.database, statement)
    with service.logged_in() as browser:
        listed, shown = browser.get(HOME), browser.get(f"{HOME}/{service.client_id}/end")

    assert _names(listed) == ["No application has access"]
    assert shown.status_code == 404
