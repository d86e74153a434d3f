"""Tests how failed logins lock an address and delay a user, and what is recorded of them."""

import asyncio

import pytest

from seller_platform.errors import LoginsBusyError, TooManyAttemptsError
from seller_platform.service.http.addresses import network_of
from seller_platform.service.pages.throttle import MOST_OF_AN_ADDRESS, begin_attempt
from seller_platform.service.pool import Connection, Store
from seller_platform.service.users.hashing_queue import AT_ONCE, MOST_OF_A_NETWORK, MOST_WAITING, PasswordQueue
from seller_platform.service.users.store import add_user
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.served import (
    ANN,
    BOB,
    PASSWORD,
    Served,
    execute,
    stored,
    submit,
    with_connection,
    with_store,
)


def _delay(database: Database, email: str, failures: int = 13) -> None:
    """Store failed logins of a user, as if the last one were now."""
    execute(
        database,
        "INSERT INTO service.login_attempts SELECT 'account ' || id, array_fill(clock_timestamp(), ARRAY[%s]), "
        "now() + interval '1 day' FROM service.users WHERE email = %s",
        failures,
        email,
    )


# Shorter delays may be over before the attempt, on a busy machine.
@pytest.mark.parametrize(("failures", "seconds"), [(2, 0), (9, 64), (10, 128), (12, 512), (13, 900), (14, 900)])
def test_the_delay_of_a_user_doubles_up_to_a_quarter_of_an_hour(
    database: Database, database_url: str, failures: int, seconds: int
) -> None:
    execute(
        database,
        "INSERT INTO service.login_attempts VALUES "
        "('account 17', array_fill(clock_timestamp(), ARRAY[%s]), now() + interval '1 day')",
        failures,
    )

    async def attempt(connection: Connection) -> int:
        try:
            await begin_attempt(connection, "17", "192.0.2.1")
        except TooManyAttemptsError as error:
            return int(error.headers["Retry-After"])
        return 0

    assert seconds // 2 < with_connection(database_url, attempt) + (seconds == 0) <= max(seconds, 1)
    kept = stored(database, "SELECT cardinality(made_at) FROM service.login_attempts WHERE subject = 'account 17'")
    # An attempt within the delay is not counted.
    assert kept == [(failures + (seconds == 0),)]


def test_a_user_is_delayed_and_never_locked(service: Served) -> None:
    _delay(service.database, ANN)
    with service.client() as browser:
        answer = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        execute(
            service.database,
            "UPDATE service.login_attempts SET made_at = "
            "ARRAY(SELECT time - interval '15 minutes' FROM unnest(made_at) AS time)",
        )
        after = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)

    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 900
    assert "Try again in 15 minutes." in answer.text
    assert after.status_code == 303


def test_a_right_password_from_a_known_browser_passes_the_delay(service: Served) -> None:
    with service.client() as browser, service.client() as stranger:
        submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        submit(browser, browser.get("/login"))
        _delay(service.database, ANN)
        delayed = submit(stranger, stranger.get("/login"), email=ANN, password=PASSWORD)
        wrong = submit(browser, browser.get("/login"), email=ANN, password="wrong")
        right = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)

    assert [delayed.status_code, wrong.status_code, right.status_code] == [429, 401, 303]


def test_a_browser_that_is_known_is_delayed_after_ten_failures_of_its_own(
    database: Database, database_url: str
) -> None:
    async def attempt_often(connection: Connection) -> list[str | None]:
        passed: list[str | None] = []
        for number in range(11):
            try:
                attempt = await begin_attempt(connection, "17", f"192.0.2.{number}", "ab" * 32)
                passed.append(attempt.browser)
            except TooManyAttemptsError:
                passed.append("delayed")
        return passed

    assert with_connection(database_url, attempt_often) == [f"browser {'ab' * 32}"] * 10 + ["delayed"]


def test_a_browser_is_known_only_for_the_user_who_logged_in(service: Served) -> None:
    _delay(service.database, BOB)
    with service.client() as browser:
        submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        submit(browser, browser.get("/login"))

        assert submit(browser, browser.get("/login"), email=BOB, password=PASSWORD).status_code == 429


def test_one_user_in_several_spellings_is_delayed_as_one(service: Served) -> None:
    add_user(service.database, "ασ@shop.example", "Sigma", PASSWORD)
    _delay(service.database, "ασ@shop.example")
    spellings = ["ΑΣ@shop.example", "αΣ@shop.example", " ασ@shop.example ", "Ασ@SHOP.example"]
    with service.client() as browser:
        page = browser.get("/login")
        statuses = [submit(browser, page, email=spelling, password=PASSWORD).status_code for spelling in spellings]

    assert statuses == [429] * 4


