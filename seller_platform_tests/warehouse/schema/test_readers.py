"""Tests that a reader reads the tables for people, and that every write and every secret is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

from seller_platform.errors import ReaderError, WarehouseError
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.backup import back_up, restore
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema.readers import (
    READABLE_SCHEMAS,
    grant_to_readers,
    readable_of_platform,
    readers_of,
    remove_reader,
    save_reader,
)
from seller_platform_tests.support.dagster_instance import postgres_instance
from seller_platform_tests.support.postgres import copied, drop_database

PASSWORD = "correct horse battery"

# The tables and views of the schemas seller, history and marts are readable, whatever their names.
NOT_READABLE = {
    "platform": {
        "alerts",
        "connections",
        "grants",
        "kept_settledness",
        "known_pages",
        "schema_version",
        "sent_requests",
    },
    "service": {
        *("access_tokens", "account_group_members", "account_groups", "applications", "authorization_codes"),
        *("authorizations", "changed_months", "cost_steps", "cost_versions", "daily_counts", "day_sums"),
        *("exchange_rates", "idempotency_keys", "login_attempts", "product_days", "product_months"),
        *("products", "refresh_tokens", "report_chunks", "report_jobs", "reset_links", "security_events"),
        *("sessions", "status", "summaries", "unsummed_loads", "user_accounts", "users"),
    },
}

_TABLES = """
SELECT nspname, relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind IN ('r', 'v', 'm', 'p', 'f') AND NOT relispartition
  AND nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
ORDER BY 1, 2
"""

# The last two: a view is no table, and has no rows of its own.
_REFUSED = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.WrongObjectType,
    psycopg.errors.ObjectNotInPrerequisiteState,
)


@pytest.fixture(scope="module")
def warehouse(postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A migrated database with Dagster's tables in it."""
    url = copied(postgres, "of_readers")
    with postgres_instance(url, tmp_path_factory.mktemp("dagster")), Database(url) as database:
        yield database
    drop_database(postgres, "of_readers")


@pytest.fixture
def ana(warehouse: Database) -> Iterator[str]:
    """A reader, which is removed after the test."""
    save_reader(warehouse, "ana", PASSWORD)
    yield "ana"
    remove_reader(warehouse, "ana")


def _connect(database: Database, user: str) -> psycopg.Connection[Any]:
    return psycopg.connect(database.url_of_user(user), autocommit=True)


def _tables(database: Database) -> list[tuple[str, str]]:
    with psycopg.connect(database.url) as connection:
        return [(schema, name) for schema, name in connection.execute(_TABLES).fetchall()]


def test_every_table_is_either_readable_or_not(warehouse: Database, ana: str) -> None:
    tables = _tables(warehouse)
    read, refused = set(), set()

    with _connect(warehouse, ana) as connection:
        for table in tables:
            try:
                connection.execute(sql.SQL("SELECT * FROM {} LIMIT 1").format(sql.Identifier(*table)))
                read.add(table)
            except psycopg.errors.InsufficientPrivilege:
                refused.add(table)

    readable = {table for table in tables if table[0] in READABLE_SCHEMAS}
    readable |= {("platform", name) for name in readable_of_platform()}
    of_dagster = {table for table in tables if table[0] == "dagster"}
    assert read == readable
    listed = {(schema, name) for schema, names in NOT_READABLE.items() for name in names}
    assert refused == (listed & {*tables}) | of_dagster, (
        "decide of each new table whether readers may read it: is_readable or NOT_READABLE"
    )
    assert ("dagster", "event_logs") in of_dagster


def test_every_write_is_refused_even_in_a_transaction_that_may_write(warehouse: Database, ana: str) -> None:
    granted = []

    with _connect(warehouse, ana) as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TEMPORARY TABLE copied (n int)")
        connection.execute("SET default_transaction_read_only = off")
        for schema, name in _tables(warehouse):
            table = sql.Identifier(schema, name)
            for statement in ("DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES", "TRUNCATE {}", "DROP TABLE {}"):
                try:
                    connection.execute(sql.SQL(statement).format(table))
                    granted.append((statement, schema, name))
                except _REFUSED:
                    pass
        for statement in ("CREATE TABLE seller.mine (n int)", "CREATE SCHEMA mine", "CREATE ROLE other"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)

    assert granted == []


def test_a_reader_has_limits(warehouse: Database, ana: str) -> None:
    with _connect(warehouse, ana) as connection:
        names = ("default_transaction_read_only", "statement_timeout", "idle_in_transaction_session_timeout")
        values = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in names]
        limit = connection.execute("SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user").fetchone()

    assert values == [("on",), ("5min",), ("5min",)]
    assert limit == (10,)


