"""Tests that a new database has the declared tables, and how the next migration is written."""

from datetime import date
from pathlib import Path
from runpy import run_path
from shutil import copytree, ignore_patterns

import pytest
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import text

from seller_platform.contract import Window
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform.errors import WarehouseError
from seller_platform.warehouse import migrations
from seller_platform.warehouse.postgres.database import (
    IS_NEW,
    PARTITIONS,
    VERSION_SCHEMA,
    VERSION_TABLE,
    Database,
    revisions,
)
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema import service_tables
from seller_platform.warehouse.schema.tables import METADATA
from seller_platform_tests.migration import write_migration
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.receipts import mark_loaded

pytestmark = pytest.mark.slow

_PARTS_OF_THE_QUEUE = """
SELECT typname FROM pg_type WHERE typname LIKE 'procrastinate%'
UNION ALL SELECT proname FROM pg_proc WHERE proname LIKE 'procrastinate%'
"""
_BEFORE_SLICES = f"""
DROP TRIGGER keep_slice ON platform.loads;
DROP TABLE platform.derived_partitions CASCADE; DROP TABLE platform.slices CASCADE;
DROP VIEW platform.published_loads CASCADE;
CREATE TABLE platform.refusals (dataset text, account text, month text, error text NOT NULL, message text NOT NULL,
    since timestamptz NOT NULL, refused_at timestamptz NOT NULL, run_id text, requests integer NOT NULL DEFAULT 0,
    PRIMARY KEY (dataset, account, month));
INSERT INTO platform.refusals VALUES ('orders', 'A.DE', '2026-04', 'ListChangedError', 'It changed.', now(), now()),
    ('inventory', 'A.DE', '', 'CheckFailedError', 'It failed.', now(), now());
ALTER TABLE platform.mart_builds ADD snapshot pg_snapshot;
CREATE INDEX ix_mart_builds_next_transaction ON platform.mart_builds (pg_snapshot_xmax(snapshot));
DROP INDEX service.ix_report_jobs_open; ALTER TABLE service.report_jobs DROP leased_until;
CREATE TYPE service.procrastinate_state AS ENUM ('todo');
CREATE TABLE service.procrastinate_jobs (state service.procrastinate_state);
CREATE FUNCTION service.procrastinate_fetch(state service.procrastinate_state) RETURNS integer RETURN 1;
UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET version_num = '0100'
"""
"""Makes a database one of the first release: slices had no rows, and reports another queue."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the migrations, for tests that add one."""
    folder = tmp_path / "100 % migrations"
    return Path(copytree(Path(migrations.__file__).parent, folder, ignore=ignore_patterns("__pycache__")))


def test_a_new_database_has_the_declared_tables(database: Database, folder: Path) -> None:
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


def test_a_database_of_the_first_release_gets_slices_from_its_receipts(database: Database, folder: Path) -> None:
    march, april = Window(date(2026, 3, 1), date(2026, 4, 1)), Window(date(2026, 4, 1), date(2026, 4, 3))
    mark_loaded(database, ORDERS, "A.DE", march, april, april)
    rows = "SELECT dataset, account, month, load_id, rows, days_read, error FROM platform.slices ORDER BY 3"
    with database.begin() as connection:
        kept = connection.execute(text(rows)).all()
        for statement in _BEFORE_SLICES.split(";"):
            connection.execute(text(statement))

    database.migrate()

    with database.begin() as connection:
        filled = connection.execute(text(rows)).all()
    assert [row[:6] for row in filled[:2]] == [row[:6] for row in kept]
    assert [row.error for row in filled] == [None, "ListChangedError", "CheckFailedError"]
    assert filled[2].month is None
    assert write_migration(database, "Lacking", folder) is None
    with database.begin() as connection:
        assert connection.execute(text(_PARTS_OF_THE_QUEUE)).scalars().all() == []


def test_migrating_twice_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO platform.connections VALUES ('a', 'b', 'c', 'd')"))

    database.migrate()

    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM platform.connections")).scalar_one() == 1


@pytest.mark.parametrize(("version", "age"), [("9999", "does not know"), ("0026", "before the first release")])
def test_a_database_of_another_version_is_not_changed(database: Database, version: str, age: str) -> None:
    with database.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET version_num = '{version}'"))

    with pytest.raises(WarehouseError, match=f"{version}, .*{age}"):
        database.migrate()


def test_a_new_database_needs_none_of_the_migrations(postgres: EmbeddedServer, folder: Path) -> None:
    """The next migration adds what is declared already."""
    newest = revisions()[-1]
    number = f"{int(newest) + 1:04d}"
    (folder / "versions" / f"{number}_next.py").write_text(
        f'revision, down_revision = "{number}", "{newest}"\n\n\ndef upgrade() -> None:\n    raise AssertionError\n'
    )
    with Database(postgres.database("new")) as database, database.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {VERSION_SCHEMA}"))
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes.update({"connection": connection, IS_NEW: True, PARTITIONS: 1})
        command.stamp(config, "head")
        version = connection.execute(text(f"SELECT version_num FROM {VERSION_SCHEMA}.{VERSION_TABLE}")).scalar_one()
    drop_database(postgres, "new")

    assert version == number


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
