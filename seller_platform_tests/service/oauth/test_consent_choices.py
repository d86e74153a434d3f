"""Tests the choices of the consent page, the pages of applications with access, and the end of an access."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from seller_platform_tests.support.known_rows import COST_PERIOD, US
from seller_platform_tests.support.served import (
    ANN,
    BOB,
    CSRF_TOKEN,
    OF_ANN,
    Served,
    callback_of,
    issue_token,
    running_app,
    submit,
    value_in,
)
from seller_platform_tests.support.stored_rows import ACCOUNTS
from seller_platform_tests.support.waiting import wait_for

_ALL = "read costs:write reports"
_WRITE = {"scope:costs:write": None, "scope:reports": None}


def _ticked(*keys: str) -> dict[str, str | None]:
    """Return the fields of a form in which only these of Ann's accounts are ticked."""
    return {"accounts": "ticked", **{f"account:{key}": "on" if key in keys else None for key in OF_ANN}}


def _client(service: Served, pair: Mapping[str, Any]) -> httpx.Client:
    return service.client(token=pair["access_token"])


def _titles(client: httpx.Client) -> list[str]:
    return [account["account_title"] for account in client.get("/user/accounts").json()["accounts"]]


def test_a_token_reads_the_ticked_accounts_and_no_others(filled: Served) -> None:
    def listed(client: httpx.Client, **selection: str) -> httpx.Response:
        return client.get("/inventory/list", params={"per_page": "500", **selection})

    with _client(filled, filled.pair(_ticked("de-2", "it-4"))) as client:
        titles = _titles(client)
        ticked, twin = (listed(client, account_title=title) for title in ("Shop DE", "Twin"))
        unticked, unknown = (listed(client, account_title=title) for title in ("Shop US", "No shop"))
        partly_ticked = listed(client, group_title="World")
    hidden = issue_token(filled.database, ANN, accounts=["it-4"])
    with filled.client(token=hidden) as client:
        groups = [listed(client, group_title=title) for title in ("World", "No such", "Empty")]

    assert titles == ["Shop DE", "Twin"]
    assert [answer.status_code for answer in (ticked, twin, partly_ticked)] == [200] * 3
    assert [answer.status_code for answer in (unticked, unknown, *groups)] == [404] * 5
    assert unticked.text.replace("Shop US", "No shop") == unknown.text
    assert partly_ticked.json()["data"] == ticked.json()["data"]


def test_all_accounts_include_later_ones_and_ticked_ones_do_not(service: Served) -> None:
    everything, ticked = service.pair({}), service.pair(_ticked(*OF_ANN))
    grant = "INSERT INTO service.user_accounts (user_id, account) SELECT id, 'gb-5' FROM service.users WHERE email = %s"
    service.execute(grant, ANN)

    with _client(service, everything) as wide, _client(service, ticked) as narrow:
        assert "Bob's" in _titles(wide)
        assert _titles(narrow) == [ACCOUNTS[key].title for key in OF_ANN]


def test_without_the_scopes_no_costs_are_written_and_no_reports_requested(filled: Served) -> None:
    pair = filled.pair(_WRITE)
    body = {**US, **COST_PERIOD}

    with _client(filled, pair) as client:
        read = client.get("/user/me")
        refused = {
            "costs:write": client.post("/cogs/cost-periods", json=body),
            "reports": client.post("/reports/request", json={"account_title": "Shop US", "dps_date": "2026-03-01"}),
        }
        deleted = client.delete("/cogs/cost-periods", params={"account_title": "Shop US", "sku": "A"})

    assert (pair["scope"], read.status_code) == ("read", 200)
    for scope, answer in (*refused.items(), ("costs:write", deleted)):
        assert answer.status_code == 403
        assert f"this needs {scope}" in answer.json()["message"]
        challenge = answer.headers["www-authenticate"]
        assert challenge.startswith("Bearer ")
        assert 'error="insufficient_scope"' in challenge
        assert f'scope="{scope}"' in challenge


def test_the_page_offers_and_the_token_has_what_was_requested(reading: Served, user: httpx.Client) -> None:
    for requested, offered, granted in (
        ("", {"costs:write", "reports"}, _ALL),
        ("read", set(), "read"),
        ("reports", {"reports"}, "read reports"),
        ("costs:write openid", {"costs:write"}, "read costs:write"),
        ("openid profile", {"costs:write", "reports"}, _ALL),
    ):
        page = reading.request_code(user, scope=requested)
        code = callback_of(submit(user, page, decision="approve", **{"scope:costs:write": "on"}))["code"]

        assert set(re.findall(r'name="scope:([^"]+)"', page.text)) == offered
        assert reading.exchange(user, code).json()["scope"] == granted


