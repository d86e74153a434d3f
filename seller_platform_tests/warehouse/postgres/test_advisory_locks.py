"""Tests that the keys of advisory locks are stable, and that locks are released."""

import pytest
from sqlalchemy import text

from seller_platform.warehouse.postgres.advisory_locks import (
    hold,
    lock,
    lock_number,
    releasing,
    share_number,
    try_hold,
    try_lock,
)
from seller_platform.warehouse.postgres.database import Database

NAME, NUMBER = "orders|S1.US|2026-03", 0x5EA1


def is_taken(database: Database, key: str) -> bool:
    """Return whether another connection holds the lock of a key, which is an SQL expression."""
    with database.begin() as connection:
        return not connection.execute(text(f"SELECT pg_try_advisory_xact_lock({key})")).scalar_one()


NAMED, NUMBERED = f"hashtextextended('{NAME}', 0)", str(NUMBER)


def test_a_transaction_holds_the_lock_of_a_name_until_it_ends(database: Database) -> None:
    with database.begin() as connection:
        lock(connection, NAME)
        during = is_taken(database, NAMED)

    assert during
    assert not is_taken(database, NAMED)


def test_a_transaction_holds_the_lock_of_a_number_until_it_ends(database: Database) -> None:
    with database.begin() as connection:
        lock_number(connection, NUMBER)
        during = is_taken(database, NUMBERED)

    assert during
    assert not is_taken(database, NUMBERED)


def test_a_number_is_shared_by_many_and_exclusive_for_none_of_them(database: Database) -> None:
    with database.begin() as first, database.begin() as second:
        share_number(first, NUMBER)
        share_number(second, NUMBER)

        assert is_taken(database, NUMBERED)


def test_one_transaction_gets_the_lock_and_another_does_not_wait_for_it(database: Database) -> None:
    with database.begin() as first, database.begin() as second:
        assert try_lock(first, NAME)
        assert not try_lock(second, NAME)


def test_a_connection_holds_a_lock_over_transactions_until_its_block_ends(database: Database) -> None:
    with database.connect() as connection, releasing(connection):
        hold(connection, NAME)
        connection.commit()
        during = is_taken(database, NAMED)
        with database.connect() as other, releasing(other):
            assert not try_hold(other, NAME)

    assert during
    assert not is_taken(database, NAMED)


def test_a_block_that_fails_releases_its_locks_and_rolls_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.connect() as connection, releasing(connection):
        assert try_hold(connection, NAME)
        connection.commit()
        connection.execute(text("CREATE TABLE seller.half_done (id integer)"))
        raise ZeroDivisionError

    assert not is_taken(database, NAMED)
    with database.begin() as connection:
        assert connection.execute(text("SELECT to_regclass('seller.half_done')")).scalar_one() is None
