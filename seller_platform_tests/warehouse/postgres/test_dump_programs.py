"""Tests that backups and restores protect their connections as the URL and the server demand."""

import os
import signal
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import FrameType

import psycopg
import pytest
from psycopg import sql

from seller_platform.errors import BackupError, WarehouseUnavailableError
from seller_platform.warehouse.postgres.backup import back_up, restore
from seller_platform.warehouse.postgres.dump_programs import DumpServer, dump
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.root_user import is_root, server_user
from seller_platform.warehouse.postgres.sessions import conninfo
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import drop_database
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.system_postgres import SYSTEM_SERVERS, system_server
from seller_platform_tests.support.tls_proxy import listening, pass_on, write_certificate
from seller_platform_tests.support.watchdog import folder_of_the_run

PASSWORD = "canary of a password"

# A pg_dump that interrupts the program that has started it, and ends after SIGTERM.
_INTERRUPTED_PROGRAM = """#!/bin/sh
[ "$1" = --version ] && echo "pg_dump (PostgreSQL) 99.0" && exit
trap 'kill $!; touch {ended}; exit 1' TERM
sleep 60 >/dev/null 2>&1 &
while kill -USR1 $PPID; do sleep 0.05; done
"""
_SSL_REQUEST = struct.pack("!II", 8, 80_877_103)
_TLS_RECORDS = (20, 21, 22, 23)


@dataclass(frozen=True)
class TlsServer:
    """A server that refuses connections without TLS, and its certificate, which signs itself."""

    port: int
    certificate: Path

    def url(self, database: str, options: str) -> str:
        """Return the URL of a database with parameters of libpq."""
        return f"postgresql://owner:{PASSWORD.replace(' ', '%20')}@localhost:{self.port}/{database}?{options}"


@contextmanager
def tls_server(folder: Path) -> Iterator[TlsServer]:
    """Run the system's newest server; its role `owner` may create databases, and has `PASSWORD`.

    Args:
        folder: A folder that every user can pass through.
    """
    certificate, key, port = write_certificate(folder, days=30), folder / "key.pem", free_port()
    key.touch(0o600)
    key.write_bytes(certificate.read_bytes())
    certificate.chmod(0o644)
    if is_root():
        os.chown(key, server_user().uid, server_user().gid)
    rules = ("hostssl all all 127.0.0.1/32 scram-sha-256", "host all all all reject")
    settings = ("ssl=on", f"ssl_cert_file={certificate}", f"ssl_key_file={key}", "listen_addresses=127.0.0.1")
    with (
        system_server(SYSTEM_SERVERS[-1], folder, *settings, f"port={port}", rules=rules) as sockets,
        psycopg.connect(f"host={sockets} port={port} user=postgres", autocommit=True) as connection,
    ):
        connection.execute(sql.SQL("CREATE ROLE owner LOGIN CREATEDB PASSWORD {}").format(sql.Literal(PASSWORD)))
        connection.execute("CREATE DATABASE shop OWNER owner")
        connection.execute("CREATE DATABASE restored OWNER owner")
        yield TlsServer(port, certificate)


@dataclass
class TlsFront:
    """The port of a proxy that ends TLS as PostgreSQL does, and what its clients have sent before and inside TLS.

    Attributes:
        openings: The first bytes of each connection.
        in_the_clear: The connections that sent anything without TLS but the question for it.
    """

    port: int = 0
    openings: list[bytes] = field(default_factory=list)
    in_the_clear: list[bytes] = field(default_factory=list)


@contextmanager
def tls_front(certificate: Path, postgres_socket: Path) -> Iterator[TlsFront]:
    """Run TLS in front of a server that listens on a socket. A connection without TLS is recorded and closed."""
    context, front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), TlsFront()
    context.load_cert_chain(certificate)

    def serve(plain: socket.socket) -> None:
        opening = plain.recv(8, socket.MSG_WAITALL)
        front.openings.append(opening)
        if opening != _SSL_REQUEST:
            front.in_the_clear.append(opening)
            return
        plain.sendall(b"S")
        if plain.recv(1, socket.MSG_PEEK)[0] not in _TLS_RECORDS:
            front.in_the_clear.append(opening)
            return
        with context.wrap_socket(plain, server_side=True) as client, socket.socket(socket.AF_UNIX) as server:
            server.connect(str(postgres_socket))
            pass_on(client, server)

    with listening(serve) as front.port:
        yield front


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


def test_an_interrupted_backup_lets_pg_dump_end_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int, frame: FrameType | None) -> None:
        callers = [each.f_code.co_name for each, _ in walk_stack(frame)]
        if dump.__name__ in callers and subprocess.Popen.communicate.__name__ in callers and not interrupted:
            interrupted.append(callers)
            raise KeyboardInterrupt

    interrupted: list[list[str]] = []
    program, ended = tmp_path / "pg_dump", tmp_path / "ended"
    program.write_text(_INTERRUPTED_PROGRAM.format(ended=ended))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    server = DumpServer({}, "shop", major=99, is_local=True, is_encrypted=False)
    former = signal.signal(signal.SIGUSR1, interrupt)

    try:
        with pytest.raises(KeyboardInterrupt):
            dump(server, tmp_path / "backup", jobs=2)
    finally:
        signal.signal(signal.SIGUSR1, former)

    assert ended.exists()


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
