"""Migrations: all of them on an empty database give today's tables, and data survives them."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from seller_platform.contract import DATASETS
from seller_platform.errors import SchemaVersionError
from seller_platform.warehouse import service_tables
from seller_platform.warehouse.database import VERSION_SCHEMA, VERSION_TABLE, Database, is_declared
from seller_platform.warehouse.server import EmbeddedServer
from seller_platform.warehouse.tables import METADATA


def test_all_migrations_on_an_empty_database_give_todays_tables(database: Database) -> None:
    assert service_tables.USERS.key in METADATA.tables
    options = {
        "include_schemas": True,
        "include_name": is_declared,
        "version_table": VERSION_TABLE,
        "version_table_schema": VERSION_SCHEMA,
        "compare_server_default": True,
    }

    with database.begin() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)

    assert differences == []


def test_migrating_twice_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO platform.connections VALUES ('a', 'b', 'c', 'd')"))

    database.migrate()

    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM platform.connections")).scalar_one() == 1


def test_a_database_from_the_future_is_left_alone(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET version_num = '9999'"))

    with pytest.raises(SchemaVersionError, match="9999"):
        database.migrate()


def test_every_dataset_has_a_table_and_every_column_a_sentence(database: Database) -> None:
    with database.begin() as connection:
        uncommented = connection.execute(
            text(
                "SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c "
                "WHERE table_schema = 'seller' "
                "AND col_description((table_schema || '.' || table_name)::regclass, ordinal_position) IS NULL"
            )
        ).scalars()
        tables = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'seller'")).scalars()

        assert list(uncommented) == []
        assert set(tables) == {dataset.name for dataset in DATASETS}


def test_processes_that_migrate_together_wait_for_one_another(postgres: EmbeddedServer) -> None:
    from concurrent.futures import ThreadPoolExecutor

    url = postgres.database("migrated_together")

    def migrate(_: int) -> None:
        with Database(url) as each:
            each.migrate()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(migrate, range(4)))

    with Database(url) as database, database.begin() as connection:
        versions = connection.execute(text(f"SELECT count(*) FROM {VERSION_SCHEMA}.{VERSION_TABLE}")).scalar_one()
    postgres.drop_database("migrated_together")
    assert versions == 1
