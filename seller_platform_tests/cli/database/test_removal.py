"""Tests `seller-platform database remove`."""

import fcntl
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from seller_platform.cli.database.command import database as command
from seller_platform.cli.doctor.local_checks import examine_root_data
from seller_platform.cli.installation import make_home
from seller_platform.errors import RequestError, WarehouseError
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.location import EMBEDDED_FOLDER, WAREHOUSE, embedded_server
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.folders import ROOT_DATA
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


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


def test_data_that_a_user_has_moved_is_deleted_without_what_is_beside_it(
    server: EmbeddedServer, home: Path, tmp_path: Path
) -> None:
    server.close()
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "others").write_text("of others")
    data = shutil.move(server.data_folder, tmp_path / "disk" / "rows")
    (home / EMBEDDED_FOLDER / "data").unlink(missing_ok=True)
    (home / EMBEDDED_FOLDER / "data").symlink_to(data)

    _remove("--yes")

    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["others"]


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server has its data in another folder")
def test_what_a_deleted_home_has_left_is_removed_by_the_command_of_doctor(server: EmbeddedServer, home: Path) -> None:
    left, root_data = server.data_folder.parent, read_settings().root_data_folder
    with psycopg.connect(server.url(WAREHOUSE)):
        shutil.rmtree(home)
        (finding,) = examine_root_data(home / EMBEDDED_FOLDER, root_data)
        (line,) = re.findall("`seller-platform database remove ([^`]*)`", finding.next_step)
        with pytest.raises(WarehouseError, check=lambda error: error.code == "EmbeddedServerInUseError"):
            _remove("--yes", *shlex.split(line))

    removed = _remove("--yes", "--json", *shlex.split(line))
    again = _remove("--yes", *shlex.split(line))

    assert json.loads(removed.stdout) == {"message": f"Deleted: {left}."}
    assert not left.exists()
    assert list(examine_root_data(home / EMBEDDED_FOLDER, root_data)) == []
    assert again.exit_code == 2
    assert f"{left} is no data of a home folder that is gone; `seller-platform doctor` lists those" in again.stderr


def test_a_server_of_ones_own_is_not_removed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", "postgresql://ana@db.example/shop")

    with pytest.raises(RequestError, match=r"no embedded server to remove\. .* unset the variable to use"):
        _remove("--yes")
