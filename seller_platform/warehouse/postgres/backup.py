"""Backup with `pg_dump`, and restore of its files into a server of any supported version.

`pg_restore` writes a file as a script, which the platform's own connection executes. So it needs no other program for
TLS, and a line that an older server does not know can be left out. Dumps name nothing else that is newer.
"""

import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import psycopg
from sqlalchemy import Connection, text

from seller_platform import interruption
from seller_platform.counts import count_of
from seller_platform.errors import BackupError, SellerPlatformError
from seller_platform.files import delete_leftovers, draft_folder_beside, replace_folder, replacing
from seller_platform.warehouse.postgres.database import VERSION_SCHEMA, VERSION_TABLE, Database, driver_of
from seller_platform.warehouse.postgres.dump_programs import (
    DAMAGED,
    DumpServer,
    dump,
    dump_server,
    read_dump,
    reading_dump,
)
from seller_platform.warehouse.postgres.health import OLDEST_VERSION
from seller_platform.warehouse.postgres.programs import CLIENT_USER, QUERY_ROLE

_FIRST_BYTES = b"PGDMP"
_CONTENTS = "toc.dat"
"""The file with the table of contents, where a backup is a folder."""
# Lines of pg_restore's table of contents: one about grants, one that creates a schema. And a line that makes a grant.
# What the owner of an embedded server takes from all others is no grant of the database.
_GRANTS = re.compile(r"\d+; \d+ \d+ (ACL|DEFAULT ACL) (?!pg_catalog )")
_SECTIONS = ("--section=pre-data", "--section=data", "--section=post-data")
# Entries that need no other entry of their section.
_AT_ONCE = re.compile(r"\d+; \d+ \d+ (?P<kind>TABLE DATA|INDEX) (?!ATTACH)")
_VERSION = re.compile(rf"\d+; \d+ \d+ TABLE DATA {VERSION_SCHEMA} {VERSION_TABLE} ")
_SCHEMA = re.compile(r"\d+; \d+ \d+ SCHEMA - (?P<name>\S+) ")
_GRANT = re.compile(r"(GRANT|REVOKE|ALTER DEFAULT PRIVILEGES) .*;")
# Lines of a script that only psql, or only PostgreSQL 17 and newer, can read.
_UNREADABLE = re.compile(rb"(?m)^(\\(un)?restrict \w+|SET transaction_timeout = 0;)$")
_COPY, _END_OF_COPY = re.compile(rb"COPY .+ FROM stdin;\n"), b"\\.\n"
_COPY_BYTES = 1 << 16
_NAME_A_BACKUP = "Name a file that `seller-platform backup` has written"
_NAME_AN_EMPTY_DATABASE = (
    f"Name an empty database of PostgreSQL {OLDEST_VERSION} or newer in SELLER_PLATFORM_DATABASE_URL"
)
# Tables of extensions come with the extension.
_TABLES = text("""
    SELECT count(*) FROM pg_class AS class JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace
    WHERE class.relkind IN ('r', 'p') AND namespace.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
      AND namespace.nspname NOT LIKE 'pg\\_temp\\_%'
      AND NOT EXISTS (SELECT FROM pg_depend WHERE pg_depend.objid = class.oid AND pg_depend.deptype = 'e')
""")
# Programs of the platform make these again when they need them.
_OWN_ROLES = (QUERY_ROLE, CLIENT_USER)
_SCHEMAS = text("SELECT nspname FROM pg_namespace")


