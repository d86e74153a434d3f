"""Tests that discovery returns the user and every account with a unique key."""

import json
from typing import Any

import httpx
import pytest

from seller_platform.client.endpoints.accounts import Discovered, fetch_accounts, fetch_user
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import ContractViolationError
from seller_platform_tests.client.http.test_api import in_turn
from seller_platform_tests.support.http_upstream import api_of

ACCOUNT = {
    "id": 7,
    "account_title": "Tea",
    "country_code": "DE",
    "currency_code": "EUR",
    "timezone": "Europe/Berlin",
    "marketplace": "M1",
    "seller_id": "S1",
}


def discovered(*accounts: dict[str, Any]) -> Discovered:
    with api_of(lambda request: httpx.Response(200, json={"accounts": accounts})) as api:
        return fetch_accounts(api, "default")


def test_accounts_become_keys_and_rows() -> None:
    seen = discovered(ACCOUNT | {"id": "9", "seller_id": "S2", "plan": "gold"}, ACCOUNT)

    assert [account.key for account in seen.accounts] == ["de-7", "de-9"]
    assert seen.rows[0] == (7, "Tea", "DE", "EUR", "Europe/Berlin", "M1", "S1", "default")
    assert dict(seen.extras) == {1: '{"plan":"gold"}'}
    assert seen.facts.notes == {"unknown_fields": ["plan"]}


def test_of_accounts_of_one_seller_and_marketplace_one_is_selected_by_them() -> None:
    seen = discovered(ACCOUNT | {"id": 8, "account_title": "Coffee"}, ACCOUNT)

    assert seen.accounts[0].selection == {"seller_id": "S1", "marketplace_id": "M1"}
    assert seen.accounts[1].selection == {"account_title": "Coffee"}
    assert seen.rows[1][6] == "S1"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"timezone": None}, "it has no time zone"),
        ({"timezone": "Sea/Atlantis"}, "time zone 'Sea/Atlantis' is not known"),
        ({"timezone": "../etc"}, "time zone '../etc' is not known"),
        ({"timezone": "Europe"}, "time zone 'Europe' is not known"),
        ({"account_title": None, "seller_id": None}, "it has neither a title nor a seller"),
        ({"account_title": None, "seller_id": "S1"}, "it has neither a title nor a seller"),
    ],
)
def test_an_account_that_cannot_be_read_is_returned_with_the_others(change: dict[str, Any], problem: str) -> None:
    seen = discovered(ACCOUNT, ACCOUNT | {"id": 9, "seller_id": "S9"} | change)

    assert seen.accounts[0].problem is None
    assert problem in str(seen.accounts[1].problem)
    assert seen.rows[1][4] == change.get("timezone", "Europe/Berlin")


def test_text_of_an_account_that_cannot_be_stored_is_replaced_and_named() -> None:
    body = json.dumps({"accounts": [{"id": 1, "account_title": "Tea\ud800", "new": "\0"}]})
    with api_of(lambda _: httpx.Response(200, text=body)) as api:
        discovered = fetch_accounts(api, "default")

    assert discovered.accounts[0].title == "Tea\ufffd"
    noted = {"rows": 1, "first": [{"page": 1, "row": 1, "columns": ["account_title", "extra"]}]}
    assert discovered.facts.notes["replaced_text"] == noted


def test_an_account_without_a_number_is_refused() -> None:
    with pytest.raises(ContractViolationError, match="row 2: its id is missing, null or no number"):
        discovered(ACCOUNT, ACCOUNT | {"id": None})


@pytest.mark.parametrize(
    ("counts", "requests", "verdict"),
    [
        ({}, ["None"], CountVerdict.MATCH),
        ({"total": 5, "last_page": 3, "per_page": 2}, ["None", "2", "3"] * 2, CountVerdict.MATCH),
        ({"total": 5}, ["None", "2", "3"] * 2, CountVerdict.MATCH),
        ({"last_page": 3}, ["None", "2", "3"] * 2, CountVerdict.MATCH),
        ({"total": 5, "last_page": 1}, ["None", "2", "3"] * 2, CountVerdict.MISMATCH),
        ({"total": 9}, ["None", "2", "3", "4", "5"] * 2, CountVerdict.MISMATCH),
    ],
)
def test_accounts_on_several_pages_are_read_to_their_end(
    counts: dict[str, int], requests: list[str], verdict: CountVerdict
) -> None:
    accounts, pages = [ACCOUNT | {"id": number, "seller_id": f"S{number}"} for number in range(5 if counts else 2)], []

    def answer(request: httpx.Request) -> httpx.Response:
        pages.append(str(request.url.params.get("page")))
        first = 2 * int(request.url.params.get("page", 1)) - 2
        return httpx.Response(200, json={"accounts": accounts[first : first + 2], **counts})

    with api_of(answer) as api:
        seen = fetch_accounts(api, "default")

    assert [account.id for account in seen.accounts] == [account["id"] for account in accounts]
    assert (sorted(pages), seen.facts.verdict) == (sorted(requests), verdict)


def test_the_same_account_twice_is_refused() -> None:
    with pytest.raises(ContractViolationError, match="listed twice"):
        discovered(ACCOUNT, ACCOUNT | {"seller_id": "S2"})


def test_an_error_beside_the_user_or_the_accounts_is_asked_again() -> None:
    faulty = httpx.Response(200, json={"error": "busy", "accounts": [], "user": {}})
    user, accounts = ({"user": {"id": 5, "name": "Ada"}}, {"accounts": [ACCOUNT]})

    with api_of(in_turn(faulty, httpx.Response(200, json=user), faulty, httpx.Response(200, json=accounts))) as api:
        assert fetch_user(api) == (5, "Ada")
        assert len(fetch_accounts(api, "default").accounts) == 1


@pytest.mark.parametrize("body", [{"user": {"id": "5", "name": "Ada"}}, {"id": 5, "name": "Ada", "email": 3}])
def test_the_user_is_found_in_either_form(body: dict[str, Any]) -> None:
    with api_of(lambda request: httpx.Response(200, json=body)) as api:
        assert fetch_user(api) == (5, "Ada")
