"""Tests that a new database has the declared tables, and that another version's is left alone or upgraded."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import WarehouseError
from seller_platform.warehouse.migrations.plans import PlannedStep, raise_without_room
from seller_platform.warehouse.migrations.short_locks import ShortLocks
from seller_platform.warehouse.migrations.steps import AddIndex
from seller_platform.warehouse.migrations.upgrade import plan, released, upgrade
from seller_platform.warehouse.postgres.database import (
    VERSION_SCHEMA,
    VERSION_TABLE,
    Database,
    driver_of,
    is_declared,
    revisions,
)
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.health import check_health
from seller_platform.warehouse.schema.tables import METADATA
from seller_platform_tests.next_versions import migrations
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.served import execute, stored
from seller_platform_tests.support.stored_rows import store_slice
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_STAMP = f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET version_num = :version, compatible_from = :compatible_from"
_INVALID = """
SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE NOT indisvalid
"""
_ROWS_OF_PARTITION = """
SELECT tableoid::regclass::text, count(*)::integer FROM seller.orders GROUP BY 1 ORDER BY 2 LIMIT 1
"""
_DROPPING = "SELECT FROM pg_stat_activity WHERE starts_with(query, 'DROP INDEX')"


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
    assert migrations()[0].compatible_from <= numbers[0]
    assert database.version() == revisions()[-1]


def test_no_migration_of_a_minor_version_shuts_former_programs_out() -> None:
    """Only a major version may."""
    excluding = [each.revision for each in migrations()[1:] if each.compatible_from >= each.revision]

    assert excluding == []


def test_migrating_twice_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("INSERT INTO platform.connections VALUES ('a', 'b', 'c', 'd')"))

    database.migrate()

    with database.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM platform.connections")).scalar_one() == 1


@pytest.mark.parametrize(
    ("version", "age", "step"),
    [
        ("9999", "newer than this version can use", "Install the version"),
        ("0101", "before the first release", "connect --grant-of HOME"),
    ],
)
def test_a_database_of_another_version_is_not_changed(database: Database, version: str, age: str, step: str) -> None:
    with database.begin() as connection:
        connection.execute(text(_STAMP), {"version": version, "compatible_from": version})

    with pytest.raises(WarehouseError, match=f"{version}, .*{age}") as refusal:
        database.migrate()

    assert step in refusal.value.next_step
    assert ("SELLER_PLATFORM_HOME" in str(refusal.value)) is (version == "0101")
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
    assert {f"1001: {step}" for step in migrations(1)[-1].steps} <= set(lines)
    database.migrate()
    assert database.version() == "1001"


def test_an_index_whose_build_was_refused_a_lock_is_built_again(database: Database) -> None:
    """As after a deadlock, CREATE INDEX CONCURRENTLY leaves an invalid index."""
    step = AddIndex("platform.loads", "ix_loads_asked", "(account, finished_at)")
    with ThreadPoolExecutor(1) as threads, database.connect() as pooled:
        driver = driver_of(pooled.execution_options(isolation_level="AUTOCOMMIT"))
        driver.execute("SET lock_timeout = '50ms'")
        with database.begin() as other:
            other.execute(text("LOCK TABLE platform.loads IN ROW EXCLUSIVE MODE"))
            running = threads.submit(step.run, ShortLocks(driver), print)
            wait_for(lambda: running.done() or stored(database, _DROPPING))
        running.result()

        assert step.is_done(ShortLocks(driver))


def test_views_of_others_outlast_upgrades(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("CREATE VIEW public.mine AS SELECT account FROM history.orders_as_of(now())"))
        connection.execute(text("CREATE VIEW public.wrong AS SELECT * FROM platform.problems"))

    for number in (1, 2):
        upgrade(database, migrations=migrations(number))

    with database.begin() as connection:
        assert connection.execute(text("SELECT * FROM public.mine, public.wrong")).all() == []
        former = connection.execute(text("SELECT proname FROM pg_proc WHERE proname LIKE 'former%'")).scalars().all()
    assert [name.partition("_orders_")[2] for name in former] == ["as_of"]


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


def test_an_upgrade_says_before_it_starts_what_it_needs(database: Database) -> None:
    january = Window.month_of(date(2026, 1, 1))
    rows = [("305-1", "2026-01-02T12:00:00Z", "Shipped", "19.90", "EUR", 1, "SKU", "B0", None, "2026-01-02")] * 500
    store_slice(database, dataset_named("orders"), january, rows)
    lines: list[str] = []

    planned = {str(each.step): each for each in plan(database, migrations())}
    fill = planned["fill total_cents, order_series of seller.orders"]
    upgrade(database, report=lines.append, migrations=migrations())

    assert [line.partition(":")[0] for line in lines[: len(planned)]] == [each.revision for each in planned.values()]
    assert f"1002: {fill.step}: 500 rows, about 0 s and " in "".join(lines[: len(planned)])
    assert (fill.rows, fill.revision) == (500, "1002")
    assert fill.seconds > 0
    assert fill.disk_bytes > 500 * 100
    assert planned["add column is_gift to seller.orders"].disk_bytes == 0
    assert plan(database, migrations()) == []


def test_a_plan_after_an_interruption_measures_what_is_left(database: Database) -> None:
    january = Window.month_of(date(2026, 1, 1))
    row = ("305-1", "2026-01-02T12:00:00Z", "Shipped", "19.90", "EUR", 1, "SKU", "B0", None, "2026-01-02")
    for account in ("A.DE", "B.FR", "C.IT", "D.ES"):
        store_slice(database, dataset_named("orders"), january, [row] * 100, account)
    upgrade(database, migrations=migrations())
    execute(database, f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET version_num = '1001'")
    execute(database, "DROP INDEX seller.ix_orders_series")
    execute(
        database,
        """
        ALTER TABLE seller.orders DISABLE TRIGGER USER;
        UPDATE seller.orders SET total_cents = NULL WHERE account = 'A.DE'
        """,
    )
    with database.connect() as pooled:
        driver = driver_of(pooled.execution_options(isolation_level="AUTOCOMMIT"))
        ((part, left),) = stored(database, _ROWS_OF_PARTITION)
        index = f"{part.partition('.')[2]}_ix_orders_series"
        driver.execute(f"CREATE INDEX {index} ON {part} (account, order_series)")

    planned = {str(each.step).partition(" ")[0]: each for each in plan(database, migrations())}

    assert {words: each.rows for words, each in planned.items()} == {"fill": 100, "build": 400 - left}
    assert planned["fill"].disk_bytes > 100 * 50


def test_an_upgrade_without_room_on_the_disk_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        step = migrations()[-1].steps[0]
        locks = ShortLocks(driver_of(connection))
        with pytest.raises(WarehouseError, match=r"needs .* MiB of disk, and .* MiB are free\. Nothing was changed"):
            raise_without_room(locks, database.where, [PlannedStep("1002", step, 1, 1.0, 1 << 50)])
