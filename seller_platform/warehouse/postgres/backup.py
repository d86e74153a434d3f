"""Backup with `pg_dump`, and restore of its files into a server of any supported version.

`pg_restore` writes a file as a script, which the platform's own connection executes. So a restore needs no other
program for TLS, and a line that an older server does not know can be left out. Dumps name nothing else that is newer.
"""

import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import IO, Any

import psycopg
from sqlalchemy import text

from seller_platform.counts import count_of
from seller_platform.errors import BackupError, full_disk
from seller_platform.files import delete_leftovers, replacing
from seller_platform.warehouse.postgres.database import Database, driver_of
from seller_platform.warehouse.postgres.health import OLDEST_VERSION
from seller_platform.warehouse.postgres.programs import CLIENT_USER, QUERY_ROLE, bundled_programs
from seller_platform.warehouse.postgres.sessions import parameters

_FIRST_BYTES = b"PGDMP"
_SERVICE = "seller_platform"
# libpq takes TLS if the server has it; with these modes it may also continue in the clear.
_OPTIONAL_TLS = ("allow", "prefer")
# What a script says before each of its entries.
_ENTRY = re.compile(rb"-- (Data for )?Name: .+; Type: (?P<type>[A-Z ]+); Schema: (?P<schema>.+); Owner: .*\n")
_GRANT = re.compile(rb"(GRANT|REVOKE|ALTER DEFAULT PRIVILEGES) .*;\n")
_SCHEMA = re.compile(rb"(?m)^CREATE SCHEMA (?=\S+;$)")
# Lines of a script that only psql, or only PostgreSQL 17 and newer, can read.
_UNREADABLE = re.compile(rb"(?m)^(\\(un)?restrict \w+|SET transaction_timeout = 0;)$")
_COPY, _END_OF_COPY = re.compile(rb"COPY .+ FROM stdin;\n"), b"\\.\n"
_DAMAGED = "The file is damaged or cut short; name another backup"
_NAME_A_BACKUP = "Name a file that `seller-platform backup FILE` has written"
_NAME_EMPTY_DATABASE = f"Name an empty database of PostgreSQL {OLDEST_VERSION} or newer in SELLER_PLATFORM_DATABASE_URL"
# Tables of extensions come with the extension.
_TABLES = text("""
    SELECT count(*) FROM pg_class AS class JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE class.relkind IN ('r', 'p') AND namespace.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
      AND namespace.nspname NOT LIKE 'pg\\_temp\\_%'
      AND NOT EXISTS (SELECT FROM pg_depend WHERE pg_depend.objid = class.oid AND pg_depend.deptype = 'e')
""")
# Programs of the platform make these again when they need them.
_OWN_ROLES = (QUERY_ROLE, CLIENT_USER)


def back_up(url: str, file: Path, *, force: bool = False) -> None:
    """Write the whole database to a file that only its owner can read, as of one moment.

    Other programs may read and write meanwhile. A failure leaves the file as it was.

    Args:
        force: Replace a file that is no backup, too.

    Raises:
        BackupError: It cannot be written, or PostgreSQL refused.
        SellerPlatformError: The disk of the file is full.
    """
    # Of a link the target is written, which may be on another disk.
    file = file.resolve()
    try:
        if file.exists():
            if not file.is_file():
                raise BackupError(str(file), "it is no file", "Name one that may be written")
            if not _is_backup(file) and not force:
                raise BackupError(str(file), "it is no backup", "Name another file, or replace it with --force")
        with replacing(file, 0o600) as draft:
            _dump(url, draft)
    except OSError as error:
        step = f"Make {file.parent} a folder that can be written, or name another file"
        raise BackupError(str(file), error.strerror or str(error), step) from error


def restore(url: str, file: Path) -> list[str]:
    """Fill an empty database from a backup, and make its grants, in one transaction.

    Schemas, roles and grants may exist already. A grant that this server refuses is left out, such as one to a role
    that it lacks.

    Returns:
        Why grants were left out, in PostgreSQL's words.

    Raises:
        BackupError: The database is not empty, or the file is not a backup. Nothing was changed.
    """
    delete_leftovers(file)
    if not file.is_file():
        raise BackupError(str(file), "it is no file" if file.exists() else "there is no such file", _NAME_A_BACKUP)
    if not _is_backup(file):
        raise BackupError(str(file), "it is no backup", _NAME_A_BACKUP)
    with Database(url, connections=1) as database, database.begin() as connection:
        if tables := connection.execute(_TABLES).scalar_one():
            raise BackupError(
                str(file),
                f"the database {database.where} has {count_of(tables, 'table')} already",
                "Name an empty one in SELLER_PLATFORM_DATABASE_URL, or a new home folder in SELLER_PLATFORM_HOME",
            )
        driver = driver_of(connection)
        try:
            with _script_of(file) as script:
                grants = _execute(driver, script)
            return _made_without(driver, grants)
        except psycopg.Error as error:
            step = _DAMAGED if isinstance(error, psycopg.DataError) else _NAME_EMPTY_DATABASE
            raise BackupError(str(file), f"PostgreSQL at {database.where} said: {_message(error)}", step) from error


