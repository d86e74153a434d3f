"""Tests the URI of a database, options of its connections, what interrupts a statement, and advisory locks."""

import signal

import pytest
from sqlalchemy import text

from seller_platform.warehouse.postgres.advisory_locks import releasing, try_hold
from seller_platform.warehouse.postgres.database import Database, driver_of


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("postgresql://me:canary@db.example:6432/warehouse", "postgres://db.example:6432/warehouse"),
        ("postgresql://me:canary@db.example/warehouse", "postgres://db.example:5432/warehouse"),
        ("postgresql://me:canary@/warehouse?host=/run/pg", "postgres:///warehouse"),
        ("postgresql://me@/warehouse?host=one&host=two&password=canary", "postgres://one:5432/warehouse"),
    ],
)
def test_the_uri_of_a_database_names_server_and_database_but_no_user(url: str, uri: str) -> None:
    with Database(url) as database:
        assert database.uri == uri


class _EndOfARun(BaseException):
    """Like that of Dagster: psycopg knows only that of Python."""


def test_what_interrupts_a_statement_is_raised(database: Database) -> None:
    def end(*_: object) -> None:
        raise _EndOfARun

    before = signal.signal(signal.SIGALRM, end)
    try:
        with pytest.raises(_EndOfARun), database.begin() as connection:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            driver_of(connection).execute("SELECT pg_sleep(20)")
    finally:
        signal.signal(signal.SIGALRM, before)

    assert database.execute(text("SELECT 1")).scalar() == 1


def test_locks_of_a_lost_machine_end_after_a_minute(database_url: str) -> None:
    query = "SELECT name FROM pg_settings WHERE source = 'client' AND name LIKE 'tcp_keepalives%'"
    given = "SELECT current_setting('work_mem')"
    with Database(f"{database_url}&options=-cwork_mem%3D5MB") as database, database.begin() as connection:
        settings = {*connection.exec_driver_sql(query.replace("%", "%%")).scalars()}

        assert settings == {f"tcp_keepalives_{name}" for name in ("idle", "interval", "count")}
        assert connection.exec_driver_sql(given).scalar_one() == "5MB"


NAME = "orders|us-1|2026-03"
NAMED = f"hashtextextended('{NAME}', 0)"


def is_taken(database: Database, key: str) -> bool:
    """Return whether another connection holds the lock of a key, which is an SQL expression."""
    return not database.execute(text(f"SELECT pg_try_advisory_xact_lock({key})")).scalar_one()


def test_a_block_that_fails_releases_its_locks_and_rolls_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.connect() as connection, releasing(connection):
        assert try_hold(connection, NAME)
        connection.commit()
        connection.execute(text("CREATE TABLE seller.half_done (id integer)"))
        raise ZeroDivisionError

    assert not is_taken(database, NAMED)
    assert database.execute(text("SELECT to_regclass('seller.half_done')")).scalar_one() is None
