"""Tests that advisory locks are held over transactions, and released at the end of their block."""

import pytest
from sqlalchemy import text

from seller_platform.warehouse.postgres.advisory_locks import holding, releasing, try_hold
from seller_platform.warehouse.postgres.database import Database

NAME = "orders|us-1|2026-03"
NAMED = f"hashtextextended('{NAME}', 0)"


def is_taken(database: Database, key: str) -> bool:
    """Return whether another connection holds the lock of a key, which is an SQL expression."""
    return not database.execute(text(f"SELECT pg_try_advisory_xact_lock({key})")).scalar_one()


def test_a_connection_holds_a_lock_over_transactions_until_its_block_ends(database: Database) -> None:
    with holding(database, NAME):
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
    assert database.execute(text("SELECT to_regclass('seller.half_done')")).scalar_one() is None
