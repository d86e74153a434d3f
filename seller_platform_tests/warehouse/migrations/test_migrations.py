"""Tests that all migrations create today's tables, and that they keep stored rows."""

from pathlib import Path
from runpy import run_path
from shutil import copytree, ignore_patterns

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from seller_platform.contract import DATASETS
from seller_platform.errors import SchemaVersionError
from seller_platform.warehouse import migrations
from seller_platform.warehouse.postgres.database import VERSION_SCHEMA, VERSION_TABLE, Database, revisions
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema import service_tables
from seller_platform.warehouse.schema.tables import METADATA
from seller_platform_tests.migration import write_migration
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the migrations, for tests that add one."""
    folder = tmp_path / "100 % migrations"
    return Path(copytree(Path(migrations.__file__).parent, folder, ignore=ignore_patterns("__pycache__")))


def test_all_migrations_on_an_empty_database_give_todays_tables(database: Database, folder: Path) -> None:
    lacking = write_migration(database, "Lacking", folder)

    assert service_tables.USERS.key in METADATA.tables
    assert lacking is None, lacking.read_text()


def test_the_next_migration_is_written_from_what_the_tables_lack(database: Database, folder: Path) -> None:
    with database.begin() as connection:
        connection.execute(text("DROP TABLE seller.inbound_shipments CASCADE"))
        connection.execute(text("ALTER TABLE service.users ALTER status DROP DEFAULT"))

    written = write_migration(database, "Inbound shipments", folder)

    assert written is not None
    assert written.name == f"{int(revisions()[-1]) + 1:04d}_inbound_shipments.py"
    with database.begin() as connection, Operations.context(MigrationContext.configure(connection)):
        run_path(str(written))["upgrade"]()
    written.unlink()
    assert write_migration(database, "Nothing", folder) is None


def test_the_migrations_are_known_by_the_numbers_of_their_files(database: Database) -> None:
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))

    assert tuple(script.revision for script in scripts.walk_revisions())[::-1] == revisions()
    assert database.version() == scripts.get_current_head() == revisions()[-1]


def test_migrating_twice_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO platform.connections VALUES ('a', 'b', 'c', 'd')"))

    database.migrate()

    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM platform.connections")).scalar_one() == 1


def test_a_database_of_a_newer_version_is_not_changed(database: Database) -> None:
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
        with Database(url) as database:
            database.migrate()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(migrate, range(4)))

    with Database(url) as database, database.begin() as connection:
        versions = connection.execute(text(f"SELECT count(*) FROM {VERSION_SCHEMA}.{VERSION_TABLE}")).scalar_one()
    drop_database(postgres, "migrated_together")
    assert versions == 1


def test_an_upgrade_from_the_first_migration_loses_nothing(postgres: EmbeddedServer) -> None:
    url = postgres.database("upgraded")
    with Database(url) as database:
        database.migrate(to="0001")
        with database.begin() as connection:
            connection.execute(text("SET session_replication_role = replica"))  # rows in any order, keys or not
            tables = connection.execute(text(_TABLES)).scalars().all()
            for table in tables:
                _insert_a_row(connection, table)
            before = {table: _rows(connection, table) for table in tables}

        database.migrate()

        with database.begin() as connection:
            after = {table: _rows(connection, table) for table in tables}
    drop_database(postgres, "upgraded")
    assert {table for table, rows in before.items() if len(rows) != 1} == set()
    for table, rows in before.items():
        assert rows[0].items() <= after[table][0].items(), table


_TABLES = """
SELECT table_schema || '.' || table_name FROM information_schema.tables
WHERE table_schema IN ('seller', 'platform', 'service') AND table_type = 'BASE TABLE'
  AND table_name <> 'schema_version' AND table_name NOT LIKE 'procrastinate%'
ORDER BY 1
"""
_VALUES = {
    "bigint": "7",
    "integer": "7",
    "numeric": "12.34",
    "boolean": "true",
    "date": "'2026-03-01'",
    "timestamp with time zone": "'2026-03-01 10:00+01'",
    "jsonb": "'{\"a\": [1.10]}'",
    "bytea": "'\\x00ff'",
    "ARRAY": "'{}'",
    "uuid": "'00000000-0000-0000-0000-000000000001'",
}


def _insert_a_row(connection: Connection, table: str) -> None:
    schema, _, name = table.partition(".")
    columns = connection.execute(
        text(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = :schema AND table_name = :name AND is_generated = 'NEVER'"
        ),
        {"schema": schema, "name": name},
    ).all()
    values = ", ".join(f"{_VALUES.get(kind, repr('ünï'))}" for _, kind in columns)
    names = ", ".join(f'"{column}"' for column, _ in columns)
    connection.execute(
        text(f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE VALUES ({values})".replace(":", "\\:"))
    )


def _rows(connection: Connection, table: str) -> list[dict[str, object]]:
    return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]


def test_marts_that_gain_net_profit_are_built_again(postgres: EmbeddedServer) -> None:
    url = postgres.database("before_net_profit")
    with Database(url) as database:
        database.migrate(to="0019")
        with database.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO marts.cost_coverage (month, sku, currency, units, product_sales, units_without_cost, "
                    "sales_without_cost, days_sold, days_without_cost, account, build_id) "
                    "VALUES ('2026-03-01', 'A', 'USD', 1, 1, 0, 0, 1, 0, 'S1.US', 2);"
                    "INSERT INTO marts.account_profit_daily (local_day, currency, units, product_sales, taxes, "
                    "shipping_credits, rebates, refunds, platform_fees, units_without_cost, sales_without_cost, "
                    "account, build_id) VALUES ('2026-03-01', 'USD', 1, 1, 0, 0, 0, 0, 0, 0, 0, 'S1.US', 1);"
                    "INSERT INTO platform.mart_builds (mart, account, rows, digest, parameters, loads, started_at, "
                    "finished_at) SELECT mart, 'S1.US', 1, '', '{}', '{}', now(), now() "
                    "FROM unnest(ARRAY['account_profit_daily', 'cost_coverage']) AS mart"
                )
            )

        database.migrate()

        with database.begin() as connection:
            assert connection.execute(text("SELECT mart FROM platform.mart_builds")).scalars().all() == [
                "cost_coverage"
            ]
            assert connection.execute(text("SELECT count(*) FROM marts.account_profit_daily")).scalar_one() == 0
            assert connection.execute(text("SELECT count(*) FROM marts.cost_coverage")).scalar_one() == 1
    drop_database(postgres, "before_net_profit")
