"""Tests that other programs reach the database with what `database run` and `database url` print."""

import json
import os
import shlex
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest

from seller_platform.cli.database.command import database as command
from seller_platform.errors import CannotListenError, RequestError
from seller_platform.warehouse.postgres.database import Database, url_without_secrets
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.loopback_port import loopback_port
from seller_platform.warehouse.schema.readers import save_reader
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import TEMPLATE, drop_database
from seller_platform_tests.support.processes import environment, run, started
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Open:
    """A running `database run`: what it has printed, and the home folder."""

    home: Path
    variables: dict[str, str]
    shown: dict[str, str]

    def query(self, statement: str) -> Any:
        """Return the first value of a query, as psql or a desktop client sends it."""
        with psycopg.connect(self.shown["URL"], autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
            return row and row[0]


@contextmanager
def _running(home: Path) -> Iterator[Open]:
    """Run `database run` on a free port, end it by Ctrl-C, and look at how it ends."""
    variables = environment(home)
    with started(["database", "run", "--port", "0"], variables) as (process, output, errors):

        def text_of(file: IO[str]) -> str:
            return os.pread(file.fileno(), 10_000, 0).decode()

        wait_for(
            lambda: "Ctrl-C ends it" in os.pread(output.fileno(), 10_000, 0).decode() or process.poll() is not None
        )
        assert process.poll() is None, text_of(errors)
        shown = dict(line.split(maxsplit=1) for line in text_of(output).splitlines())
        yield Open(home, variables, shown)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0
    data = (home / "postgres" / "data").resolve()
    # On a busy machine the command ends before the server, which it has asked to end.
    wait_for(lambda: not (data / "postmaster.pid").exists())


@pytest.mark.slow
def test_a_desktop_client_reads_while_other_programs_work() -> None:
    with temporary_folder(folder_of_the_run()) as folder:
        home = folder / "the home"
        with _running(home) as opened:
            assert opened.query("SELECT count(*) FROM seller.orders") == 0
            assert opened.query("SELECT current_user") == opened.shown["User"] == "desktop"
            assert opened.shown["URL"] == (
                f"postgresql://desktop:{opened.shown['Password']}@{opened.shown['Host']}:{opened.shown['Port']}/"
                f"{opened.shown['Database']}"
            )
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                opened.query("SELECT * FROM platform.grants")
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                opened.query("CREATE TABLE seller.mine (id int)")
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(opened.shown["URL"].replace(opened.shown["Password"], "guessed"))
            with pytest.raises(psycopg.OperationalError, match="this port admits the user desktop only"):
                psycopg.connect(opened.shown["URL"].replace("desktop:", "postgres:"))
            assert (home / "desktop.password").stat().st_mode & 0o777 == 0o600
            for line in (opened.shown["psql"], f"psql {shlex.quote(_url(opened.variables))}"):
                assert _of_psql(line, "SELECT count(*) FROM seller.orders") == "0"
        with _running(home) as again:
            assert again.shown["Password"] == opened.shown["Password"]


def _url(variables: dict[str, str]) -> str:
    return run(["database", "url"], variables).stdout.strip()


def _of_psql(line: str, statement: str) -> str:
    """Return what psql prints for a query, started by the line that was printed."""
    if shutil.which("psql") is None:
        skip_except_in_ci("psql is not installed")
    shell = ["sh", "-c", f"{line} -Atc {shlex.quote(statement)}"]
    return subprocess.run(shell, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def port(postgres: EmbeddedServer) -> Iterator[int]:
    """The port of a server with the login, for the database `of_clients`."""
    with Database(postgres.database("of_clients", template=TEMPLATE)) as database:
        save_reader(database, "desktop", PASSWORD)
    with loopback_port(postgres, 0) as opened:
        yield opened
    drop_database(postgres, "of_clients")


def _connect(port: int) -> psycopg.Connection:
    return psycopg.connect(
        host="127.0.0.1", port=port, dbname="of_clients", user="desktop", password=PASSWORD, autocommit=True
    )


def test_a_client_cancels_its_query(port: int) -> None:
    with _connect(port) as connection, _connect(port) as other, ThreadPoolExecutor(1) as thread:
        query = thread.submit(connection.execute, "SELECT pg_sleep(240)")
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(240)' AND state = 'active'"
        wait_for(lambda: other.execute(sleeping).fetchone() == (1,))

        connection.cancel_safe()

        with pytest.raises(psycopg.errors.QueryCanceled):
            query.result()


@pytest.mark.parametrize(
    "parameters",
    [
        b"user\0desktop\0user\0postgres\0database\0of_clients\0\0",
        b"user\0postgres\0user\0desktop\0database\0of_clients\0\0",
        b"database\0of_clients\0\0",
        b"user\0\0\0",
    ],
)
def test_no_first_message_makes_another_role_of_the_user(port: int, parameters: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(struct.pack("!II", len(parameters) + 8, 3 << 16) + parameters)
        client.settimeout(PATIENCE_SECONDS)
        answer = client.recv(9)

    # An error, or the question for a password; `R` with 0 would be an accepted login.
    assert answer[:1] == b"E" or (answer[:1] == b"R" and answer[5:9] == struct.pack("!I", 10))


@pytest.mark.parametrize("message", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x08\0\0\0\0", b"\0\0\0\x04", b"\0\0\0"])
def test_what_is_no_first_message_is_answered_with_the_end(port: int, message: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(PATIENCE_SECONDS)
        answer = b""
        with suppress(OSError):  # the other end may not have read all of it
            client.sendall(message)
            client.shutdown(socket.SHUT_WR)
            answer = client.recv(100)

    assert answer == b""
    with _connect(port) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_port_that_is_taken_is_named(postgres: EmbeddedServer, port: int) -> None:
    with pytest.raises(CannotListenError, match=str(port)), loopback_port(postgres, port):
        pass


def test_a_server_elsewhere_is_not_run_and_its_url_hides_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://ana:canary@db.example:5433/shop?sslmode=require&sslpassword=canary"
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", url)

    with pytest.raises(RequestError, match=r"names db\.example.*/shop, .*`seller-platform database reader NAME`"):
        invoke(command, ["run"], catch_exceptions=False)
    shown = invoke(command, ["url"], catch_exceptions=False)
    document = invoke(command, ["url", "--json"], catch_exceptions=False)
    whole = invoke(command, ["url", "--with-password"], catch_exceptions=False)

    assert shown.stdout == "postgresql://ana@db.example:5433/shop?sslmode=require\n"
    assert json.loads(document.stdout) == {
        "url": "postgresql://ana@db.example:5433/shop?sslmode=require",
        "host": "db.example",
        "port": "5433",
        "database": "shop",
        "user": "ana",
        "password": None,
        "is_embedded": False,
    }
    assert whole.stdout == f"{url}\n"


def test_a_url_is_written_as_psql_reads_it() -> None:
    assert url_without_secrets("postgresql://a:b@/w?host=%2Fa+b%2Fc%26") == "postgresql://a@/w?host=%2Fa%20b%2Fc%26"
