"""Tests the operator's work: users, grants, groups and applications; and the table of security events."""

from functools import partial

import httpx
import psycopg
import pytest

from seller_platform.contract import Account
from seller_platform.errors import RequestError, UnknownAccountError
from seller_platform.service.errors import DuplicateUserError
from seller_platform.service.security_events import EventKind, record_operator_event
from seller_platform.service.users.groups import groups_of, remove_group, set_group
from seller_platform.service.users.passwords import verify_password
from seller_platform.service.users.store import (
    add_user,
    grant_accounts,
    revoke_accounts,
    set_password,
    set_status,
    users_of,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import ANN, BOB, OF_ANN, PASSWORD, Served, submit
from seller_platform_tests.support.stored_rows import list_accounts, stored


def test_a_user_is_added_once_and_another_password_replaces_the_first(database: Database) -> None:
    add_user(database, "ann@shop.example", "Ann", "zebra lamp quorum")
    with pytest.raises(DuplicateUserError, match=r"'ANN@shop\.example' already"):
        add_user(database, "ANN@shop.example", "Anna", "zebra lamp quorum")
    set_password(database, "Ann@shop.example", "violet tram nine hats")

    [(name, password_hash)] = stored(database, "SELECT name, password_hash FROM service.users")
    assert (name, password_hash.startswith("$argon2id$")) == ("Ann", True)
    assert verify_password(password_hash, "violet tram nine hats")
    assert not verify_password(password_hash, "zebra lamp quorum")


def test_an_invalid_or_unknown_user_is_refused(database: Database) -> None:
    for email, name, password in (
        *((email, "Ann", "zebra lamp quorum") for email in ("ann", "ann@", "a nn@shop.example")),
        *(("ann@shop.example", name, "zebra lamp quorum") for name in (" ", "A\0")),
        *(("ann@shop.example", "Ann", password) for password in ("", "x" * 1025)),
    ):
        with pytest.raises(RequestError):
            add_user(database, email, name, password)
    for act in (partial(set_status, status="closed"), groups_of):
        with pytest.raises(RequestError, match=r"'nobody@shop\.example'"):
            act(database, "nobody@shop.example")


def test_grants_add_up_and_name_what_is_unknown(database: Database) -> None:
    add_user(database, "ann@shop.example", "Ann", "zebra lamp quorum")
    list_accounts(database, {f"us-{n}": Account(n, f"Shop {n}", "US", "USD", "UTC", "US", f"S{n}") for n in (1, 2)})

    grant_accounts(database, "Ann@shop.example", ["us-1"])
    grant_accounts(database, "ann@shop.example", ["us-1", "us-2"])
    with pytest.raises(UnknownAccountError, match=r"us-1, us-2"):
        grant_accounts(database, "ann@shop.example", ["us-3"])
    with pytest.raises(RequestError, match="nobody"):
        grant_accounts(database, "nobody@shop.example", ["us-1"])

    assert stored(database, "SELECT account FROM service.user_accounts ORDER BY 1") == [("us-1",), ("us-2",)]


def test_an_account_that_is_taken_away_is_read_no_more(service: Served, ann: httpx.Client) -> None:
    before = ann.get("/user/accounts").json()["accounts"]
    revoke_accounts(service.database, ANN, ["de-2"])
    after = ann.get("/user/accounts").json()["accounts"]
    with pytest.raises(RequestError, match=r"'de-2'; they may read: fr-3, it-4, us-1$"):
        revoke_accounts(service.database, ANN, ["us-1", "de-2"])
    unchanged = ann.get("/user/accounts").json()["accounts"]
    grant_accounts(service.database, ANN, ["de-2"])

    assert [account["account_title"] for account in before] == ["Shop US", "Shop DE", "Twin", "Twin"]
    assert [account["account_title"] for account in after] == ["Shop US", "Twin", "Twin"]
    assert unchanged == after
    # When it is granted again, it is not added to its former groups.
    assert groups_of(service.database, ANN)["World"] == ("us-1",)


def test_a_closed_user_is_logged_out_and_reads_no_more(service: Served, browser: httpx.Client) -> None:
    pair = service.exchange(browser, service.code(browser)).json()
    token = pair["access_token"]
    open_before = browser.get("/admin/developers").status_code, service.status_of(token)

    set_status(service.database, ANN.upper(), "closed")
    read, refreshed = service.status_of(token), service.refresh(browser, pair["refresh_token"])
    shown = browser.get("/admin/developers")
    listed = {user.email: (user.status, user.accounts) for user in users_of(service.database)}
    login = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
    set_status(service.database, ANN, "active")
    ended = service.status_of(token), browser.get("/admin/developers").status_code
    login_again = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)

    assert open_before == (200, 200)
    assert [*listed.items()] == [(ANN, ("closed", ("de-2", "fr-3", "it-4", "us-1"))), (BOB, ("active", ("gb-5",)))]
    assert (read, refreshed.json()["error"]) == (401, "invalid_grant")
    assert shown.headers["location"].startswith("/login")
    assert login.status_code == 401
    assert ended == (401, 303)
    assert login_again.status_code == 303
    with service.client(BOB) as client:
        assert client.get("/user/me").status_code == 200


