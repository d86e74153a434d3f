"""PgBouncer from the packages of the system, on the loopback interface."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seller_platform.warehouse.postgres.root_user import is_root, server_user
from seller_platform_tests.support.postgres import answers
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import wait_for


@contextmanager
def pgbouncer(folder: Path, sockets: Path, database: str, mode: str, **settings: str) -> Iterator[str]:
    """Run PgBouncer in front of a database, and yield its URL.

    Args:
        folder: A folder that every user can pass through.
        sockets: The folder of the socket of the server, where everybody may connect.
        mode: `session` or `transaction`.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        skip_except_in_ci("PgBouncer is not installed: it is the package pgbouncer of Debian")
    port, user = free_port(), server_user() if is_root() else None
    (folder / "users").write_text('"postgres" ""\n')
    lines = {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": str(folder / "users"),
        "pool_mode": mode,
        **settings,
    }
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    (folder / "pooler.ini").write_text(f"[databases]\n{database} = host={sockets}\n[pgbouncer]\n{text}")
    # As root it does not start.
    other: dict[str, Any] = {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}
    with subprocess.Popen(
        [program, "--quiet", str(folder / "pooler.ini")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **other
    ) as process:
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/{database}"
            wait_for(lambda: answers(url))
            yield url
        finally:
            process.terminate()
