"""Tests the pages of applications with access, and the end of an access."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest

from seller_platform.service.oauth.applications import add_application
from seller_platform_tests.support.served import ANN, BOB, CALLBACK, PASSWORD, Served, execute, issue_token, submit

HOME = "/admin/applications"


@contextmanager
def _log_in(service: Served, email: str = ANN) -> Iterator[httpx.Client]:
    with service.client() as browser:
        assert submit(browser, browser.get("/login"), email=email, password=PASSWORD).status_code == 303
        yield browser


def _approve(service: Served) -> dict[str, str]:
    """Approve the application as Ann, and return the token pair."""
    with service.client() as browser:
        pair: dict[str, str] = service.exchange(browser, service.code(browser)).json()
        return pair


def _status(service: Served, access_token: str) -> int:
    return httpx.get(f"{service.base_url}/user/me", headers={"Authorization": f"Bearer {access_token}"}).status_code


def _names(page: httpx.Response) -> list[str]:
    assert page.status_code == 200
    return re.findall("<h2>([^<]+)</h2>", page.text)


@pytest.mark.parametrize("path", [HOME, f"{HOME}/x/end"])
def test_without_a_login_every_page_leads_to_it_and_back(reading: Served, path: str) -> None:
    with reading.client() as browser:
        sent = browser.post(path, data={"csrf_token": "x"}) if path != HOME else None
        shown = browser.get(path)
        page = browser.get(shown.headers["location"])
        answer = submit(browser, page, email=ANN, password=PASSWORD)

    assert shown.status_code == 303
    assert sent is None or sent.headers["location"] == shown.headers["location"]
    assert answer.headers["location"] == path


def test_ending_an_access_ends_everything_the_application_holds(service: Served) -> None:
    first, second = _approve(service), _approve(service)
    with _log_in(service) as browser:
        # A code that was not exchanged yet becomes invalid, too.
        page = service.request_code(browser)
        code = submit(browser, page, decision="approve").headers["location"].partition("code=")[2].partition("&")[0]
        assert [_status(service, pair["access_token"]) for pair in (first, second)] == [200, 200]

        answer = submit(browser, browser.get(f"{HOME}/{service.client_id}/end"))
        after = browser.get(answer.headers["location"])
        exchanged = service.exchange(browser, code)
        refreshed = [service.refresh(browser, pair["refresh_token"]) for pair in (first, second)]

    assert answer.status_code == 303
    assert "The access is ended." in after.text
    assert _names(after) == ["No application has access"]
    assert [_status(service, pair["access_token"]) for pair in (first, second)] == [401, 401]
    assert [each.json()["error"] for each in (exchanged, *refreshed)] == ["invalid_grant"] * 3
    # It may be approved again.
    assert _status(service, _approve(service)["access_token"]) == 200


def test_an_application_is_listed_once_with_days_and_the_users_accounts(service: Served) -> None:
    pair = _approve(service)
    _approve(service)
    with _log_in(service) as browser:
        before = browser.get(HOME)
        assert _status(service, pair["access_token"]) == 200
        today = datetime.now(UTC).date()
        used = browser.get(HOME)

    assert _names(before) == ["Reader &lt;1&gt;"]
    facts = dict(re.findall(r"<dt>([^<]+)</dt>\s*<dd[^>]*>(.*?)</dd>", used.text, re.DOTALL))
    assert "<dt>Last used</dt><dd>not yet</dd>" in before.text
    assert facts["Access since"].startswith(f'<time datetime="{today}T')
    assert facts["Last used"].startswith(f'<time datetime="{today}">')
    assert (
        " ".join(facts["Accounts"].split())
        == "all of yours, also later ones: Shop US (US), Shop DE (DE), Twin (FR), Twin (IT)"
    )
    assert facts["Sends people to"] == "127.0.0.1:9"


def test_the_last_use_is_noted_once_a_day(service: Served) -> None:
    token = issue_token(service.database, ANN)

    def stored() -> tuple[object, object]:
        with service.database.begin() as connection:
            row = connection.exec_driver_sql("SELECT last_used_on, xmin::text FROM service.authorizations").one()
            return row[0], row[1]

    execute(service.database, "UPDATE service.authorizations SET last_used_on = '2026-01-01'")
    noted = []
    for _ in range(3):
        assert _status(service, token) == 200
        noted.append(stored())

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
    _approve(service)
    for statement in over.split(";"):
        execute(service.database, statement)
    with _log_in(service) as browser:
        listed, shown = browser.get(HOME), browser.get(f"{HOME}/{service.client_id}/end")

    assert _names(listed) == ["No application has access"]
    assert shown.status_code == 404


def test_a_consent_of_another_user_is_not_shown_or_ended(service: Served) -> None:
    pair = _approve(service)
    client_id, _ = add_application(service.database, "Of Bob", CALLBACK)
    execute(service.database, "DELETE FROM service.authorizations WHERE client_id = %s", client_id)
    with _log_in(service, BOB) as bob, _log_in(service) as ann:
        page = submit(bob, replace(service, client_id=client_id).request_code(bob), decision="approve")
        assert page.status_code == 303
        listed = bob.get(HOME)
        seen, unknown = (bob.get(f"{HOME}/{each}/end") for each in (service.client_id, "unknown"))
        token = re.search('name="csrf_token" value="([0-9a-f]+)"', listed.text)
        assert token
        ended = bob.post(f"{HOME}/{service.client_id}/end", data={"csrf_token": token[1]})

        assert _names(listed) == ["Of Bob"]
        assert "Shop US" not in listed.text
        assert (seen.status_code, seen.text) == (404, unknown.text)
        assert ended.status_code == 404
        assert _names(ann.get(HOME)) == ["Reader &lt;1&gt;"]
    assert _status(service, pair["access_token"]) == 200


def test_ones_own_ending_leaves_the_access_that_others_gave(service: Served) -> None:
    _approve(service)
    of_bob = issue_token(service.database, BOB)
    with _log_in(service) as ann:
        submit(ann, ann.get(f"{HOME}/{service.client_id}/end"))

    assert _status(service, of_bob) == 200


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
def test_forms_of_another_session_end_nothing(service: Served, token: str) -> None:
    pair = _approve(service)
    with _log_in(service) as browser:
        answer = browser.post(f"{HOME}/{service.client_id}/end", data={"csrf_token": token})

    assert answer.status_code == 403
    assert _status(service, pair["access_token"]) == 200


def test_the_pages_are_protected_like_the_others(service: Served) -> None:
    _approve(service)
    with _log_in(service) as browser:
        pages = [browser.get(path) for path in (HOME, f"{HOME}/{service.client_id}/end")]

    for page in pages:
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        assert "script" not in policy
        assert page.headers["cache-control"] == "no-store"
        assert "<script" not in page.text