def test_another_password_ends_the_sessions_and_no_consent(service: Served) -> None:
    with service.client() as browser, service.client() as other:
        token = service.exchange(browser, service.code(browser)).json()["access_token"]

        before = browser.get("/admin/developers").status_code
        set_password(service.database, ANN.upper(), "zebra lamp quorum")
        read, shown = service.status_of(token), browser.get("/admin/developers")
        passwords = PASSWORD, "zebra lamp quorum"
        logins = [submit(other, other.get("/login"), email=ANN, password=each) for each in passwords]
        set_password(service.database, ANN, PASSWORD)
        after = other.get("/admin/developers").status_code
        with pytest.raises(RequestError, match="12 to 1024 characters; it has 0"):
            set_password(service.database, ANN, "")

    assert (before, read, after) == (200, 200, 303)
    assert shown.headers["location"].startswith("/login")
    assert [login.status_code for login in logins] == [401, 303]


def test_a_group_selects_its_accounts(service: Served, ann: httpx.Client) -> None:
    set_group(service.database, ANN, "Germany", ["de-2"])
    set_group(service.database, ANN, "Germany", ["de-2", "us-1", "de-2"])
    query = {"group_title": "Germany", "currency": "EUR", "per_page": "500"}
    with service.client(BOB) as bob:
        answers = [each.get("/sales/orders", params=query).status_code for each in (ann, bob)]
    remove_group(service.database, ANN, "Germany")
    removed = ann.get("/sales/orders", params=query).status_code

    assert (answers, removed) == ([200, 404], 404)
    groups = "SELECT kind, details FROM service.security_events WHERE details ->> 'title' = 'Germany' ORDER BY id"
    germany = {"title": "Germany"}
    assert service.stored(groups) == [
        ("group_changed", {**germany, "accounts": ["de-2"]}),
        ("group_changed", {**germany, "accounts": ["de-2", "us-1"]}),
        ("group_removed", germany),
    ]
    assert groups_of(service.database, ANN) == {"Empty": (), "Twins": ("fr-3", "it-4"), "World": ("de-2", "us-1")}


def test_an_invalid_group_is_refused_with_the_valid_accounts(service: Served) -> None:
    readable = ", ".join(sorted(OF_ANN))
    with pytest.raises(RequestError, match=rf"{ANN} may not read account 'gb-5'; they may read: {readable}$"):
        set_group(service.database, ANN, "World", ["us-1", "gb-5"])
    with pytest.raises(RequestError, match=r"'Secret'; their groups are: 'Empty', 'Twins', 'World'$"):
        remove_group(service.database, ANN, "Secret")
    for title in ("", "  ", "x" * 101, "two\nlines", "\ud800"):
        with pytest.raises(RequestError, match="1 to 100 printable characters"):
            set_group(service.database, ANN, title, ["us-1"])

    assert groups_of(service.database, ANN)["World"] == ("de-2", "us-1")
    assert groups_of(service.database, BOB) == {"Secret": ("gb-5",)}


def test_events_are_never_changed_and_deleted_only_after_their_retention(database: Database, database_url: str) -> None:
    with database.begin() as connection:
        record_operator_event(connection, EventKind.USER_CLOSED, user_id=7, details={"email": "ann@example.com"})

    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO service.security_events (at, kind) VALUES (now() - interval '401 days', 'logged_out')"
        )
        for statement in ("UPDATE {} SET user_id = 8", "DELETE FROM {}", "TRUNCATE {}"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                connection.execute(statement.format("service.security_events"))
        connection.execute("DELETE FROM service.security_events WHERE at < now() - interval '400 days'")
        stored = connection.execute("SELECT kind, user_id, details FROM service.security_events").fetchall()

    assert stored == [("user_closed", 7, {"email": "ann@example.com"})]