def test_an_unknown_address_is_throttled_like_a_known_one(service: Served) -> None:
    _delay(service.database, ANN)
    with service.client() as browser:
        page = browser.get("/login")
        first = submit(browser, page, email="nobody@shop.example", password="wrong")
        execute(
            service.database,
            "UPDATE service.login_attempts SET made_at = array_fill(clock_timestamp(), ARRAY[13]) "
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
        execute(
            service.database,
            "UPDATE service.login_attempts SET made_at[1] = now() - interval '16 minutes', "
            "made_at[2] = now() - interval '14 minutes 30 seconds' WHERE subject LIKE 'address %%'",
        )
        later = [submit(browser, page, email=f"{n}@shop.example", password="x") for n in range(2)]

    assert statuses == [401, 401, 429]
    # Failures stop counting one by one, as they grow old.
    assert [answer.status_code for answer in later] == [401, 429]
    assert 1 <= int(later[1].headers["retry-after"]) <= 30
    # The lock is recorded once, not with each failure that renews it.
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

    # The delay after nine failures has just passed, and the tenth begins one of two minutes.
    execute(
        database,
        "INSERT INTO service.login_attempts VALUES "
        "('account 17', array_fill(clock_timestamp() - interval '64 seconds', ARRAY[9]), now() + interval '1 day')",
    )

    async def attempt_together(store: Store) -> tuple[int, int]:
        of_user = await asyncio.gather(*(attempt(store, "17", f"192.0.2.{n}") for n in range(40)))
        of_address = await asyncio.gather(*(attempt(store, f"1{n}", "198.51.100.1") for n in range(40)))
        return sum(of_user), sum(of_address)

    assert with_store(database_url, attempt_together) == (1, MOST_OF_AN_ADDRESS)
    kept = stored(
        database,
        "SELECT subject, cardinality(made_at) FROM service.login_attempts "
        "WHERE subject IN ('account 17', 'address 198.51.100.1') ORDER BY subject",
    )
    assert kept == [("account 17", 10), ("address 198.51.100.1", MOST_OF_AN_ADDRESS)]


def test_failures_counted_by_a_clock_that_was_ahead_block_no_login(service: Served) -> None:
    _delay(service.database, ANN)
    ahead = "ARRAY(SELECT time + interval '2 days' FROM unnest(made_at) AS time)"
    execute(service.database, f"UPDATE service.login_attempts SET made_at = {ahead}")
    with service.client() as browser:
        answer = submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)

    assert answer.status_code == 303


def test_a_login_gives_back_what_it_took_and_is_recorded(service: Served) -> None:
    with service.client() as browser:
        page = browser.get("/login")
        submit(browser, page, email=ANN, password="wrong")
        submit(browser, page, email=ANN, password=PASSWORD)
        submit(browser, browser.get("/login"))
    kept = stored(service.database, "SELECT subject, cardinality(made_at) FROM service.login_attempts")
    events = stored(
        service.database,
        "SELECT event.kind, users.email, event.address FROM service.security_events AS event "
        "LEFT JOIN service.users AS users ON users.id = event.user_id "
        "WHERE event.address IS NOT NULL ORDER BY event.id",
    )

    assert kept == [("address 127.0.0.1", 1)]
    assert events == [(kind, ANN, "127.0.0.1") for kind in ("login_failed", "login_succeeded", "logged_out")]


@pytest.mark.parametrize(
    ("first", "second", "are_one"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("unknown", "unknown", True),
    ],
)
def test_addresses_of_one_customer_are_counted_as_one(first: str, second: str, are_one: bool) -> None:
    assert (network_of(first) == network_of(second)) is are_one


def test_the_line_for_passwords_is_short_and_no_network_takes_all_of_it() -> None:
    async def fill() -> tuple[int, int, bool]:
        queue, done = PasswordQueue(), asyncio.Event()

        async def hold(network: str) -> bool:
            try:
                async with queue.seat(network):
                    await done.wait()
            except LoginsBusyError:
                return False
            return True

        async def refused(network: str) -> bool:
            try:
                async with queue.seat(network):
                    return False
            except LoginsBusyError as error:
                return error.status == 503 and "Retry-After" in error.headers

        greedy = [asyncio.create_task(hold("192.0.2.1")) for _ in range(MOST_OF_A_NETWORK + 2)]
        others = [asyncio.create_task(hold(f"198.51.100.{n}")) for n in range(AT_ONCE + MOST_WAITING)]
        await asyncio.sleep(0)
        is_full = await refused("203.0.113.1")
        done.set()
        taken = sum(await asyncio.gather(*greedy)), sum(await asyncio.gather(*others))
        assert not await refused("192.0.2.1")  # every seat was given back
        return *taken, is_full

    assert asyncio.run(fill()) == (MOST_OF_A_NETWORK, AT_ONCE + MOST_WAITING - MOST_OF_A_NETWORK, True)


def test_who_waits_too_long_for_a_turn_is_asked_to_come_back() -> None:
    async def wait() -> None:
        queue = PasswordQueue(longest_wait_seconds=0.5)
        async with queue.seat("192.0.2.1"), queue.seat("192.0.2.2"):
            with pytest.raises(LoginsBusyError, match="Try again in"):
                async with queue.seat("192.0.2.3"):
                    pass
        async with queue.seat("192.0.2.3"):
            pass

    asyncio.run(wait())
