"""Runs `pg_dump` on a database, with all parameters of its URL, and reads its files with `pg_restore`.

The platform's own connection is the measure: where it is encrypted, that of `pg_dump` must be. The program that comes
with the embedded server cannot encrypt. Over a network that of the system is preferred. `pg_restore` connects to no
server.
"""

import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from psycopg.conninfo import make_conninfo

from seller_platform.errors import BackupError, full_disk
from seller_platform.warehouse.postgres.database import SECRET_PARAMETERS, Database, driver_of
from seller_platform.warehouse.postgres.programs import postgres_library
from seller_platform.warehouse.postgres.sessions import parameters

DAMAGED = "The file is damaged or cut short; name another backup"
"""The next step where a backup cannot be read to its end."""

_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_WITHOUT_TLS = "SSL support is not compiled in"
# libpq takes TLS if the server has it; with these modes it may also continue in the clear.
_OPTIONAL_TLS = ("allow", "prefer")
_REQUIRED_TLS = "require"
_SERVICE = "seller_platform"
_SECONDS_TO_END = 10.0
"""How long a program may take to end after SIGTERM."""


@dataclass(frozen=True)
class DumpServer:
    """The server of a database, as the platform's own connection to it has seen it.

    Attributes:
        parameters: What libpq is given to connect, at least as safe as that connection.
        where: The host and the name of the database.
        is_local: Whether it is reached through a socket of this machine.
    """

    parameters: dict[str, str]
    where: str
    major: int
    is_local: bool
    is_encrypted: bool


@dataclass(frozen=True)
class _Program:
    path: Path
    major: int
    is_bundled: bool


def dump_server(database: Database) -> DumpServer:
    """Connect to a database, and return how `pg_dump` connects.

    Raises:
        WarehouseUnavailableError: The server cannot be reached.
    """
    given = parameters(database.url)
    with database.begin() as connection:
        driver = driver_of(connection)
        is_encrypted = driver.pgconn.ssl_in_use
        if is_encrypted and driver.info.get_parameters().get("sslmode", "prefer") in _OPTIONAL_TLS:
            given["sslmode"] = _REQUIRED_TLS
        major = driver.info.server_version // 10_000
        return DumpServer(given, database.where, major, driver.info.host.startswith("/"), is_encrypted)


def dump(server: DumpServer, file: Path, jobs: int | None = None) -> None:
    """Write a database to a file; with a number of jobs to a new folder, so many tables at once.

    Raises:
        BackupError: No installed program can do that, or PostgreSQL refused.
        SellerPlatformError: The disk of the file is full.
    """
    program = _choose(server)
    try:
        form = (
            ("--no-sync", "--format=custom") if jobs is None else ("--no-sync", "--format=directory", f"--jobs={jobs}")
        )
        _run_on(server, program, *form, f"--file={file}")
    except BackupError as error:
        if os.strerror(errno.ENOSPC) in str(error):
            raise full_disk(str(file.parent), os.strerror(errno.ENOSPC)) from error
        raise


@contextmanager
def reading_dump(file: Path, *options: str) -> Iterator[IO[bytes]]:
    """Yield what `pg_restore` writes of a file while it reads it.

    Raises:
        BackupError: The file cannot be read to its end.
    """
    command = [str(_newest("pg_restore").path), "--file=-", *options, str(file)]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, env=_variables(), stdout=subprocess.PIPE, stderr=errors) as program:
            assert program.stdout is not None
            yield program.stdout
        if program.returncode:
            errors.seek(0)
            raise _failure(str(file), "pg_restore", errors.read())


def read_dump(file: Path, *options: str) -> str:
    """Return what `pg_restore` prints of a file.

    Raises:
        BackupError: The file is no backup, or a newer program has written it.
    """
    return _run(_newest("pg_restore"), str(file), [*options, str(file)], {})


def _newest(name: str) -> _Program:
    return max(_programs(name), key=lambda program: program.major)


