"""Tests that a backup is restored completely, in one transaction, or not at all."""

import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from seller_platform.contract import Window, dataset_named
from seller_platform.errors import BackupError, WarehouseUnavailableError
from seller_platform.warehouse.connections.accounts import KnownConnection, connections, save_connection
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.due import Derived, partition_states
from seller_platform.warehouse.migrations.pending import migrate, version_of
from seller_platform.warehouse.postgres.backup import back_up, restore
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.root_user import is_root, server_user
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import count_transactions, drop_database
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.stored_rows import execute, stored
from seller_platform_tests.support.system_postgres import SYSTEM_SERVERS, system_server
from seller_platform_tests.support.tls_proxy import write_certificate
from seller_platform_tests.support.watchdog import folder_of_the_run

pytestmark = pytest.mark.slow

DAILY, PROFIT = dataset_named("daily_product_sales"), mart_named("account_profit_daily")
ACCOUNT, MARCH = "us-1", Window.month_of(date(2026, 3, 1))
PASSWORD = "canary of a password"
ANA = KnownConnection("ana", "http://api", "http://auth", "client")


@pytest.fixture
def filled(database: Database) -> Database:
    save_connection(database, ANA)
    columns = "posted_date, description, amount, local_day, account, load_id, page"
    rows = "SELECT now(), 'ünï\n' || n, n / 100.0, DATE '2026-03-01', 'us-1', 1, 1 FROM generate_series(1, 500) n"
    database.execute(text(f"INSERT INTO seller.transactions ({columns}) {rows}"))
    return database


def test_a_restored_database_has_all_rows_of_the_backup(
    filled: Database, database_url: str, postgres: EmbeddedServer, tmp_path: Path
) -> None:
    file, elsewhere = tmp_path / "a backup", postgres.database("test_restored")

    for _ in range(2):
        back_up(database_url, file)
    restore(elsewhere, file)

    with Database(elsewhere) as restored:
        assert _transactions(restored) == _transactions(filled)
        assert connections(restored) == connections(filled)
        assert version_of(restored) == version_of(filled)
        migrate(restored)
        assert _definitions(restored) == _definitions(filled)
    drop_database(postgres, "test_restored")
    assert [(each.name, each.stat().st_mode & 0o777) for each in tmp_path.iterdir()] == [("a backup", 0o600)]


def _transactions(database: Database) -> list[tuple[object, ...]]:
    with database.begin() as connection:
        return list(map(tuple, connection.execute(text("SELECT * FROM seller.transactions ORDER BY amount"))))


def _definitions(database: Database) -> list[str]:
    """Return the indexes, keys and triggers."""
    parts = (
        "SELECT indexdef FROM pg_indexes WHERE schemaname NOT LIKE 'pg\\_%'",
        "SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint",
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    )
    return sorted(database.execute(text(" UNION ALL ".join(parts))).scalars())


def test_loads_are_in_order_on_a_new_server(database: Database, tmp_path: Path) -> None:
    def is_current(of: Database) -> bool:
        with of.begin() as connection:
            (state,) = partition_states(connection, Derived.of(PROFIT), [ACCOUNT], [MARCH])
        return state.is_current

    mark_loaded(database, DAILY, ACCOUNT, MARCH)
    count_transactions(database.url)
    mark_loaded(database, DAILY, ACCOUNT, MARCH)
    build_partition(database, PROFIT, ACCOUNT, MARCH)
    assert is_current(database)
    back_up(database.url, tmp_path / "backup")

    server = EmbeddedServer(tmp_path / "server")
    try:
        url = server.database("restored")
        restore(url, tmp_path / "backup")
        with Database(url) as restored:
            migrate(restored)
            are_visible = "SELECT DISTINCT pg_visible_in_snapshot(transaction_id, pg_current_snapshot())"
            seen = restored.execute(text(f"{are_visible} FROM platform.loads")).scalars().all()
            states = [is_current(restored)]
            build_partition(restored, PROFIT, ACCOUNT, MARCH)
            states.append(is_current(restored))
            migrate(restored)
            mark_loaded(restored, DAILY, ACCOUNT, MARCH)
            states.append(is_current(restored))
            numbers = restored.execute(text("SELECT transaction_id::text <> '0' FROM platform.loads ORDER BY id"))
            renumbered = numbers.scalars().all()
    finally:
        server.close()

    assert (seen, states) == ([True], [True, True, False])
    assert renumbered == [False, False, True]


def test_a_database_that_holds_rows_is_not_restored_over(filled: Database, database_url: str, tmp_path: Path) -> None:
    back_up(database_url, tmp_path / "backup")

    with pytest.raises(BackupError, match=r"tables already\. Name an empty one in SELLER_PLATFORM_DATABASE_URL"):
        restore(database_url, tmp_path / "backup")


@pytest.mark.parametrize("share", [0.1, 0.999])
def test_a_backup_that_was_cut_short_restores_nothing(
    filled: Database, postgres: EmbeddedServer, tmp_path: Path, share: float
) -> None:
    file, elsewhere = tmp_path / "backup", postgres.database("test_cut_short")
    back_up(filled.url, file)
    os.truncate(file, int(file.stat().st_size * share))

    with pytest.raises(BackupError, match="The file is damaged or cut short; name another backup"):
        restore(elsewhere, file)

    with psycopg.connect(elsewhere) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'seller'").fetchone() == (0,)
    drop_database(postgres, "test_cut_short")