def test_new_tables_are_readable_after_an_upgrade(warehouse: Database, ana: str) -> None:
    with warehouse.begin() as connection:
        connection.execute(text("CREATE TABLE marts.new_one (n int)"))
        grant_to_readers(connection)
        assert readers_of(connection) == [ana]

    with _connect(warehouse, ana) as reading:
        assert reading.execute("SELECT * FROM marts.new_one").fetchall() == []
    warehouse.execute(text("DROP TABLE marts.new_one"))


@pytest.mark.parametrize(
    ("name", "password", "problem"),
    [
        ("postgres", PASSWORD, "was not made for reading. Choose another name"),
        ("pg_ana", PASSWORD, "is no name for a reader"),
        ("ana; DROP", PASSWORD, "is no name for a reader"),
        ("public", PASSWORD, "is no name for a reader"),
        ("bob", "short", "at least 12 printable characters"),
    ],
)
def test_names_and_passwords_that_cannot_be_used_are_refused(
    warehouse: Database, name: str, password: str, problem: str
) -> None:
    with pytest.raises(ReaderError, match=problem) as raised:
        save_reader(warehouse, name, password)

    assert password not in str(raised.value)


def test_a_removed_reader_has_no_role_and_no_grant(warehouse: Database) -> None:
    save_reader(warehouse, "bob", PASSWORD)

    remove_reader(warehouse, "bob")

    with pytest.raises(psycopg.OperationalError, match='role "bob" does not exist'):
        _connect(warehouse, "bob")
    with pytest.raises(ReaderError, match="'bob' is no role of this server"):
        remove_reader(warehouse, "bob")
    with pytest.raises(ReaderError, match="was not made for reading"):
        remove_reader(warehouse, "postgres")


@pytest.mark.slow
def test_a_backup_is_restored_with_the_grants_of_roles_that_exist(
    warehouse: Database, ana: str, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    save_reader(warehouse, "bob", PASSWORD)
    # As for the embedded server.
    warehouse.execute(text("REVOKE EXECUTE ON FUNCTION pg_advisory_lock(bigint) FROM PUBLIC"))
    back_up(warehouse.url, tmp_path / "backup")
    remove_reader(warehouse, "bob")

    url = postgres.database("of_readers_restored")
    left_out = restore(url, tmp_path / "backup")

    assert left_out == ['role "bob" does not exist']
    with Database(url) as restored:
        with restored.begin() as connection:
            assert readers_of(connection) == [ana]
        with _connect(restored, ana) as reading:
            assert reading.execute("SELECT * FROM seller.inventory_latest").fetchall() == []
            reading.execute("SELECT pg_advisory_lock(1)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reading.execute("SELECT * FROM platform.grants")
    drop_database(postgres, "of_readers_restored")


@pytest.fixture
def owned(postgres: EmbeddedServer) -> Iterator[Database]:
    """A database of an owner who may not create roles."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as administrator:
        administrator.execute("CREATE ROLE owner_of_tables LOGIN")
        administrator.execute("CREATE DATABASE of_owner OWNER owner_of_tables")
        with Database(postgres.url("of_owner")) as as_administrator:
            url = as_administrator.url_of_user("owner_of_tables")
        with Database(url) as database:
            migrate(database)
            yield database
        drop_database(postgres, "of_owner")
        administrator.execute("DROP ROLE owner_of_tables")


@pytest.mark.slow
def test_without_the_right_to_create_roles_an_administrator_does_it(owned: Database, postgres: EmbeddedServer) -> None:
    with pytest.raises(WarehouseError, match="Let an administrator") as raised:
        save_reader(owned, "carla", PASSWORD)

    assert PASSWORD not in str(raised.value)
    with psycopg.connect(postgres.url("of_owner"), autocommit=True) as administrator:
        *statements, last = lines_for_psql(raised.value)
        for statement in statements:
            administrator.execute(statement.encode())
    assert last == "\\password carla"
    assert not save_reader(owned, "carla", PASSWORD)
    with _connect(owned, "carla") as connection:
        assert connection.execute("SELECT * FROM seller.orders").fetchall() == []
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5min",)
    with pytest.raises(WarehouseError, match="DROP ROLE") as undropped:
        remove_reader(owned, "carla")
    with psycopg.connect(postgres.url("of_owner"), autocommit=True) as administrator:
        administrator.execute(lines_for_psql(undropped.value)[0].encode())


def lines_for_psql(error: WarehouseError) -> list[str]:
    """Return the lines that a message tells an administrator to type."""
    return [line.strip() for line in str(error).splitlines()[1:]]