def _choose(server: DumpServer) -> _Program:
    """Return the program that is nearest to the server's version, and protects the connection as ours is protected."""
    programs = [program for program in _programs("pg_dump") if program.major >= server.major]
    if server.is_encrypted:
        programs = [program for program in programs if _encrypts(program.path)]
    if not programs:
        present = ", ".join(f"{each.path} is {each.major}{_remark(each)}" for each in _programs("pg_dump"))
        problem = ", one that can encrypt, as the server's connections are encrypted" if server.is_encrypted else ""
        raise BackupError(
            server.where,
            f"it needs pg_dump {server.major} or newer{problem}; here {present}",
            f"Install it (Debian, Ubuntu: `apt install postgresql-client-{server.major}`, if need be from "
            "apt.postgresql.org), and run the command again",
        )
    return min(programs, key=lambda program: (program.major, program.is_bundled != server.is_local))


def _programs(name: str) -> tuple[_Program, ...]:
    """Return the installed programs of a name: that of PATH, those of the system's PostgreSQL, and the bundled one."""
    in_path = shutil.which(name)
    paths = [Path(in_path)] if in_path is not None else []
    for folder in _FOLDERS:
        paths += sorted(Path("/").glob(f"{folder[1:]}/{name}"))
    package = postgres_library().__file__
    assert package is not None
    bundled = max(Path(package).parent.glob(f"pginstall*/bin/{name}"))
    programs = []
    for path in (*paths, bundled):
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        if version := _VERSION.search(shown):
            programs.append(_Program(path, int(version[1]), is_bundled=path == bundled))
    return tuple(programs)


def _remark(program: _Program) -> str:
    return "" if _encrypts(program.path) else " and cannot encrypt"


def _encrypts(pg_dump: Path) -> bool:
    """Whether a program's libpq can encrypt. One that cannot refuses the mode before it connects."""
    command = [str(pg_dump), f"--dbname=host=/nonexistent sslmode={_REQUIRED_TLS}"]
    try:
        tried = subprocess.run(command, env=_variables(), capture_output=True, text=True, check=False)
    except OSError:
        return False
    return _WITHOUT_TLS not in tried.stderr


def _run_on(server: DumpServer, program: _Program, *options: str) -> str:
    # Secrets never become arguments, because the list of processes shows those to every user.
    shown = {name: value for name, value in server.parameters.items() if name not in SECRET_PARAMETERS}
    secrets = {name: value for name, value in server.parameters.items() if name in SECRET_PARAMETERS}
    variables = {"PGPASSWORD": secrets.pop("password")} if "password" in secrets else {}
    with _service_file(server, shown, secrets) as of_service:
        target = make_conninfo("", **shown, **({"service": _SERVICE} if of_service else {}))
        return _run(program, server.where, [f"--dbname={target}", *options], {**variables, **of_service})


@contextmanager
def _service_file(server: DumpServer, shown: dict[str, str], secrets: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yield the variable that names a file with secrets for which libpq has no variable; nothing without secrets."""
    if not secrets:
        yield {}
        return
    if "service" in shown:
        names = ", ".join(secrets)
        raise BackupError(
            server.where,
            f"the URL names a service, and has {names} beside it",
            f"Write {names} into the file of the service, not into the URL",
        )
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(f"[{_SERVICE}]\n" + "".join(f"{name}={value}\n" for name, value in secrets.items()))
        file.flush()
        yield {"PGSERVICEFILE": file.name}


def _run(program: _Program, what: str, arguments: list[str], variables: dict[str, str]) -> str:
    command = [str(program.path), *arguments]
    with subprocess.Popen(
        command, env=_variables(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            output, errors = running.communicate()
        except BaseException:
            # After SIGTERM pg_dump ends its workers and their queries. After SIGKILL they would go on.
            running.terminate()
            with suppress(subprocess.TimeoutExpired):
                running.communicate(timeout=_SECONDS_TO_END)
            running.kill()
            raise
    if running.returncode:
        raise _failure(what, program.path.name, errors)
    return output


def _failure(what: str, program: str, errors: str) -> BackupError:
    lines = errors.strip().splitlines() or ["no message"]
    problem = next((line for line in lines if "error:" in line), lines[0])
    if "unsupported version" in problem:
        step = f"A newer program has written the file; install a {program} of its version, and run the command again"
    elif program == "pg_restore":
        step = DAMAGED
    else:
        step = "Fix what it says, and run the command again"
    return BackupError(what, f"{program} said: {problem}", step)


def _variables(**more: Any) -> dict[str, str]:
    """Return the environment of a program: its messages are read, so they are in English."""
    return {**os.environ, "LC_ALL": "C", **more}