def test_a_choice_that_is_unclear_is_asked_again(reading: Served, user: httpx.Client) -> None:
    for choices, problem in (
        ({"account:de-2": None}, "You chose all accounts, but Shop DE is not ticked."),
        (_ticked(), "Tick at least one account"),
    ):
        asked_again = submit(user, reading.request_code(user), decision="approve", **choices)
        kept = submit(user, asked_again, decision="approve", accounts="ticked", **{"account:us-1": "on"})

        assert (asked_again.status_code, problem in asked_again.text) == (422, True)
        assert 'name="account:de-2" value="on">' in asked_again.text
        assert "code" in callback_of(kept)


def test_a_form_without_choices_approves_what_was_requested(reading: Served, user: httpx.Client) -> None:
    page = reading.request_code(user)
    answer = user.post(page.url, data={"csrf_token": value_in(page, CSRF_TOKEN), "decision": "approve"})
    pair = reading.exchange(user, callback_of(answer)["code"]).json()

    assert pair["scope"] == _ALL
    with _client(reading, pair) as client:
        assert _titles(client) == [ACCOUNTS[key].title for key in OF_ANN]


def test_a_refresh_may_ask_for_fewer_scopes_but_not_for_more(reading: Served, browser: httpx.Client) -> None:
    pair = reading.pair({"scope:reports": None})

    wider = reading.refresh(browser, pair["refresh_token"], scope="read reports")
    narrower = reading.refresh(browser, pair["refresh_token"], scope="read").json()
    again = reading.refresh(browser, narrower["refresh_token"]).json()
    with _client(reading, narrower) as client:
        refused = client.delete("/cogs/cost-periods", params={"account_title": "Shop US", "sku": "A"})

    assert pair["scope"] == "read costs:write"
    assert (wider.status_code, wider.json()["error"]) == (400, "invalid_scope")
    assert "read costs:write" in wider.json()["error_description"]
    assert (narrower["scope"], refused.status_code, again["scope"]) == ("read", 403, "read costs:write")


def test_an_access_ends_after_a_year_and_no_token_lasts_longer(service: Served, browser: httpx.Client) -> None:
    pair = service.pair({})
    [(days,)] = service.stored("SELECT expires_at - created_at FROM service.authorizations")
    service.execute("UPDATE service.authorizations SET expires_at = now() + interval '1 hour'")
    last = service.refresh(browser, pair["refresh_token"]).json()
    service.execute("UPDATE service.authorizations SET expires_at = now()")
    after = service.refresh(browser, last["refresh_token"])
    assert service.status_of(last["access_token"]) == 401
    newest = (
        "SELECT count(*) FROM service.refresh_tokens WHERE used_at IS NULL AND expires_at <= now() + interval '1 hour'"
    )

    assert days.days == 365
    assert (pair["expires_in"], 3000 < last["expires_in"] <= 3600) == (1_296_000, True)
    assert service.stored(newest) == [(1,)]
    assert (after.status_code, after.json()["error"]) == (400, "invalid_grant")
    assert "send the user through the authorization again" in after.json()["error_description"]
    assert "ended on" in after.json()["error_description"]


def test_the_operator_sets_how_long_an_access_lasts(service: Served, database_url: str) -> None:
    with running_app(database_url, grant_lifetime=timedelta(days=7)) as base_url:
        short = replace(service, base_url=base_url)
        pair = short.pair({})
        with short.logged_in() as browser:
            page = short.request_code(browser)

    assert 7 * 86_400 - 60 < pair["expires_in"] <= 7 * 86_400
    assert f"It ends by itself\n    on {(datetime.now(UTC) + timedelta(days=7)).date()}" in page.text


def test_a_report_is_read_only_by_tokens_for_all_of_its_accounts(filled: Served) -> None:
    wide, narrow = filled.pair({}), filled.pair(_ticked("de-2"))
    world = {"group_title": "World"}
    with _client(filled, wide) as of_all, _client(filled, narrow) as of_one:
        both, one = (
            client.post("/reports/request", params={**world, "last_updated_date": "2026-03-01"}).json()["report_id"]
            for client in (of_all, of_one)
        )
        for client, report in ((of_all, both), (of_one, one)):
            about = {**world, "report_id": report}
            wait_for(lambda: client.get("/reports/status", params=about).json()["status"] != "processing")  # noqa: B023
        hidden = of_one.get("/reports/download", params={**world, "report_id": both})
        rows = of_one.get("/reports/download", params={**world, "report_id": one})
        same = of_all.get("/reports/download", params={**world, "report_id": one})

    assert hidden.status_code == 404
    assert rows.status_code == 200
    assert same.json() == rows.json()
    assert not any("-08:00" in json.dumps(row) for row in rows.json())  # the offset of the account that is not ticked


