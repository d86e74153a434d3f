"""Tests `seller-platform database reader`."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from seller_platform.cli.database.command import database as command
from seller_platform.errors import ReaderError, WarehouseError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.programs import bundled_programs
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.postgres import copied, drop_database


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


def test_a_chosen_password_that_cannot_be_set_is_an_error(
    postgres: EmbeddedServer, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text("a canary of a password")
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute("CREATE ROLE clerk LOGIN IN ROLE pg_read_all_data")
        _run("dora")
        with Database(url) as opened:
            monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", opened.url_of_user("clerk"))

        with pytest.raises(WarehouseError, match="password dora"):
            _run("dora", "--password-file", str(file))

        monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", url)
        _run("dora", "--remove")
        administrator.execute("DROP OWNED BY clerk")
        administrator.execute("DROP ROLE clerk")


def test_a_url_for_psql_has_nothing_of_the_owner() -> None:
    url = "postgresql://owner:canary@db.example:5433/shop?sslmode=require&sslpassword=canary&options=-csearch_path"

    with Database(url) as database:
        assert database.url_of_user("ana") == "postgresql://ana@db.example:5433/shop?sslmode=require"
