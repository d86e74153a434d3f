"""Tests the embedded server: unusual folders, several processes, and its end."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from seller_platform.errors import EmbeddedServerError
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.waiting import wait_for

pytestmark = pytest.mark.slow


def _is_running(folder: Path) -> bool:
    return (folder / "data" / "postmaster.pid").exists()


@pytest.mark.parametrize("name", ["with a space", "quote's and ünïcode", "x" * 120])
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    server = EmbeddedServer(tmp_path / name)

    with psycopg.connect(server.database("shop")) as connection:
        row = connection.execute("SELECT current_database(), current_setting('timezone')").fetchone()

    server.close()
    assert row == ("shop", "UTC")


def test_the_last_user_stops_the_server_and_the_first_does_not(tmp_path: Path) -> None:
    here = EmbeddedServer(tmp_path)
    there = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from seller_platform.warehouse.postgres.embedded import EmbeddedServer as S;"
            "print(S(pathlib.Path(sys.argv[1])).database('shop'))",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    still_running = _is_running(tmp_path)
    psycopg.connect(there.stdout.strip()).close()
    here.close()

    assert still_running
    assert not _is_running(tmp_path)


def test_a_user_that_was_killed_is_forgotten(tmp_path: Path) -> None:
    here = EmbeddedServer(tmp_path)
    killed = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib, time; from seller_platform.warehouse.postgres.embedded import EmbeddedServer as S;"
            "s = S(pathlib.Path(sys.argv[1])); print('up', flush=True); time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
    )
    assert killed.stdout is not None
    assert killed.stdout.readline() == b"up\n"

    killed.kill()
    killed.wait()
    killed.stdout.close()
    here.close()

    assert not _is_running(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_a_server_stops_although_a_folder_above_it_was_closed(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / "above" / "postgres")

    (tmp_path / "above").chmod(0o700)
    server.close()

    assert not _is_running(tmp_path / "above" / "postgres")


def test_rows_outlive_the_server(tmp_path: Path) -> None:
    first = EmbeddedServer(tmp_path)
    with psycopg.connect(first.database("shop")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    first.close()

    second = EmbeddedServer(tmp_path)
    with psycopg.connect(second.url("shop")) as connection:
        row = connection.execute("SELECT answer FROM kept").fetchone()
    second.close()

    assert row == (42,)


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")

    with pytest.raises(EmbeddedServerError, match="SELLER_PLATFORM_DATABASE_URL") as caught:
        EmbeddedServer(taken)

    assert caught.value.folder == str(taken)


def test_a_server_whose_machine_went_down_starts_again(tmp_path: Path) -> None:
    first = EmbeddedServer(tmp_path)
    with psycopg.connect(first.database("shop")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    pid = int((tmp_path / "data" / "postmaster.pid").read_text().splitlines()[0])
    os.kill(pid, 9)
    wait_for(lambda: not answers(first.url("shop")))

    second = EmbeddedServer(tmp_path)
    with psycopg.connect(second.url("shop")) as connection:
        row = connection.execute("SELECT answer FROM kept").fetchone()
    second.close()
    first.close()

    assert row == (42,)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
