"""Tests how failed logins lock an address or a user, and what is recorded of them."""

import asyncio

from seller_platform.errors import TooManyAttemptsError
from seller_platform.service.http.addresses import network_of
from seller_platform.service.pages.login import MOST_OF_A_USER, MOST_OF_AN_ADDRESS, begin_attempt
from seller_platform.service.pool import Connection, Store
from seller_platform.service.users.store import add_user
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import (
    ANN,
    PASSWORD,
    Served,
    execute,
    stored,
    submit,
    with_connection,
    with_store,
)


def _lock(database: Database, email: str) -> None:
    """Store failed logins of a user, as many as are allowed."""
    execute(
        database,
        "INSERT INTO service.login_attempts SELECT 'account ' || id, %s, now() + interval '10 minutes' "
        "FROM service.users WHERE email = %s",
        MOST_OF_A_USER,
        email,
    )


def test_a_user_is_locked_until_the_window_is_over(service: Served) -> None:
    _lock(service.database, ANN)
    with service.client() as browser:
        answer = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        execute(service.database, "UPDATE service.login_attempts SET expires_at = clock_timestamp()")
        after = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
    _lock(service.database, ANN)  # by a clock that was ahead
    execute(service.database, "UPDATE service.login_attempts SET expires_at = expires_at + interval '2 days'")
    with service.client() as browser:
        later = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)

    assert answer.status_code == 429
    assert 540 < int(answer.headers["retry-after"]) <= 600
    assert "Try again in 10 minutes." in answer.text
    assert (after.status_code, later.status_code) == (303, 303)


def test_one_user_in_several_spellings_is_locked_as_one(service: Served) -> None:
    add_user(service.database, "ασ@shop.example", "Sigma", PASSWORD)
    _lock(service.database, "ασ@shop.example")
    spellings = ["ΑΣ@shop.example", "αΣ@shop.example", " ασ@shop.example ", "Ασ@SHOP.example"]
    with service.client() as browser:
        page = browser.get("/login")
        statuses = [submit(browser, page, email=spelling, password=PASSWORD).status_code for spelling in spellings]

    assert statuses == [429] * 4


def test_an_unknown_address_is_throttled_like_a_known_one(service: Served) -> None:
    _lock(service.database, ANN)
    with service.client() as browser:
        page = browser.get("/login")
        first = submit(browser, page, email="nobody@shop.example", password="wrong")
        execute(
            service.database,
            "UPDATE service.login_attempts SET failures = 20, expires_at = now() + interval '10 minutes' "
            "WHERE subject LIKE 'account %%'",
        )
        answers = [submit(browser, page, email=email, password="wrong") for email in (ANN, "nobody@shop.example")]

    assert first.status_code == 401
    assert [answer.status_code for answer in answers] == [429, 429]
    assert answers[0].text.replace(ANN, "") == answers[1].text.replace("nobody@shop.example", "")


def test_ten_failures_lock_an_address_for_every_user(service: Served, database_url: str) -> None:
    async def attempt_often(connection: Connection) -> None:
        for number in range(MOST_OF_AN_ADDRESS - 2):
            await begin_attempt(connection, str(number), "127.0.0.1")

    with_connection(database_url, attempt_often)
    with service.client() as browser:
        page = service.request_code(browser)
        statuses = [submit(browser, page, email=f"{n}@shop.example", password="x").status_code for n in range(3)]

    assert statuses == [401, 401, 429]
    locked = stored(
        service.database, "SELECT user_id, address, details FROM service.security_events WHERE kind = 'login_locked'"
    )
    assert locked == [(None, "127.0.0.1", {"locked": "the address, for 15 minutes", "network": "127.0.0.1"})]


def test_of_many_attempts_at_once_no_more_get_through_than_are_allowed(database: Database, database_url: str) -> None:
    async def attempt(store: Store, user: str, address: str) -> bool:
        async with store.connection() as connection:
            try:
                await begin_attempt(connection, user, address)
            except TooManyAttemptsError:
                return False
        return True

    async def attempt_together(store: Store) -> tuple[int, int]:
        of_user = await asyncio.gather(*(attempt(store, "17", f"192.0.2.{n}") for n in range(40)))
        of_address = await asyncio.gather(*(attempt(store, f"1{n}", "198.51.100.1") for n in range(40)))
        return sum(of_user), sum(of_address)

    assert with_store(database_url, attempt_together) == (MOST_OF_A_USER, MOST_OF_AN_ADDRESS)
    kept = stored(
        database,
        "SELECT subject, failures FROM service.login_attempts "
        "WHERE subject IN ('account 17', 'address 198.51.100.1') ORDER BY subject",
    )
    assert kept == [("account 17", MOST_OF_A_USER), ("address 198.51.100.1", MOST_OF_AN_ADDRESS)]


def test_a_login_gives_back_what_it_took_and_is_recorded(service: Served) -> None:
    with service.client() as browser:
        page = browser.get("/login")
        submit(browser, page, email=ANN, password="wrong")
        submit(browser, page, email=ANN, password=PASSWORD)
        submit(browser, browser.get("/login"))
    kept = stored(service.database, "SELECT subject, failures FROM service.login_attempts")
    events = stored(
        service.database,
        "SELECT event.kind, users.email, event.address FROM service.security_events AS event "
        "LEFT JOIN service.users AS users ON users.id = event.user_id "
        "WHERE event.address IS NOT NULL ORDER BY event.id",
    )

    assert kept == [("address 127.0.0.1", 1)]
    assert events == [(kind, ANN, "127.0.0.1") for kind in ("login_failed", "login_succeeded", "logged_out")]


def test_addresses_of_one_customer_are_counted_as_one() -> None:
    for first, second, are_one in (
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("unknown", "unknown", True),
    ):
        assert (network_of(first) == network_of(second)) is are_one
