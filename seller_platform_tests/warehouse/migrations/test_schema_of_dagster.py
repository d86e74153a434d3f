"""Tests that Dagster's tables are moved into their schema, while programs that use them continue."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import psycopg
import pytest
from dagster._core.storage.event_log import SqlEventLogStorageMetadata
from dagster._core.storage.runs.schema import RunStorageSqlMetadata
from dagster._core.storage.schedules.schema import ScheduleStorageSqlMetadata
from psycopg import sql

from seller_platform.errors import DagsterTablesError
from seller_platform.orchestration.instance.retention import prune_instance
from seller_platform.warehouse.postgres.dagster_tables import TABLES, stray_tables
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema.readers import MARK
from seller_platform_tests.orchestration.instance.test_retention import BEFORE
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow

KEY = dg.AssetKey("it")
BEFORE_THE_MOVE = "0019"
DATABASE = "former_dagster"
OURS = "custom: {module: seller_platform.orchestration.storage, class: PooledPostgresStorage, config: %s}"
PLAIN = "postgres: %s"

Opened = Callable[..., dg.DagsterInstance]


@pytest.fixture
def url(postgres: EmbeddedServer) -> Iterator[str]:
    """A database as the former version left it, without tables of Dagster."""
    url = postgres.database(DATABASE)
    with Database(url) as database:
        database.migrate(to=BEFORE_THE_MOVE)
        with database.begin() as connection:
            connection.exec_driver_sql("CREATE ROLE seller LOGIN SUPERUSER; CREATE ROLE clerk; CREATE ROLE reader")
    yield url
    drop_database(postgres, DATABASE)
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("DROP ROLE seller; DROP ROLE clerk; DROP ROLE reader")


@pytest.fixture
def open_instance(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens instances with a storage; they are closed after the test."""
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))

    def opened(storage: str, config: str, user: str = "postgres", database: str = DATABASE) -> dg.DagsterInstance:
        address = url.replace("postgres@", f"{user}@").replace(f"/{DATABASE}?", f"/{database}?")
        monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", address)
        config = config.replace("URL", address.replace("postgresql:", "postgresql+psycopg2:"))
        folder = tmp_path / f"instance{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / "dagster.yaml").write_text(f"storage:\n  {storage % config}\ntelemetry: {{enabled: false}}\n")
        return instances.enter_context(dg.DagsterInstance.from_config(str(folder)))

    with ExitStack() as instances:
        yield opened


def test_the_tables_of_dagster_are_known_by_name() -> None:
    parts = (SqlEventLogStorageMetadata, RunStorageSqlMetadata, ScheduleStorageSqlMetadata)

    assert {*TABLES} == {"alembic_version"} | {table.name for part in parts for table in part.tables.values()}


@pytest.mark.parametrize("storage", [OURS, PLAIN])
def test_a_program_that_runs_while_its_tables_are_moved_continues(
    url: str, open_instance: Opened, storage: str
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER DEFAULT PRIVILEGES FOR ROLE seller GRANT SELECT ON TABLES TO clerk")
    running = open_instance(storage, "{postgres_url: 'URL'}", user="seller")
    _store_everything(running, "before")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("COMMENT ON ROLE reader IS {}").format(sql.Literal(MARK)))
        connection.execute(
            "GRANT USAGE ON SCHEMA seller TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA seller TO reader"
        )

    with Database(url) as database:
        database.migrate()
    _store_everything(running, "after")
    late = open_instance(storage, "{postgres_url: 'URL'}", user="seller")
    moved = open_instance(OURS, "{}")

    for instance in (running, late, moved):
        assert [*instance.get_dynamic_partitions("accounts")] == ["before", "after"]
        assert {run.job_name for run in instance.get_runs()} == {"before", "after"}
        assert len(instance.fetch_materializations(KEY, limit=5).records) == 2
    with psycopg.connect(url) as connection:
        assert _schemas(connection, "r") == {"dagster"}
        assert _schemas(connection, "v") == {"seller"}
        assert _version(connection, "dagster") == _version(connection, "seller")
        connection.execute("SET ROLE clerk")
        assert connection.execute("SELECT count(*) FROM dagster.runs").fetchone() == (2,)
        connection.execute("SET ROLE reader")
        assert connection.execute("SELECT count(*) FROM seller.orders").fetchone() == (0,)
        for name in ("dagster.runs", "seller.runs"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(*name.split("."))))