def back_up(url: str, file: Path, *, force: bool = False, jobs: int | None = None) -> None:
    """Write the whole database to a file, or to a folder, that only its owner can read, as of one moment.

    Other programs may read and write meanwhile. A failure leaves the file as it was.

    Args:
        force: Replace a file that is no backup, too.
        jobs: How many tables or partitions are written at once, each to a file of a folder; None for a single file.

    Raises:
        BackupError: It cannot be written, or PostgreSQL refused.
        SellerPlatformError: The disk of the file is full.
        WarehouseUnavailableError: The server cannot be reached.
    """
    # Of a link the target is written, which may be on another disk.
    file = file.resolve()
    try:
        if file.exists():
            _check_replaceable(file, force=force, is_folder=jobs is not None)
        with Database(url, connections=1) as database:
            server = dump_server(database)
        if jobs is not None:
            _back_up_to_folder(server, file, jobs)
            return
        with replacing(file, 0o600) as draft:
            dump(server, draft)
    except OSError as error:
        step = f"Make {file.parent} a folder that can be written, or name another file"
        raise BackupError(str(file), error.strerror or str(error), step) from error


def _back_up_to_folder(server: DumpServer, folder: Path, jobs: int) -> None:
    with draft_folder_beside(folder, 0o700) as drafts:
        draft = drafts / "backup"
        dump(server, draft, jobs)
        with interruption.deferred():
            replace_folder(folder, draft)


def restore(url: str, file: Path, *, jobs: int = 1) -> list[str]:
    """Fill an empty database from a backup, in one transaction, and then make its grants.

    Schemas, roles and grants may exist already. A grant that this server refuses is left out, such as one to a role
    that it lacks.

    Args:
        jobs: How many tables are filled, and indexes created, at once. With more than one it is not one transaction: an
            error leaves a database that has to be dropped.

    Returns:
        Why grants were left out, in PostgreSQL's words.

    Raises:
        BackupError: The database is not empty, or the file is not a backup. Nothing was changed, with one job.
        WarehouseUnavailableError: The server cannot be reached.
    """
    delete_leftovers(file)
    if not file.is_file() and not (file / _CONTENTS).is_file():
        raise BackupError(str(file), "it is no file" if file.exists() else "there is no such file", _NAME_A_BACKUP)
    if not _is_backup(file):
        raise BackupError(str(file), "it is no backup", _NAME_A_BACKUP)
    contents = read_dump(file, "--list").splitlines()
    with Database(url, connections=jobs) as database:
        with _explained(file, database.where), database.begin() as connection:
            existing = _schemas_of_empty(connection, file, database.where)
            new = [line for line in contents if not ((named := _SCHEMA.match(line)) and named["name"] in existing)]
            _execute(driver_of(connection), file, new, *(_SECTIONS if jobs == 1 else _SECTIONS[:1]))
        if jobs > 1:
            with _explained(file, database.where, is_in_part=True):
                _execute_at_once(database, file, new, jobs)
        return _restore_grants(database, file, [line for line in contents if _GRANTS.match(line)])


def _check_replaceable(file: Path, *, force: bool, is_folder: bool) -> None:
    if is_folder and not (file / _CONTENTS).is_file():
        raise BackupError(str(file), "it is no folder of a backup", "Name a folder that does not exist")
    if not is_folder and not file.is_file():
        raise BackupError(str(file), "it is no file", "Name one that may be written")
    if not _is_backup(file) and not force:
        raise BackupError(str(file), "it is no backup", "Name another file, or replace it with --force")


def _is_backup(file: Path) -> bool:
    with (file / _CONTENTS if file.is_dir() else file).open("rb") as opened:
        return opened.read(len(_FIRST_BYTES)) == _FIRST_BYTES


def _schemas_of_empty(connection: Connection, file: Path, where: str) -> set[str]:
    """Return the schemas of a database without tables."""
    tables = connection.execute(_TABLES).scalar_one()
    if tables:
        raise BackupError(
            str(file),
            f"the database {where} has {count_of(tables, 'table')} already",
            "Name an empty one in SELLER_PLATFORM_DATABASE_URL, or a new home folder in SELLER_PLATFORM_HOME",
        )
    return set(connection.execute(_SCHEMAS).scalars())


