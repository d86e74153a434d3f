"""Tests `seller-platform database`: readers, a server for desktop clients, and the removal of both."""

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
from click.testing import Result

from seller_platform.cli.database.command import database as command
from seller_platform.cli.doctor.local_checks import examine_root_data
from seller_platform.cli.installation import make_home
from seller_platform.errors import ReaderError, RequestError, WarehouseError
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.database import Database, url_without_secrets
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, WAREHOUSE, embedded_server
from seller_platform.warehouse.postgres.programs import bundled_programs
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.folders import ROOT_DATA, temporary_folder
from seller_platform_tests.support.postgres import copied, drop_database
from seller_platform_tests.support.processes import completed, document, environment, run, started
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for
from seller_platform_tests.support.watchdog import folder_of_the_run


@pytest.fixture(scope="module")
def url(postgres: EmbeddedServer) -> Iterator[str]:
    """A database with readers."""
    yield copied(postgres, "read_by_command")
    drop_database(postgres, "read_by_command")


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", url)
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))


def _run(*arguments: str) -> Result:
    return invoke(command, ["reader", *arguments], catch_exceptions=False)


def test_the_printed_line_connects_and_the_password_is_shown_once() -> None:
    first, again = _run("dora"), _run("dora", "--json")

    assert first.exit_code == again.exit_code == 0
    shown = [line.rpartition(": ")[2] for line in first.stdout.splitlines() if line.startswith("Password")]
    (line,) = [line for line in first.stdout.splitlines() if line.startswith("psql ")]
    document = json.loads(again.stdout)
    assert document["psql"] == line
    assert len({*shown, document["password"]}) == 2
    _, address = shlex.split(line)
    psql = bundled_programs()[0] / "psql"
    statement = "SELECT current_user, count(*) FROM seller.orders"
    printed = subprocess.run([psql, address, "-Atc", statement], check=True, capture_output=True, text=True)
    assert printed.stdout == "dora|0\n"
    assert _run("dora", "--remove").exit_code == 0


def test_a_password_of_a_file_is_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a canary of a password\n")

    result = _run("dora", "--password-file", str(file))
    removed = _run("dora", "--remove", "--json")

    assert "canary" not in result.output
    assert json.loads(removed.stdout) == {"message": "dora was removed."}
    with pytest.raises(ReaderError, match="'dora' is no role of this server"):
        _run("dora", "--remove")


def test_a_url_for_psql_has_nothing_of_the_owner() -> None:
    url = "postgresql://owner:canary@db.example:5433/shop?sslmode=require&sslpassword=canary&options=-csearch_path"

    with Database(url) as database:
        assert database.url_of_user("ana") == "postgresql://ana@db.example:5433/shop?sslmode=require"


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

        wait_for(lambda: "Ctrl-C" in os.pread(output.fileno(), 10_000, 0).decode() or process.poll() is not None)
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
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(opened.shown["URL"].replace(opened.shown["Password"], "guessed"))
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


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SELLER_PLATFORM_DATABASE_URL", raising=False)
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(ROOT_DATA, f"{os.environ[ROOT_DATA]}/{tmp_path.name}")
    return tmp_path / "home"


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedServer]:
    """The server that a command has created in the home folder, with an empty warehouse."""
    settings = make_home()
    server = embedded_server(home, settings.root_data_folder)
    server.database(WAREHOUSE)
    yield server
    server.close()


def _remove(*arguments: str, answer: str = "") -> Result:
    return invoke(command, ["remove", *arguments], input=answer, catch_exceptions=False)


@pytest.mark.slow
def test_a_server_is_deleted_after_a_question_and_not_while_it_is_used(server: EmbeddedServer, home: Path) -> None:
    data = server.data_folder
    with pytest.raises(
        WarehouseError,
        check=lambda error: error.code == "EmbeddedServerInUseError",
        match=rf"{home}.* is in use\. Nothing was deleted; end the programs",
    ):
        _remove("--yes")
    server.close()

    refused = _remove(answer="n\n")
    is_kept = (data / "PG_VERSION").exists()
    deleted = _remove("--json", answer="y\n")

    assert is_kept
    assert f"Delete the PostgreSQL server of {home} and all its rows, in {data}" in refused.stderr
    assert "Nothing was deleted." in refused.stderr
    assert json.loads(deleted.stdout) == {"message": f"Deleted: {data}."}
    assert home.is_dir()
    assert not (home / EMBEDDED_FOLDER).exists()
    assert not data.exists()
    with pytest.raises(RequestError):
        _remove("--yes")


@pytest.mark.slow
def test_moved_data_is_deleted_without_what_is_beside_it(server: EmbeddedServer, home: Path, tmp_path: Path) -> None:
    server.close()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "others").write_text("of others")
    data = shutil.move(server.data_folder, tmp_path / "disk" / "rows")
    (home / EMBEDDED_FOLDER / "data").unlink(missing_ok=True)
    (home / EMBEDDED_FOLDER / "data").symlink_to(data)

    _remove("--yes")

    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["others"]


@pytest.mark.slow
def test_a_server_that_killed_programs_left_is_stopped_unless_in_use(server: EmbeddedServer, home: Path) -> None:
    number = int((server.data_folder / "postmaster.pid").read_text().split()[0])
    assert server._users is not None
    fcntl.flock(server._users, fcntl.LOCK_UN)  # as the end of the process does

    with (
        psycopg.connect(server.url(WAREHOUSE)),
        pytest.raises(WarehouseError, check=lambda error: error.code == "EmbeddedServerInUseError"),
    ):
        _remove("--yes")
    _remove("--yes")

    wait_for(lambda: not Path(f"/proc/{number}").exists())
    assert not (home / EMBEDDED_FOLDER).exists()


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server has its data in another folder")
def test_what_a_deleted_home_has_left_is_removed_by_the_command_of_doctor(server: EmbeddedServer, home: Path) -> None:
    left, root_data = server.data_folder.parent, read_settings().root_data_folder
    with psycopg.connect(server.url(WAREHOUSE)):
        shutil.rmtree(home)
        (finding,) = examine_root_data(root_data)
        (line,) = re.findall("`seller-platform database remove ([^`]*)`", finding.next_step)
        with pytest.raises(WarehouseError, check=lambda error: error.code == "EmbeddedServerInUseError"):
            _remove("--yes", *shlex.split(line))

    removed = _remove("--yes", "--json", *shlex.split(line))
    again = _remove("--yes", *shlex.split(line))

    assert json.loads(removed.stdout) == {"message": f"Deleted: {left}."}
    assert not left.exists()
    assert list(examine_root_data(root_data)) == []
    assert again.exit_code == 2
    assert f"{left} is no data of a home folder that is gone; `seller-platform doctor` lists those" in again.stderr


@pytest.mark.slow
def test_a_server_of_ones_own_is_not_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", "postgresql://ana@db.example/shop")

    with pytest.raises(RequestError, match=r"no embedded server to remove\. .* unset the variable to use"):
        _remove("--yes")
