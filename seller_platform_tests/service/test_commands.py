"""Tests the commands of `seller-platform service` with a database URL."""

import json
from pathlib import Path
from typing import Any

import pytest

from seller_platform.contract import Account
from seller_platform.service.commands import service
from seller_platform.service.users.passwords import verify_password
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.served import add_user
from seller_platform_tests.support.stored_rows import count_rows, list_accounts, stored

ANN, BOB = "ann@shop.example", "bob@shop.example"


def _run(url: str, *words: str, typed: str = "") -> dict[str, Any]:
    result = invoke(service, [*words, "--database-url", url, "--json"], input=typed, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.fixture
def url(database: Database) -> str:
    """The URL of a database with two accounts and a user of one of them."""
    list_accounts(database, {f"us-{n}": Account(n, f"Shop {n}", "US", "USD", "UTC", "US", f"S{n}") for n in (1, 2)})
    add_user(database, ANN, ["us-1"])
    return database.url


def test_a_group_is_set_listed_and_removed(url: str) -> None:
    made = _run(url, "group", "set", ANN, "My shop", "us-1")
    listed = _run(url, "group", "list", ANN)
    _run(url, "group", "remove", ANN, "My shop")

    assert made == {"message": f"The group My shop of {ANN} holds us-1."}
    assert listed == {"groups": {"My shop": ["us-1"]}}
    assert _run(url, "group", "list", ANN) == {"groups": {}}


def test_users_are_listed_and_given_another_password(url: str, database: Database) -> None:
    def password_hash() -> str:
        [(password_hash,)] = stored(database, "SELECT password_hash FROM service.users")
        return str(password_hash)

    before = password_hash()
    _run(url, "user", "password", ANN, typed="violet tram nine hats\n")

    assert password_hash() != before
    assert verify_password(password_hash(), "violet tram nine hats")
    assert _run(url, "user", "list") == {
        "users": [{"email": ANN, "name": "Ann", "state": "active", "accounts": ["us-1"]}]
    }


def test_applications_are_registered_and_listed(url: str, database: Database) -> None:
    uris = ("--redirect-uri", "https://a.example/", "--redirect-uri", "com.example.app:/b")
    first = _run(url, "application", "add", "First", *uris)
    second = _run(url, "application", "add", "Second", *uris[:2], "--public", "--mcp")
    listed = _run(url, "application", "list")["applications"]
    registered = count_rows(database, "service.security_events", "kind LIKE 'application%%'")

    assert first["redirect_uris"] == listed[0]["redirect_uris"] == ["https://a.example/", "com.example.app:/b"]
    assert [(each["name"], each["origin"], each["is_public"], each["resource"]) for each in listed] == [
        ("First", "operator", False, None),
        ("Second", "operator", True, "/mcp"),
    ]
    assert registered == 2
    assert (second["client_secret"], bool(first["client_secret"])) == (None, True)


def test_rates_and_products_are_loaded_from_files(url: str, tmp_path: Path) -> None:
    rates, products = tmp_path / "rates.csv", tmp_path / "products.csv"
    rates.write_text("day,currency,per_euro\n2026-03-01,USD,1.09\n")
    products.write_text("account,sku,asin,parent_asin,product_name\nus-1,A,B1,P1,Mug\n")

    of_rates, of_products = _run(url, "rates", "load", str(rates)), _run(url, "products", "load", str(products))

    days = {"first_day": "2026-03-01", "last_day": "2026-03-01"}
    assert of_rates == {"rates": 1, "currencies": ["USD"], **days}
    assert of_products == {"products": 1, "with_parent": 1, "accounts": ["us-1"]}


def test_a_reset_link_is_printed_for_the_public_url(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    local = _run(url, "user", "reset-link", ANN)
    monkeypatch.setenv("SELLER_PLATFORM_SERVICE_PUBLIC_URL", "https://api.shop.example")
    public = _run(url, "user", "reset-link", ANN, "--hours", "1")

    assert local["url"].startswith("http://127.0.0.1:8700/reset-password?token=")
    assert public["url"].startswith("https://api.shop.example/reset-password?token=")


def test_the_events_of_operators_are_listed_by_user_kind_and_time(url: str) -> None:
    _run(url, "user", "add", BOB, typed="zebra lamp quorum\n")
    _run(url, "user", "grant", BOB, "us-1")
    _run(url, "group", "set", BOB, "My shop", "us-1")
    _run(url, "group", "remove", BOB, "My shop")
    _run(url, "user", "password", BOB, typed="violet tram nine hats\n")
    _run(url, "user", "reset-link", BOB)
    _run(url, "user", "revoke", BOB, "us-1")
    _run(url, "user", "close", BOB)
    _run(url, "user", "reopen", BOB)
    _run(url, "user", "reset-link", ANN)
    events = _run(url, "events", "--user", BOB.upper(), "--since", "1h")["events"]
    output = invoke(service, ["events", "--kind", "group_changed", "--database-url", url]).output

    assert [event["kind"] for event in events] == [
        "user_added",
        "accounts_granted",
        "group_changed",
        "group_removed",
        "password_changed",
        "reset_link_created",
        "accounts_revoked",
        "user_closed",
        "user_reopened",
    ]
    assert events[2]["details"] == {"title": "My shop", "accounts": ["us-1"]}
    assert ("group_changed" in output, "title: My shop" in output) == (True, True)
    assert "user_added" not in output
    assert _run(url, "events", "--since", "2100-01-01")["events"] == []
    assert len(_run(url, "events", "--limit", "2")["events"]) == 2
