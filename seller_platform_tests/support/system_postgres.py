"""Servers of the system's PostgreSQL packages, which are older than the embedded one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from seller_platform.warehouse.postgres.health import OLDEST_VERSION
from seller_platform.warehouse.postgres.root_user import is_root, server_user
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.watchdog import folder_of_the_run

SYSTEM_SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
"""The servers of the system; none where its PostgreSQL is not installed."""


@contextmanager
def system_server(program: Path, folder: Path, *settings: str, rules: tuple[str, ...] = ()) -> Iterator[Path]:
    """Run a server, and yield the folder of its socket, where every user may connect as any role.

    Args:
        program: One of `SYSTEM_SERVERS`.
        folder: A folder that every user can pass through.
        rules: Lines of pg_hba.conf for other connections.
    """
    user, data = server_user() if is_root() else None, folder / "data"
    data.mkdir(mode=0o700)
    if user is not None:
        os.chown(data, *user)
    other: dict[str, Any] = {} if user is None else {"user": user[0], "group": user[1], "extra_groups": []}

    def run(name: str, *arguments: str) -> None:
        command = [str(program.with_name(name)), "-D", str(data), *arguments]
        # Not a pipe, which the server would keep open.
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", **other)

    run("initdb", "--auth=trust", "--username=postgres", "--encoding=utf8", "--no-sync")
    (data / "pg_hba.conf").write_text("\n".join(["local all all trust", *rules, ""]))
    options = " ".join(f"-c {setting}" for setting in ("listen_addresses=", *settings, "fsync=off"))
    run("pg_ctl", "-w", "-l", str(data / "log"), "-o", f"{options} -k {data}", "start")
    try:
        yield data
    finally:
        run("pg_ctl", "-m", "immediate", "-w", "stop")


@contextmanager
def oldest_server(*extensions: str) -> Iterator[str]:
    """Run the oldest server that is supported, and yield the URL of a database whose owner is no superuser."""
    program = next((each for each in SYSTEM_SERVERS if each.parts[-3] == str(OLDEST_VERSION)), None)
    if program is None:
        skip_except_in_ci(f"PostgreSQL {OLDEST_VERSION} is not installed; install postgresql-{OLDEST_VERSION}")
    with temporary_folder(folder_of_the_run()) as folder, system_server(program, folder) as sockets:
        with psycopg.connect(f"host={sockets} user=postgres", autocommit=True) as connection:
            connection.execute("CREATE ROLE seller LOGIN CREATEROLE")
            connection.execute("CREATE DATABASE shop OWNER seller")
        with psycopg.connect(f"host={sockets} user=postgres dbname=shop", autocommit=True) as connection:
            for extension in extensions:
                connection.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(extension)))
        yield f"postgresql://seller@/shop?host={quote(str(sockets), safe='')}"