@contextmanager
def _explained(file: Path, where: str, *, is_in_part: bool = False) -> Iterator[None]:
    """Raise errors of PostgreSQL as `BackupError`; where the database has a part of the backup, all errors."""
    try:
        yield
    except (psycopg.Error, SellerPlatformError, OSError) as error:
        steps = []
        match error:
            case psycopg.Error():
                problem = f"PostgreSQL at {where} said: {_message(error)}"
                steps.append(DAMAGED if isinstance(error, psycopg.DataError) else _NAME_AN_EMPTY_DATABASE)
            case _ if not is_in_part:
                raise
            case BackupError():
                problem, steps = error.problem, [error.step]
            case SellerPlatformError():
                problem = error.problem_alone
            case _:
                problem = str(error)
        if is_in_part:
            steps.append(f"The database {where} has a part of it: drop it, and create it again before the next try")
        raise BackupError(str(file), problem, ". ".join(steps)) from error


def _execute_at_once(database: Database, file: Path, contents: list[str], jobs: int) -> None:
    """Copy the rows of a backup, then create its indexes, several at once; then its keys and triggers.

    The version comes last: without it no program accepts the database.
    """

    def execute(lines: list[str], section: str) -> None:
        with database.begin() as connection:
            _execute(driver_of(connection), file, lines, section)

    _, data, after = _SECTIONS
    version = [line for line in contents if _VERSION.match(line)]
    contents = [line for line in contents if line not in version]
    with ThreadPoolExecutor(jobs) as threads:
        for kind, section in (("TABLE DATA", data), ("INDEX", after)):
            lines = [line for line in contents if (found := _AT_ONCE.match(line)) and found["kind"] == kind]
            list(threads.map(lambda line, section=section: execute([line], section), lines))
    rest = [line for line in contents if not _AT_ONCE.match(line)]
    execute(rest, data)
    execute(rest, after)
    execute(version, data)


def _execute(driver: psycopg.Connection[Any], file: Path, contents: list[str], *sections: str) -> None:
    """Execute sections of a backup: create what it defines, copy its rows, and create indexes, keys and triggers."""
    with _chosen(contents) as chosen:
        for section in sections:
            with reading_dump(file, section, chosen, "--no-owner", "--no-privileges") as script:
                _execute_script(driver, script)


def _execute_script(driver: psycopg.Connection[Any], script: IO[bytes]) -> None:
    statements = bytearray()
    for line in script:
        if not _COPY.fullmatch(line):
            statements += line
            continue
        driver.execute(_UNREADABLE.sub(b"", statements))
        statements.clear()
        with driver.cursor().copy(line) as copy:
            for rows in _rows(script):
                copy.write(rows)
    driver.execute(_UNREADABLE.sub(b"", statements))


def _rows(script: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a COPY to its end, many at once."""
    rows = bytearray()
    for line in script:
        if line == _END_OF_COPY:
            break
        rows += line
        if len(rows) >= _COPY_BYTES:
            yield bytes(rows)
            rows.clear()
    yield bytes(rows)


@contextmanager
def _chosen(entries: list[str]) -> Iterator[str]:
    """Yield the option that chooses entries of a table of contents."""
    with tempfile.NamedTemporaryFile("w", suffix=".list") as file:
        file.write("\n".join(entries))
        file.flush()
        yield f"--use-list={file.name}"


def _restore_grants(database: Database, file: Path, entries: list[str]) -> list[str]:
    """Make the grants of a backup, and return why some were refused."""
    if not entries:
        return []
    with _chosen(entries) as option:
        script = read_dump(file, option, "--no-owner", "--file=-")
    problems: dict[str, None] = {}
    with database.begin() as connection:
        driver = driver_of(connection)
        for statement in filter(_GRANT.fullmatch, script.splitlines()):
            try:
                with driver.transaction():
                    driver.execute(statement.encode())
            except psycopg.OperationalError:
                raise
            except psycopg.errors.UndefinedObject as error:
                if not any(f'"{role}"' in str(error) for role in _OWN_ROLES):
                    problems[_message(error)] = None
            except psycopg.Error as error:
                problems[_message(error)] = None
    return list(problems)


def _message(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error)
