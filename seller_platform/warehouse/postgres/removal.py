"""Deletes embedded servers, and what the servers of deleted home folders have left behind."""

import fcntl
import shutil
from contextlib import suppress
from pathlib import Path

import psycopg

from seller_platform.errors import WarehouseError
from seller_platform.files import open_lock
from seller_platform.warehouse.postgres.embedded import START_LOCK, USERS_LOCK, remove_socket_folder, socket_url, stop
from seller_platform.warehouse.postgres.root_user import DATA, remove_data_folder
from seller_platform.warehouse.postgres.sessions import conninfo

_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def remove_server(folder: Path) -> None:
    """Stop the embedded server of a folder, and delete the folder and the server's data.

    Raises:
        WarehouseError: A program uses the server. Nothing was deleted.
    """
    with open_lock(folder / START_LOCK) as starting, open_lock(folder / USERS_LOCK) as users:
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(folder) from None
        data = folder / DATA
        if data.exists():
            _stop_unused(data)
        if data.is_symlink():
            remove_data_folder(data.resolve())
        remove_socket_folder(folder)
        shutil.rmtree(folder)


def remove_abandoned(folder: Path) -> None:
    """Stop the server of abandoned data if it still runs, and delete the folder of the data.

    Args:
        folder: One of `abandoned_folders`.

    Raises:
        WarehouseError: Programs are connected to the server. Nothing was deleted.
    """
    _stop_unused(folder / DATA)
    remove_data_folder(folder / DATA)


def _stop_unused(data: Path) -> None:
    """Stop a server without connections: programs that were killed leave one.

    Only a server that answers is stopped: after a restart of the machine, another program may have its number.
    """
    with suppress(OSError, IndexError, psycopg.OperationalError):
        sockets = (data / "postmaster.pid").read_text().splitlines()[4]
        with psycopg.connect(conninfo(socket_url(sockets, "postgres"))) as connection:
            if connection.execute(_OTHERS).fetchone() != (0,):
                raise _in_use(data.resolve())
        stop(data)


def _in_use(folder: Path) -> WarehouseError:
    return WarehouseError(
        f"the embedded PostgreSQL server in {folder} is in use",
        code="EmbeddedServerInUseError",
        step="Nothing was deleted; end the programs that use it (`dev`, `service run`, `dagster dev`, `database run` "
        "and others), and try again.",
    )
