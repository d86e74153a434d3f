"""Tests the embedded server: unusual folders, several processes, and its end."""

import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from seller_platform.errors import WarehouseError
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.postgres.programs import bundled_programs
from seller_platform.warehouse.postgres.root_user import SERVER_USER, reachable_programs, server_user
from seller_platform_tests.support.postgres import answers
from seller_platform_tests.support.processes import completed
from seller_platform_tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("open_to_the_server")]


def _is_running(folder: Path) -> bool:
    return (folder / "data" / "postmaster.pid").exists()


def _socket_folder(server: EmbeddedServer) -> Path:
    return Path(parse_qs(urlsplit(server.url("postgres")).query)["host"][0])


@pytest.mark.parametrize("name", ['quote\'s ünïcode "$HOME" 100 %s back\\slash, @home $(touch x)', "x" * 120])
def test_any_folder_name_will_do(tmp_path: Path, name: str) -> None:
    server = EmbeddedServer(tmp_path / name)

    with psycopg.connect(server.database("shop")) as connection:
        row = connection.execute("SELECT current_database(), current_setting('timezone')").fetchone()

    server.close()
    assert row == ("shop", "UTC")


def test_the_last_user_stops_the_server_and_the_first_does_not(tmp_path: Path) -> None:
    here = EmbeddedServer(tmp_path)
    there = completed(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from seller_platform.warehouse.postgres.embedded import EmbeddedServer as S;"
            "print(S(pathlib.Path(sys.argv[1])).database('shop'))",
            str(tmp_path),
        ],
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


def test_only_the_user_who_started_it_may_connect(postgres: EmbeddedServer) -> None:
    with psycopg.connect(postgres.url("postgres")) as connection:
        methods = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
    closed = [stat.S_IMODE(folder.stat().st_mode) for folder in (postgres.data_folder, _socket_folder(postgres))]

    assert sorted(methods) == [("peer",), ("reject",), ("scram-sha-256",)]
    assert closed == [0o700, 0o700]


def test_it_takes_the_port_of_its_last_start_unless_that_is_taken(tmp_path: Path) -> None:
    ports: list[int] = []
    for taken in (False, False, True):
        with socket.create_server(("127.0.0.1", ports[-1])) if taken else nullcontext():
            server = EmbeddedServer(tmp_path)
            ports.append(server.port)
            with pytest.raises(psycopg.OperationalError, match=r"pg_hba\.conf rejects"):
                psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", dbname="postgres")
            psycopg.connect(server.url("postgres")).close()
            server.close()

    assert ports[0] == ports[1] != ports[2]


def test_a_socket_folder_that_others_prepared_is_refused(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / ("x" * 120), tmp_path / "elsewhere"
    first = EmbeddedServer(folder)
    socket_folder = _socket_folder(first)
    first.close()

    def assert_refused() -> None:
        with pytest.raises(WarehouseError, match=f"{socket_folder}, the folder of its socket"):
            EmbeddedServer(folder)

    elsewhere.mkdir(mode=0o700)
    socket_folder.symlink_to(elsewhere)
    assert_refused()
    socket_folder.unlink()
    socket_folder.mkdir()
    try:
        socket_folder.chmod(0o777)
        assert_refused()
        socket_folder.chmod(0o700)
        if os.geteuid() == 0:  # who else can give a folder to another user?
            os.chown(socket_folder, 12345, 12345)
            assert_refused()
    finally:
        socket_folder.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_roots_server_opens_no_folder_and_runs_without_roots_groups(tmp_path: Path) -> None:
    home, servers = tmp_path / "home", tmp_path / "servers"
    home.mkdir(mode=0o700)
    modes = {folder: folder.stat().st_mode for folder in (home, *home.parents)}

    server = EmbeddedServer(home / "postgres", root_data=servers)
    status = Path(f"/proc/{(server.data_folder / 'postmaster.pid').read_text().split()[0]}/status").read_text()
    link = (home / "postgres" / "data").readlink()
    entry = pwd.getpwnam(SERVER_USER)
    server.close()

    assert {folder: folder.stat().st_mode for folder in modes} == modes
    assert link.is_relative_to(servers)
    assert (link.parent / "home").read_text() == f"{home / 'postgres'}\n"
    assert re.search(r"^Uid:\t(\d+)\t", status, re.M)[1] == str(entry.pw_uid)  # type: ignore[index]  # /proc has it
    assert re.search(r"^Gid:\t(\d+)\t", status, re.M)[1] == str(entry.pw_gid)  # type: ignore[index]  # /proc has it
    assert re.search(r"^Groups:\t\s*$", status, re.M)
    assert entry.pw_shell.endswith("nologin")


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("not a folder")

    with pytest.raises(WarehouseError, match="SELLER_PLATFORM_DATABASE_URL") as caught:
        EmbeddedServer(taken)

    assert f" in {taken} does not start" in str(caught.value)


def test_a_server_whose_machine_went_down_starts_again(tmp_path: Path) -> None:
    (half := tmp_path / ".data.0123456789abcdef" / "data").mkdir(parents=True)  # the former start was cut off
    (half / "PG_VERSION").touch()
    first = EmbeddedServer(tmp_path)
    is_deleted = not half.exists()
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

    assert (row, is_deleted) == ((42,), True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's server runs as another user")
def test_programs_in_a_folder_closed_to_others_run_for_the_servers_user(tmp_path: Path) -> None:
    """As in a virtual environment below /root: the copy has the libraries, which are beside the package."""
    programs = bundled_programs()[0].parent
    package = programs.parent
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for folder in (programs, package.parent / f"{package.name}.libs"):
        shutil.copytree(folder, closed / folder.relative_to(package.parent), symlinks=True)

    reachable = reachable_programs(tmp_path / "servers", closed / package.name / programs.name)
    user, program = server_user(), reachable / "bin" / "initdb"
    told = completed([program, "--version"], user=user[0], group=user[1], extra_groups=[], cwd="/")

    assert reachable.is_relative_to(tmp_path / "servers")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("initdb (PostgreSQL)")
