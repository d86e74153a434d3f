"""Tests that other programs reach the database with what `database run` and `database url` print."""

import json
import os
import shlex
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest

from seller_platform.cli.database.command import database as command
from seller_platform.errors import RequestError
from seller_platform.warehouse.postgres.database import url_without_secrets
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import completed, document, environment, run, started
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run


@dataclass(frozen=True)
class Open:
    """A running `database run`: what it has printed, and the home folder."""

    home: Path
    errors: IO[str]
    variables: dict[str, str]
    shown: dict[str, str]

    def query(self, statement: str) -> Any:
        """Return the first value of a query, as psql or a desktop client sends it."""
        with psycopg.connect(self.shown["URL"], autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
            return row and row[0]


@contextmanager
def _running(home: Path) -> Iterator[Open]:
    """Run `database run`, end it by Ctrl-C, and look at how it ends."""
    variables = environment(home)
    with started(["database", "run"], variables) as (process, output, errors):

        def text_of(file: IO[str]) -> str:
            return os.pread(file.fileno(), 10_000, 0).decode()

        wait_for(
            lambda: "Ctrl-C ends it" in os.pread(output.fileno(), 10_000, 0).decode() or process.poll() is not None
        )
        assert process.poll() is None, text_of(errors)
        shown = dict(line.split(maxsplit=1) for line in text_of(output).splitlines())
        yield Open(home, errors, variables, shown)
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
            with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf rejects connection"):
                psycopg.connect(opened.shown["URL"].replace("desktop:", "postgres:"))
            added = document(run(["database", "reader", "ana", "--json"], opened.variables))
            ana = added["psql"].replace("psql ", "").replace("ana@", f"ana:{added['password']}@")
            with psycopg.connect(ana) as connection:
                assert connection.execute("SELECT count(*), current_user FROM seller.orders").fetchone() == (0, "ana")
            os.kill(int((home / "postgres" / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            wait_for(lambda: "is started again" in os.pread(opened.errors.fileno(), 10_000, 0).decode())
            assert opened.query("SELECT count(*) FROM seller.orders") == 0
            assert (home / "desktop.password").stat().st_mode & 0o777 == 0o600
            url = run(["database", "url"], opened.variables).stdout.strip()
            for line in (opened.shown["psql"], f"psql {shlex.quote(url)}"):
                assert _of_psql(line, "SELECT count(*) FROM seller.orders") == "0"
        with _running(home) as again:
            assert again.shown["URL"] == opened.shown["URL"]


def _of_psql(line: str, statement: str) -> str:
    """Return what psql prints for a query, started by the line that was printed."""
    if shutil.which("psql") is None:
        skip_except_in_ci("psql is not installed")
    shell = ["sh", "-c", f"{line} -Atc {shlex.quote(statement)}"]
    return completed(shell, check=True).stdout.strip()


def test_a_server_elsewhere_is_not_run_and_its_url_hides_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://ana:canary@db.example:5433/shop?sslmode=require&sslpassword=canary"
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", url)

    with pytest.raises(RequestError, match=r"names db\.example.*/shop, .*`seller-platform database reader NAME`"):
        invoke(command, ["run"], catch_exceptions=False)
    shown = invoke(command, ["url"], catch_exceptions=False)
    as_json = invoke(command, ["url", "--json"], catch_exceptions=False)
    whole = invoke(command, ["url", "--with-password"], catch_exceptions=False)

    assert shown.stdout == "postgresql://ana@db.example:5433/shop?sslmode=require\n"
    assert json.loads(as_json.stdout) == {
        "url": "postgresql://ana@db.example:5433/shop?sslmode=require",
        "is_embedded": False,
    }
    assert whole.stdout == f"{url}\n"


def test_a_url_is_written_as_psql_reads_it() -> None:
    assert url_without_secrets("postgresql://a:b@/w?host=%2Fa+b%2Fc%26") == "postgresql://a@/w?host=%2Fa%20b%2Fc%26"