def _is_backup(file: Path) -> bool:
    with file.open("rb") as content:
        return content.read(len(_FIRST_BYTES)) == _FIRST_BYTES


def _dump(url: str, file: Path) -> None:
    """Run `pg_dump` with the parameters of the platform's own connection, which is encrypted if that one is."""
    with Database(url, connections=1) as database, database.begin() as connection:
        driver, where = driver_of(connection), database.where
        given, password = driver.info.get_parameters(), driver.info.password
        major = driver.info.server_version // 10_000
        is_encrypted = driver.pgconn.ssl_in_use
    # The first two name what is resolved here; libpq adds the last one, which former ones do not know.
    for name in {"service", "servicefile", "sslcertmode"} - ({"sslcertmode"} & parameters(url).keys()):
        given.pop(name, None)
    if is_encrypted and given.get("sslmode", "prefer") in _OPTIONAL_TLS:
        given["sslmode"] = "require"
    program = _pg_dump(where, major, is_encrypted=is_encrypted)
    # Every user sees the arguments of a process. A file has the parameters, which may be secrets, too.
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as service:
        service.writelines([f"[{_SERVICE}]\n", *(f"{name}={value}\n" for name, value in given.items())])
        service.flush()
        variables = {"PGSERVICEFILE": service.name, "PGPASSWORD": password}
        arguments = ["--no-sync", "--no-password", "--format=custom", f"--file={file}", f"--dbname=service={_SERVICE}"]
        environment = _variables(**variables)
        done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
    if os.strerror(errno.ENOSPC) in done.stderr:
        raise full_disk(str(file.parent), os.strerror(errno.ENOSPC))
    if done.returncode:
        problem = f"pg_dump said: {_problem(done.stderr)}"
        raise BackupError(where, problem, "Fix what it says, and run the command again")


def _pg_dump(where: str, major: int, *, is_encrypted: bool) -> str:
    """Return the program that comes with the embedded server; where it is too old or cannot encrypt, that of PATH."""
    programs, newest = bundled_programs()
    if major <= newest and not is_encrypted:
        return str(programs / "pg_dump")
    if (found := shutil.which("pg_dump")) is not None:
        return found
    encrypted = ", one that can encrypt, as the server's connections are encrypted" if is_encrypted else ""
    raise BackupError(
        where,
        f"it needs pg_dump {major} or newer in PATH{encrypted}",
        f"Install it (Debian, Ubuntu: `apt install postgresql-client-{major}`, if need be from apt.postgresql.org), "
        "and run the command again",
    )


@contextmanager
def _script_of(file: Path) -> Iterator[IO[bytes]]:
    """Yield what `pg_restore` writes of a file while it reads it; it connects to no server.

    Raises:
        BackupError: The file cannot be read to its end.
    """
    command = [str(bundled_programs()[0] / "pg_restore"), "--file=-", "--no-owner", str(file)]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, env=_variables(), stdout=subprocess.PIPE, stderr=errors) as program:
            assert program.stdout is not None
            yield program.stdout
        if program.returncode:
            errors.seek(0)
            problem = _problem(errors.read())
            newer = "A newer program has written the file; restore it with the pg_restore of its version"
            step = newer if "unsupported version" in problem else _DAMAGED
            raise BackupError(str(file), f"pg_restore said: {problem}", step)


def _execute(driver: psycopg.Connection[Any], script: IO[bytes]) -> list[bytes]:
    """Create what a script defines, copy its rows, and return its grants."""
    statements, grants, is_grant, is_kept = bytearray(), list[bytes](), False, True

    def execute() -> None:
        driver.execute(_SCHEMA.sub(b"CREATE SCHEMA IF NOT EXISTS ", _UNREADABLE.sub(b"", bytes(statements))))
        statements.clear()

    for line in script:
        if entry := _ENTRY.fullmatch(line):
            is_grant = entry["type"] in (b"ACL", b"DEFAULT ACL")
            # What the owner of an embedded server takes from all others is no grant of the database.
            is_kept = entry["schema"] != b"pg_catalog"
        if is_grant:
            grants += [line] if is_kept and _GRANT.fullmatch(line) else []
        elif _COPY.fullmatch(line):
            execute()
            with driver.cursor().copy(line) as copy:
                for row in takewhile(_END_OF_COPY.__ne__, script):
                    copy.write(row)
        else:
            statements += line
    execute()
    return grants


def _made_without(driver: psycopg.Connection[Any], grants: list[bytes]) -> list[str]:
    """Make grants, and return why some were refused."""
    problems: dict[str, None] = {}
    for grant in grants:
        try:
            with driver.transaction():
                driver.execute(grant)
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            if not any(f'role "{role}" does not exist' in str(error) for role in _OWN_ROLES):
                problems[_message(error)] = None
    return list(problems)


def _message(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)


def _problem(errors: str) -> str:
    lines = errors.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error:" in line), lines[0])


def _variables(**more: str) -> dict[str, str]:
    """Return the environment of a program: its messages are read, so they are in English."""
    return {**os.environ, "LC_ALL": "C", **more}