def test_a_file_of_others_is_replaced_only_with_force(filled: Database, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    file.write_text("a diary")

    with pytest.raises(BackupError, match=r"it is no backup\. Name another file, or replace it with --force"):
        back_up(filled.url, file)
    assert file.read_text() == "a diary"

    back_up(filled.url, file, force=True)
    with file.open("ab") as former:
        former.write(b"more")
    back_up(filled.url, file)

    assert not file.read_bytes().endswith(b"more")
    with pytest.raises(BackupError, match="it is no file"):
        back_up(filled.url, tmp_path, force=True)


def test_a_backup_that_fails_leaves_the_former_one(tmp_path: Path, postgres: EmbeddedServer) -> None:
    file = tmp_path / "backup"
    file.write_bytes(b"PGDMP of before")

    with pytest.raises(WarehouseUnavailableError, match="does not exist"):
        back_up(postgres.url("there_is_none"), file)

    assert file.read_bytes() == b"PGDMP of before"
    assert [each.name for each in tmp_path.iterdir()] == ["backup"]


@pytest.fixture
def analyst(postgres: EmbeddedServer) -> Iterator[str]:
    """A role, which is dropped after the test; the databases of the test are dropped before."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as connection:
        connection.execute("CREATE ROLE analyst")
        yield "analyst"
        connection.execute("DROP ROLE IF EXISTS analyst")


def test_grants_in_an_empty_database_do_not_keep_a_backup_out(
    filled: Database, postgres: EmbeddedServer, tmp_path: Path, analyst: str
) -> None:
    back_up(filled.url, tmp_path / "backup")
    elsewhere = postgres.database("test_prepared")
    with psycopg.connect(elsewhere, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA seller; CREATE SCHEMA platform")
        connection.execute(f"GRANT USAGE ON SCHEMA seller TO {analyst}")
        connection.execute(f"ALTER DEFAULT PRIVILEGES IN SCHEMA seller GRANT SELECT ON TABLES TO {analyst}")

    left_out = restore(elsewhere, tmp_path / "backup")

    with psycopg.connect(elsewhere) as connection:
        connection.execute(f"SET ROLE {analyst}")
        assert connection.execute("SELECT count(*) FROM seller.transactions").fetchone() == (500,)
    assert left_out == []
    drop_database(postgres, "test_prepared")


@pytest.fixture(scope="module")
def tls() -> Iterator[tuple[str, Path]]:
    """A server that refuses connections without TLS: the URL of its databases, and its certificate."""
    if not SYSTEM_SERVERS:
        skip_except_in_ci("PostgreSQL of the system is not installed")
    with temporary_folder(folder_of_the_run()) as folder:
        certificate, port = write_certificate(folder, days=30), free_port()
        key = folder / "key.pem"
        key.touch(0o600)
        key.write_bytes(certificate.read_bytes())
        certificate.chmod(0o644)
        if is_root():
            os.chown(key, *server_user())
        rules = ("hostssl all all 127.0.0.1/32 scram-sha-256", "host all all all reject")
        settings = ("ssl=on", f"ssl_cert_file={certificate}", f"ssl_key_file={key}", "listen_addresses=127.0.0.1")
        with (
            system_server(SYSTEM_SERVERS[-1], folder, *settings, f"port={port}", rules=rules) as sockets,
            psycopg.connect(f"host={sockets} port={port} user=postgres", autocommit=True) as connection,
        ):
            connection.execute(f"CREATE ROLE owner LOGIN CREATEDB PASSWORD '{PASSWORD}'")
            for name in ("shop", "restored"):
                connection.execute(f"CREATE DATABASE {name} OWNER owner")
            yield f"postgresql://owner:{PASSWORD.replace(' ', '%20')}@localhost:{port}", certificate


@pytest.mark.parametrize(
    "options",
    [
        "",
        "sslmode=require&sslpassword=canary%20of%20a%20key",
        "sslmode=verify-full&sslrootcert={certificate}&channel_binding=require",
    ],
)
def test_a_database_with_tls_is_dumped_as_safely_as_it_is_read(
    tls: tuple[str, Path], postgres: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    (server, certificate), newer = tls, postgres.database("newer")
    options, program, seen = options.format(certificate=certificate), tmp_path / "pg_dump", tmp_path / "seen"
    real = SYSTEM_SERVERS[-1].with_name("pg_dump")
    program.write_text(f'#!/bin/sh\necho "$*" >{seen}\ncat $PGSERVICEFILE >{seen}.file\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with Database(f"{server}/shop?{options}") as shop, Database(f"{server}/restored?{options}") as restored:
        execute(shop, "CREATE TABLE public.sold AS SELECT n FROM generate_series(1, 1000) AS n")
        back_up(shop.url, tmp_path / "backup")
        left_out = restore(restored.url, tmp_path / "backup")
        rows = stored(restored, "SELECT count(*) FROM public.sold")
        for database in (shop, restored):
            execute(database, "DROP TABLE public.sold")
    left_out += restore(newer, tmp_path / "backup")
    with Database(newer) as restored:
        rows += stored(restored, "SELECT count(*) FROM public.sold")
    drop_database(postgres, "newer")

    assert (left_out, rows) == ([], [(1000,)] * 2)
    assert (
        f"sslmode={'verify-full' if 'verify-full' in options else 'require'}\n" in seen.with_suffix(".file").read_text()
    )
    assert "canary" not in seen.read_text()


def test_a_server_that_is_newer_than_every_pg_dump_is_named(
    tls: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(BackupError, match=r"it needs pg_dump \d+ or newer in PATH, one that can encrypt.*apt install"):
        back_up(f"{tls[0]}/shop", tmp_path / "backup")

    assert list(tmp_path.iterdir()) == []
