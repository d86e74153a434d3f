"""Tests that no setting around a connection changes what is stored, and what is refused instead."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import WarehouseError
from seller_platform.orchestration.storage import PooledPostgresStorage
from seller_platform.service.pool import Connection
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.backup import back_up, restore
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.health import check_health
from seller_platform.warehouse.postgres.root_user import is_root, server_user
from seller_platform.warehouse.postgres.sessions import SETTINGS
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import answers, drop_database
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.served import with_connection
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.stored_rows import store_slice
from seller_platform_tests.support.system_postgres import SYSTEM_SERVERS, system_server
from seller_platform_tests.support.waiting import wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run


@contextmanager
def pgbouncer(folder: Path, sockets: Path, database: str, mode: str, **settings: str) -> Iterator[str]:
    """Run PgBouncer in front of a database, and yield its URL.

    Args:
        folder: A folder that every user can pass through.
        sockets: The folder of the socket of the server, where everybody may connect.
        mode: `session` or `transaction`.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        skip_except_in_ci("PgBouncer is not installed: it is the package pgbouncer of Debian")
    port, user = free_port(), server_user() if is_root() else None
    (folder / "users").write_text('"postgres" ""\n')
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": str(folder / "users"),
        "pool_mode": mode,
        **settings,
    }
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    (folder / "pooler.ini").write_text(f"[databases]\n{database} = host={sockets}\n[pgbouncer]\n{text}")
    # As root it does not start.
    other: dict[str, Any] = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}
    with subprocess.Popen(
        [program, "--quiet", str(folder / "pooler.ini")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **other
    ) as process:
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/{database}"
            wait_for(lambda: answers(url))
            yield url
        finally:
            process.terminate()


ORDERS = dataset_named("orders")
HOSTILE = {
    "client_encoding": "LATIN1",
    "DateStyle": "SQL, DMY",
    "TimeZone": "Asia/Tokyo",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-15",
    "search_path": "elsewhere, pg_catalog",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "array_nulls": "off",
    "transform_null_equals": "on",
}
OWN_VARIABLES = {"client_encoding": "PGCLIENTENCODING", "DateStyle": "PGDATESTYLE", "TimeZone": "PGTZ"}
LEVELS = ("variable", "options", "role", "database")
MARCH = Window.month_of(date(2026, 3, 1))
TEXTS = ("CAFÉ-1", "東京ストア", "a\\nb'\"\t", "NULL", "€")
ROWS = [
    (value, "2026-03-02T10:00:00.123456-08:00", "", Decimal("0.10"), "USD", 1, value, None, value, "2026-03-02")
    for value in TEXTS
]
ROLE = "garbled"


@pytest.fixture
def garbled_url(database_url: str, postgres: EmbeddedServer) -> Iterator[str]:
    """The URL of the test's database for a role of its own."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE} LOGIN SUPERUSER")
        yield database_url.replace("postgres@", f"{ROLE}@")
        connection.execute(f"DROP ROLE {ROLE}")


def _garble(url: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change settings for new connections, by the environment, or for their role or database."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in HOSTILE.items():
            if level in ("role", "database"):
                target = sql.Identifier(ROLE if level == "role" else connection.info.dbname)
                statement = sql.SQL(f"ALTER {level} {{}} SET {{}} = {value if ',' in value else repr(value)}")
                connection.execute(statement.format(target, sql.Identifier(name)))
    escaped = {name: value.replace(" ", "\\ ") for name, value in HOSTILE.items()}
    if level == "options":
        monkeypatch.setenv("PGOPTIONS", " ".join(f"-c {name}={value}" for name, value in escaped.items()))
    elif level == "variable":
        for name, variable in OWN_VARIABLES.items():
            monkeypatch.setenv(variable, HOSTILE[name])


def _content(url: str) -> list[Any]:
    given = make_conninfo(url, client_encoding="UTF8", options="-c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex")
    with psycopg.connect(given) as connection:
        rows = "SELECT to_jsonb(stored) - 'load_id' FROM seller.orders AS stored ORDER BY platform_order_id"
        return connection.execute(rows).fetchall()


_SHOWN = (*SETTINGS, "client_encoding")


async def _of_the_service(connection: Connection) -> dict[str, str]:
    return {name: (await (await connection.execute(f"SHOW {name}")).fetchone() or ("",))[0] for name in _SHOWN}


def _of_an_engine(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        return {name: connection.exec_driver_sql(f"SHOW {name}").one()[0] for name in _SHOWN}


@pytest.mark.parametrize("level", LEVELS)
def test_connections_begin_with_equal_settings(garbled_url: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _garble(garbled_url, level, monkeypatch)

    with Database(f"{garbled_url}&options=-csearch_path%3Delsewhere&client_encoding=LATIN1") as database:
        shown = {"ours": _of_an_engine(database.engine)}
    shown["service"] = with_connection(garbled_url, _of_the_service)
    storage = PooledPostgresStorage(garbled_url, False, schema="dagster")
    for part in (storage._run_storage, storage._event_log_storage):
        shown[type(part).__name__] = _of_an_engine(part._engine) | {"search_path": ""}
        part._engine.dispose()

    expected = {**SETTINGS, "client_encoding": "UTF8", "DateStyle": "ISO, MDY"}
    assert shown == dict.fromkeys(shown, expected)


def test_a_backup_under_garbling_settings_has_all_rows(
    garbled_url: str, postgres: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database(garbled_url) as database:
        store_slice(database, ORDERS, MARCH, ROWS)
    content = _content(garbled_url)
    for level in LEVELS:
        _garble(garbled_url, level, monkeypatch)
    restored = postgres.database("garbled_restored")
    try:
        back_up(garbled_url, tmp_path / "dump")
        restore(restored, tmp_path / "dump")

        assert _content(restored) == content
    finally:
        drop_database(postgres, "garbled_restored")


@pytest.fixture(scope="module")
def own_server() -> Iterator[Path]:
    """The folder of the socket of a server where everybody may connect."""
    if not SYSTEM_SERVERS:
        skip_except_in_ci("PostgreSQL is not installed")
    with temporary_folder(folder_of_the_run()) as folder, system_server(SYSTEM_SERVERS[0], folder) as sockets:
        yield sockets


@pytest.mark.parametrize(
    ("mode", "settings", "problem"),
    [
        ("transaction", {"ignore_startup_parameters": "options"}, "in transaction mode"),
        ("transaction", {}, "unsupported startup parameter: options"),
        ("session", {"ignore_startup_parameters": "options"}, "connections begin with .*, and the server has"),
    ],
)
def test_a_pooler_that_changes_sessions_is_refused(
    own_server: Path, mode: str, settings: dict[str, str], problem: str
) -> None:
    with temporary_folder(folder_of_the_run()) as folder:
        folder.chmod(0o755)
        with pgbouncer(folder, own_server, "postgres", mode, **settings) as url, Database(url) as database:
            for bring_up in (migrate, check_health):
                with pytest.raises(WarehouseError, match=f"PgBouncer.*{problem}.*SELLER_PLATFORM_DATABASE_URL"):
                    bring_up(database)
