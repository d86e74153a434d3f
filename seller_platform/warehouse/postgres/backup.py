"""Backup and restore with PostgreSQL's own programs, which come with the embedded server."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import psycopg
from sqlalchemy import text

from seller_platform.errors import BackupError
from seller_platform.files import draft_beside
from seller_platform.warehouse.postgres.database import Database, driver_of, driver_url
from seller_platform.warehouse.postgres.programs import postgres_library

# A line of pg_restore's table of contents that is about grants, and a line of its script that makes one.
_GRANTS = re.compile(r"\d+; \d+ \d+ (ACL|DEFAULT ACL) ")
_GRANT = re.compile(r"(GRANT|REVOKE|ALTER DEFAULT PRIVILEGES) .*;")


def back_up(url: str, file: Path) -> None:
    """Write the whole database to a file that only its owner can read, as of one moment.

    Other programs may read and write meanwhile. A failure leaves the file as it was.

    Raises:
        BackupError: It cannot be written, or PostgreSQL refused.
    """
    try:
        with draft_beside(file) as draft:
            draft.touch(0o600, exist_ok=False)
            _run(
                "pg_dump", url, f"--dbname={driver_url(url, 'psycopg').database}", "--format=custom", f"--file={draft}"
            )
            draft.replace(file)
    except OSError as error:
        raise BackupError(str(file), error.strerror or str(error)) from error


def restore(url: str, file: Path) -> list[str]:
    """Fill an empty database from a backup, in one transaction, and then make its grants.

    A grant that this server refuses is left out, such as one to a role that it lacks.

    Returns:
        Why grants were left out, in PostgreSQL's words.

    Raises:
        BackupError: The database is not empty, or the file is not a backup. Nothing was changed.
    """
    if not file.is_file():
        raise BackupError(str(file), "there is no such file")
    with Database(url) as database, database.begin() as connection:
        tables = connection.execute(
            text("SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
        ).scalar_one()
    if tables:
        raise BackupError(
            str(file), f"the database {database.where} has {tables} tables already; name one that is empty"
        )
    into = f"--dbname={driver_url(url, 'psycopg').database}"
    options = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
    _run("pg_restore", url, into, *options, str(file))
    return _restore_grants(url, file)


def _restore_grants(url: str, file: Path) -> list[str]:
    """Make the grants of a backup, and return why some were refused."""
    entries = [line for line in _run("pg_restore", url, "--list", str(file)).splitlines() if _GRANTS.match(line)]
    if not entries:
        return []
    with tempfile.NamedTemporaryFile("w", suffix=".list") as chosen:
        chosen.write("\n".join(entries))
        chosen.flush()
        script = _run("pg_restore", url, f"--use-list={chosen.name}", "--no-owner", "--file=-", str(file))
    problems: dict[str, None] = {}
    with Database(url) as database, database.begin() as connection:
        driver = driver_of(connection)
        for statement in filter(_GRANT.fullmatch, script.splitlines()):
            try:
                with driver.transaction():
                    driver.execute(statement.encode())
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                problems[error.diag.message_primary or str(error)] = None
    return list(problems)


def _run(program: str, url: str, *options: str) -> str:
    """Run one of PostgreSQL's programs and return its output.

    The password is passed in the environment: a list of processes shows arguments to every user.
    """
    parsed = driver_url(url, "psycopg")
    host = parsed.host or str(parsed.query.get("host", ""))
    variables = {
        "PGHOST": host,
        "PGPORT": str(parsed.port or ""),
        "PGUSER": parsed.username,
        "PGPASSWORD": parsed.password,
    }
    environment = {**os.environ, **{name: value for name, value in variables.items() if value}}
    package = postgres_library().__file__
    assert package is not None
    newest = max(Path(package).parent.glob(f"pginstall*/bin/{program}"))
    try:
        command = [str(newest), *options]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        problem = (str(error.stderr).strip().splitlines() or ["no message"])[0]
        raise BackupError(parsed.database or "", f"{program} said: {problem}") from None
    return done.stdout
