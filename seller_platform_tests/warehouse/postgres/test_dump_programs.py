"""Tests that backups and restores protect their connections as the URL and the server demand."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from seller_platform.errors import BackupError, WarehouseUnavailableError
from seller_platform.warehouse.postgres.backup import back_up, restore
from seller_platform.warehouse.postgres.database import conninfo
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.system_postgres import SYSTEM_SERVERS
from seller_platform_tests.support.tls_postgres import PASSWORD, TlsFront, TlsServer, tls_front, tls_server
from seller_platform_tests.support.tls_proxy import write_certificate
from seller_platform_tests.support.watchdog import folder_of_the_run

needs_system_server = pytest.mark.skipif(not SYSTEM_SERVERS, reason="PostgreSQL of the system is not installed")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls"), days=30)


@pytest.fixture
def front(postgres: EmbeddedServer, certificate: Path) -> Iterator[TlsFront]:
    """TLS in front of a server without TLS, with the empty database `behind_tls`."""
    with psycopg.connect(postgres.database("behind_tls")) as connection:
        folder = Path(connection.info.host)
    with tls_front(certificate, folder / ".s.PGSQL.5432") as opened:
        yield opened
    drop_database(postgres, "behind_tls")


@pytest.fixture(scope="module")
def server() -> Iterator[TlsServer]:
    with temporary_folder(folder_of_the_run()) as folder, tls_server(folder) as started:
        with psycopg.connect(conninfo(started.url("shop", "sslmode=require")), autocommit=True) as connection:
            connection.execute("CREATE TABLE sold AS SELECT n FROM generate_series(1, 1000) AS n")
        yield started


@pytest.mark.parametrize("options", ["?sslmode=require", "", "?sslmode=verify-full&sslrootcert={certificate}"])
def test_nothing_is_sent_in_the_clear_to_a_server_with_tls(
    front: TlsFront, certificate: Path, tmp_path: Path, options: str
) -> None:
    file = tmp_path / "backup"
    url = f"postgresql://postgres@localhost:{front.port}/behind_tls{options.format(certificate=certificate)}"

    try:
        back_up(url, file)
    except BackupError as error:  # its version is 18, and the system may have an older pg_dump
        assert "it needs pg_dump 18 or newer, one that can encrypt" in str(error)
        assert "`apt install postgresql-client-18`" in str(error)
        assert list(tmp_path.iterdir()) == []

    assert front.openings
    assert front.in_the_clear == []


@needs_system_server
@pytest.mark.slow
def test_a_database_with_tls_is_backed_up_and_restored(
    server: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = _record_arguments(tmp_path, monkeypatch)
    options = f"sslmode=verify-full&sslrootcert={server.certificate}&channel_binding=require&options=-cwork_mem%3D1MB"

    back_up(server.url("shop", options), tmp_path / "backup")
    left_out = restore(server.url("restored", options), tmp_path / "backup")

    with psycopg.connect(conninfo(server.url("restored", "sslmode=require"))) as connection:
        assert connection.execute("SELECT count(*) FROM sold").fetchone() == (1000,)
    assert left_out == []
    arguments = recorded.read_text()
    assert "sslmode=verify-full" in arguments
    assert "channel_binding=require" in arguments
    assert "options=-cwork_mem=1MB" in arguments
    assert PASSWORD not in arguments


@needs_system_server
@pytest.mark.slow
def test_a_server_that_cannot_prove_its_name_gets_no_password(
    server: TlsServer, certificate: Path, tmp_path: Path
) -> None:
    with pytest.raises(WarehouseUnavailableError, match="certificate"):
        back_up(server.url("shop", f"sslmode=verify-full&sslrootcert={certificate}"), tmp_path / "backup")

    assert list(tmp_path.iterdir()) == []


@needs_system_server
@pytest.mark.slow
def test_a_secret_without_a_variable_is_no_argument_either(
    server: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = _record_arguments(tmp_path, monkeypatch)

    back_up(server.url("shop", "sslmode=require&sslpassword=canary%20of%20a%20key"), tmp_path / "backup")

    assert "sslmode=require" in recorded.read_text()
    assert "canary" not in recorded.read_text()


def _record_arguments(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program before the system's that writes its arguments into the returned file, and runs the system's."""
    programs, recorded = folder / "programs", folder / "arguments"
    programs.mkdir()
    program, real = programs / "pg_dump", SYSTEM_SERVERS[-1].with_name("pg_dump")
    program.write_text(f'#!/bin/sh\necho "$*" >>{recorded}\nexec {real} "$@"\n')
    program.chmod(0o755)
    subprocess.run([program, "--version"], check=True, capture_output=True)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return recorded
