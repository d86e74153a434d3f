"""Tests that a new database has the declared tables, and that another version's is left alone or upgraded."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from seller_platform.errors import WarehouseError
from seller_platform.warehouse.migrations.upgrade import released, upgrade
from seller_platform.warehouse.postgres.database import (
    VERSION_SCHEMA,
    VERSION_TABLE,
    Database,
    is_declared,
    revisions,
)
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.health import check_health
from seller_platform.warehouse.schema.tables import METADATA
from seller_platform_tests.next_versions import migrations
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow

_STAMP = f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET version_num = :version, compatible_from = :compatible_from"
_INVALID = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE NOT indisvalid
"""


def test_a_new_database_has_the_declared_tables(database: Database) -> None:
    options = {
        "include_schemas": True,
        "include_name": is_declared,
        "compare_server_default": True,
        "version_table": VERSION_TABLE,
        "version_table_schema": VERSION_SCHEMA,
    }

    with database.begin() as connection:
        lacking = compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)

    assert "service.users" in METADATA.tables
    assert lacking == []


def test_migrations_follow_one_another(database: Database) -> None:
    numbers = [migration.revision for migration in migrations()]

    assert [migration.revision for migration in released()] == list(revisions()) == numbers[: len(revisions())]
    assert numbers == [str(int(numbers[0]) + count) for count in range(len(numbers))]
    assert all(migration.compatible_from <= migration.revision for migration in migrations())
    assert database.version() == revisions()[-1]


def test_migrating_twice_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO platform.connections VALUES ('a', 'b', 'c', 'd')"))

    database.migrate()

    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM platform.connections")).scalar_one() == 1


@pytest.mark.parametrize(("version", "age"), [("9999", "does not know"), ("0101", "before the first release")])
def test_a_database_of_another_version_is_not_changed(database: Database, version: str, age: str) -> None:
    with database.begin() as connection:
        connection.execute(text(_STAMP), {"version": version, "compatible_from": version})

    with pytest.raises(WarehouseError, match=f"{version}, .*{age}"):
        database.migrate()

    assert database.version() == version
    assert not check_health(database).is_known_schema


def test_programs_of_this_version_go_on_with_newer_tables(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text(_STAMP), {"version": "9999", "compatible_from": revisions()[-1]})

    database.migrate()

    assert database.version() == "9999"
    assert check_health(database).is_known_schema


def test_the_next_version_adds_columns_and_an_index(database: Database) -> None:
    lines: list[str] = []

    upgrade(database, report=lines.append, migrations=migrations(1))

    with database.begin() as connection:
        assert connection.execute(text("SELECT is_gift FROM history.orders_as_of(now())")).all() == []
        assert connection.execute(text("SELECT asked_by FROM platform.readings")).all() == []
        assert connection.execute(text(_INVALID)).all() == []
    assert database.version() == "1001"
    assert lines[1:] == [f"1001: {step}" for step in migrations(1)[-1].steps]
    database.migrate()
    assert database.version() == "1001"


def test_processes_that_migrate_together_wait_for_one_another(postgres: EmbeddedServer) -> None:
    url = postgres.database("migrated_together")

    def migrate(number: int) -> None:
        with Database(url, connections=1) as database:
            database.migrate()
            upgrade(database, migrations=migrations())

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(migrate, range(4)))

    with Database(url) as database, database.begin() as connection:
        versions = connection.execute(text(f"SELECT version_num FROM {VERSION_SCHEMA}.{VERSION_TABLE}")).scalars().all()
    drop_database(postgres, "migrated_together")
    assert versions == [migrations()[-1].revision]
