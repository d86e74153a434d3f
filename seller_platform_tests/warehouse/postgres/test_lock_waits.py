"""Tests that advisory locks are released, and that a long wait for a lock of any kind is logged, with who holds it."""

import re
import threading
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine, create_engine, text

from seller_platform.warehouse.postgres.advisory_locks import hold, releasing, try_hold
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.lock_waits import LockWaits
from seller_platform_tests.support.waiting import wait_for


@pytest.fixture(params=["psycopg", "psycopg2"])
def engine(request: pytest.FixtureRequest, database: Database) -> Iterator[Engine]:
    """An engine that is watched, of the warehouse's driver or of Dagster's."""
    url = database.engine.url.set(drivername=f"postgresql+{request.param}")
    watched = create_engine(url)
    LockWaits(watched, database.url, patience_seconds=0.3)
    yield watched
    watched.dispose()


@pytest.mark.parametrize(
    ("held", "wanted", "name"),
    [
        ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_xact_lock_shared(7)", "an advisory lock"),
        ("SELECT FROM things FOR UPDATE", "UPDATE things SET number = 2", "a row"),
        ("LOCK TABLE things", "SELECT FROM things", "table public.things"),
    ],
)
def test_a_long_wait_is_logged_once_with_the_holder(
    engine: Engine, database: Database, caplog: pytest.LogCaptureFixture, *, held: str, wanted: str, name: str
) -> None:
    def want() -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql(wanted)

    with closing(psycopg.connect(make_conninfo(database.url, application_name="report of ana"))) as holder:
        holder.execute("CREATE TABLE public.things AS SELECT 1 AS number")
        holder.commit()
        holder.execute(held.replace("things", "public.things"))
        waiting = threading.Thread(target=want)
        waiting.start()
        logged = wait_for(lambda: caplog.messages)
        waiting.join(1.0)
        holder.rollback()
        holder.execute("SELECT pg_advisory_unlock_all()")
        waiting.join()
        process = holder.info.backend_pid

    (message,) = logged
    assert re.fullmatch(
        rf"waiting for the lock of {name} since [\d:]+ UTC; it is held by report of ana \(user postgres, process "
        rf"{process} of PostgreSQL, since [\d:]+ UTC\)\. .*pg_terminate_backend\({process}\)",
        message,
    )
    assert caplog.messages == logged


def test_nothing_is_logged_of_short_waits_or_long_work(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7), pg_sleep(1)")

    assert caplog.messages == []


NAME = "orders|us-1|2026-03"


def is_taken(database: Database, key: str) -> bool:
    """Return whether another connection holds the lock of a key, which is an SQL expression."""
    return not database.execute(text(f"SELECT pg_try_advisory_xact_lock({key})")).scalar_one()


NAMED = f"hashtextextended('{NAME}', 0)"


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
    assert database.execute(text("SELECT to_regclass('seller.half_done')")).scalar_one() is None