def test_consents_tokens_and_their_misuse_are_recorded(service: Served, browser: httpx.Client) -> None:
    code = service.code(browser, {**_ticked("us-1"), **_WRITE})
    service.exchange(browser, "unknown")
    service.exchange(browser, code)
    service.exchange(browser, code)
    service.exchange(browser, code)
    submit(browser, service.request_code(browser), decision="deny")
    approved = submit(browser, service.request_code(browser), decision="approve")
    pair = service.exchange(browser, callback_of(approved)["code"]).json()
    service.refresh(browser, pair["refresh_token"])
    service.refresh(browser, "unknown")
    service.refresh(browser, pair["refresh_token"])
    approved = submit(browser, service.request_code(browser), decision="approve")
    pair = service.exchange(browser, callback_of(approved)["code"]).json()
    browser.post("/oauth/revoke", data={"token": pair["refresh_token"], **service.credentials})
    for _ in range(3):
        service.refresh(browser, pair["refresh_token"], client_secret="wrong")
    events = service.stored(
        "SELECT kind, user_id, client_id, details FROM service.security_events "
        "WHERE kind NOT LIKE 'login%%' AND address IS NOT NULL ORDER BY id"
    )
    [(ann,)] = service.stored("SELECT id FROM service.users WHERE email = %s", ANN)

    assert [kind for kind, *_ in events] == [
        *("consent_given", "grant_issued", "code_replayed"),
        "consent_denied",
        *("consent_given", "grant_issued", "refresh_token_reused"),
        *("consent_given", "grant_issued", "grant_revoked"),
        "secret_refused",
    ]
    assert {event[1:3] for event in events[:-1]} == {(ann, service.client_id)}
    assert events[-1][1:3] == (None, service.client_id)
    assert events[0][3] == {"application": "Reader <1>", "scopes": ["read"], "accounts": ["us-1"]}
    assert events[4][3]["accounts"] == "all"


HOME = "/admin/applications"


def _names(page: httpx.Response) -> list[str]:
    assert page.status_code == 200
    return re.findall("<h2>([^<]+)</h2>", page.text)


def test_ending_an_access_ends_everything_the_application_holds(service: Served, user: httpx.Client) -> None:
    first, second = service.pair(), service.pair()
    of_bob = issue_token(service.database, BOB)
    # A code that was not exchanged yet becomes invalid, too.
    page = service.request_code(user)
    code = submit(user, page, decision="approve").headers["location"].partition("code=")[2].partition("&")[0]
    assert [service.status_of(pair["access_token"]) for pair in (first, second)] == [200, 200]

    answer = submit(user, user.get(f"{HOME}/{service.client_id}/end"))
    newest = service.stored("SELECT kind FROM service.security_events ORDER BY id DESC LIMIT 1")
    after = user.get(answer.headers["location"])
    exchanged = service.exchange(user, code)
    refreshed = [service.refresh(user, pair["refresh_token"]) for pair in (first, second)]

    assert (answer.status_code, newest) == (303, [("consent_ended",)])
    assert "The access is ended." in after.text
    assert _names(after) == ["No application has access"]
    assert [service.status_of(pair["access_token"]) for pair in (first, second)] == [401, 401]
    assert [each.json()["error"] for each in (exchanged, *refreshed)] == ["invalid_grant"] * 3
    assert service.status_of(of_bob) == 200
    # It may be approved again, and ends with its tokens.
    assert service.status_of(service.pair()["access_token"]) == 200
    for ended in ("access_tokens SET expires_at", "refresh_tokens SET used_at"):
        service.execute(f"UPDATE service.{ended} = now()")
    assert _names(user.get(HOME)) == ["No application has access"]


def test_the_last_use_is_noted_once_a_day(service: Served) -> None:
    token = issue_token(service.database, ANN)

    service.execute("UPDATE service.authorizations SET last_used_on = '2026-01-01'")
    noted = []
    for _ in range(3):
        assert service.status_of(token) == 200
        noted += service.stored("SELECT last_used_on, xmin::text FROM service.authorizations")

    assert {day for day, _ in noted} == {datetime.now(UTC).date()}
    assert len({version for _, version in noted}) == 1
