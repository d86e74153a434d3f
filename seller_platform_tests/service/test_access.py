"""Tests how a request selects its accounts and sends its token, by the texts of the refusals."""

from collections.abc import Mapping

import httpx
import pytest

from seller_platform_tests.support.served import ANN, BOB, Served, execute

_PATH, _PAGE = "/inventory/list", {"per_page": "20"}
_SHOP = {"account_title": "Shop US"}
_SELLER, _MARKETPLACE, _GROUP = {"seller_id": "S4"}, {"marketplace_id": "FR"}, {"group_title": "World"}


def _refusals(answer: httpx.Response) -> Mapping[str, list[str]]:
    assert answer.status_code == 422, answer.text
    errors: Mapping[str, list[str]] = answer.json()["errors"]
    return errors


@pytest.mark.parametrize(
    ("selection", "name", "problem"),
    [
        ({}, "account", "is not selected"),
        (_SELLER, "marketplace_id", "is required"),
        (_MARKETPLACE, "seller_id", "is required"),
        ({**_SHOP, **_GROUP}, "account", "in more than one way"),
        ({**_SHOP, **_SELLER}, "account", "in more than one way"),
        ({**_SHOP, **_MARKETPLACE}, "account", "in more than one way"),
        ({**_SELLER, **_GROUP}, "account", "in more than one way"),
        ({**_SHOP, **_SELLER, **_MARKETPLACE, **_GROUP}, "account", "in more than one way"),
        ({"account_title": "Twin"}, "account_title", "select by seller_id and marketplace_id: S4 on FR, S4 on IT"),
    ],
)
def test_a_selection_that_selects_no_single_account_says_what_to_send(
    reading: Served, selection: Mapping[str, str], name: str, problem: str
) -> None:
    with reading.client(ANN) as client:
        refusals = _refusals(client.get(_PATH, params={**_PAGE, **selection}))

    assert list(refusals) == [name]
    assert problem in refusals[name][0]


def test_a_pair_of_several_accounts_says_their_titles(service: Served) -> None:
    execute(service.database, "UPDATE seller.accounts SET marketplace = 'FR' WHERE account = 'S4.IT'")
    execute(service.database, "UPDATE seller.accounts SET account_title = 'Other' WHERE account = 'S4.IT'")

    with service.client(ANN) as client:
        refusals = _refusals(client.get(_PATH, params={**_PAGE, **_SELLER, **_MARKETPLACE}))

    assert refusals == {"seller_id": ["selects 2 of your accounts; select one by its account_title: Twin, Other"]}


@pytest.mark.parametrize(
    ("selection", "named"),
    [
        ({"account_title": "Bob's"}, 'no account titled "Bob\'s" among yours'),
        ({**_SELLER, "marketplace_id": "DE"}, "no account of seller 'S4' on marketplace 'DE' among yours"),
    ],
)
def test_an_account_of_nobody_or_others_is_named_as_it_was_selected(
    reading: Served, selection: Mapping[str, str], named: str
) -> None:
    with reading.client(ANN) as client:
        answer = client.get(_PATH, params={**_PAGE, **selection})

    assert answer.status_code == 404
    assert named in answer.json()["message"]


def test_a_group_of_ones_own_is_empty_and_any_other_is_refused(service: Served) -> None:
    own_group = "INSERT INTO service.account_groups (title, user_id) SELECT %s, id FROM service.users WHERE email = %s"
    for email, title in ((ANN, "Nothing yet"), (BOB, "Of Bob")):
        execute(service.database, own_group, title, email)

    with service.client(ANN) as client:
        own, others, unknown = (
            client.get(_PATH, params={**_PAGE, "group_title": title}) for title in ("Nothing yet", "Of Bob", "Nobody's")
        )

    assert (own.status_code, own.json()["data"]) == (200, [])
    assert [answer.status_code for answer in (others, unknown)] == [404, 404]
    assert "no group titled 'Of Bob' among yours" in others.json()["message"]


def test_two_tokens_in_one_request_are_refused(reading: Served) -> None:
    with reading.client(ANN) as client:
        token = client.headers.pop("Authorization")
        answer = client.get(
            _PATH, params={**_PAGE, **_SHOP}, headers=[("Authorization", token), ("Authorization", token)]
        )

    assert answer.status_code == 401
    assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]