def test_views_with_the_former_names_are_dropped_once_nothing_uses_them(url: str, open_instance: Opened) -> None:
    former = open_instance(PLAIN, "{postgres_url: 'URL'}", user="seller")
    _store_everything(former, "before")
    moved = open_instance(OURS, "{}", user="seller")
    explicit = open_instance(PLAIN, "{postgres_url: 'URL&options=-csearch_path%%3Ddagster'}".replace("%%", "%"))

    with psycopg.connect(url) as connection:
        prune_instance(former, before=BEFORE, dry=False)
        assert _schemas(connection, "v") == {"seller"}
        prune_instance(explicit, before=BEFORE, dry=True)
        assert _schemas(connection, "v") == {"seller"}
        prune_instance(explicit, before=BEFORE, dry=False)
        assert _schemas(connection, "v") == set()
    for instance in (moved, explicit):
        assert [run.job_name for run in instance.get_runs()] == ["before"]


def test_of_two_sets_of_tables_the_larger_is_moved_the_other_is_a_stray(url: str, open_instance: Opened) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA another")
    _store_everything(open_instance(OURS, "{postgres_url: 'URL', schema: another}"), "a")
    larger = open_instance(OURS, "{postgres_url: 'URL'}", user="seller")
    for name in ("b", "c"):
        _store_everything(larger, name)

    moved = open_instance(OURS, "{}")

    assert {run.job_name for run in moved.get_runs()} == {"b", "c"}
    with Database(url) as database, database.begin() as opened:
        (stray,) = stray_tables(opened)
    assert (stray.schema, [*stray.names]) == ("another", [*TABLES])


def test_tables_of_another_role_are_neither_moved_nor_replaced(
    postgres: EmbeddedServer, url: str, open_instance: Opened
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER ROLE clerk LOGIN")
        connection.execute("CREATE DATABASE of_clerk OWNER clerk")
    elsewhere = postgres.url("of_clerk")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute("CREATE TABLE public.event_logs (id bigint, dagster_event_type text)")
        connection.execute("CREATE TABLE public.runs (run_body text)")
        connection.execute("GRANT INSERT ON public.event_logs TO clerk")

    with pytest.raises(DagsterTablesError, match=r"not moved: public\.event_logs, public\.runs"):
        open_instance(OURS, "{}", user="clerk", database="of_clerk")

    drop_database(postgres, "of_clerk")


def _version(connection: psycopg.Connection, schema: str) -> object:
    statement = sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema, "alembic_version"))
    return connection.execute(statement).fetchone()


def _schemas(connection: psycopg.Connection, kind: str) -> set[str]:
    """Return the schemas with Dagster's tables (`r`) or views (`v`)."""
    statement = (
        "SELECT relnamespace::regnamespace::text FROM pg_class "
        "WHERE relname IN ('event_logs', 'runs', 'alembic_version') AND relkind = %s"
    )
    return {schema for (schema,) in connection.execute(statement, [kind])}


def _store_everything(instance: dg.DagsterInstance, name: str) -> None:
    instance.add_dynamic_partitions("accounts", [name])
    run = dg.DagsterRun(job_name=name, run_id=dg._core.utils.make_new_run_id(), tags={"name": name})
    instance.add_run(run)
    instance.report_run_failed(run, name)
    instance.report_runless_asset_event(dg.AssetMaterialization(KEY, tags={"name": name}))
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(asset_key=KEY, check_name=name, passed=True))
    instance.run_storage.set_cursor_values({"name": name})
    assert instance.run_storage.get_cursor_values({"name"}) == {"name": name}
