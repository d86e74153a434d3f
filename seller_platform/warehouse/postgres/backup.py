"""Backup and restore with PostgreSQL's own programs, which come with the embedded server."""

import os
import subprocess
from pathlib import Path

from sqlalchemy import text

from seller_platform.errors import BackupError
from seller_platform.files import draft_beside
from seller_platform.warehouse.postgres.database import Database, driver_url
from seller_platform.warehouse.postgres.programs import postgres_library


def back_up(url: str, file: Path) -> None:
    """Write the whole database to a file that only its owner can read, as of one moment.

    Other programs may read and write meanwhile. A failure leaves the file as it was.

    Raises:
        BackupError: It cannot be written, or PostgreSQL refused.
    """
    try:
        with draft_beside(file) as draft:
            draft.touch(0o600, exist_ok=False)
            _run("pg_dump", url, "--format=custom", f"--file={draft}")
            draft.replace(file)
    except OSError as error:
        raise BackupError(str(file), error.strerror or str(error)) from error


def restore(url: str, file: Path) -> None:
    """Fill an empty database from a backup, in one transaction.

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
    _run("pg_restore", url, "--exit-on-error", "--single-transaction", "--no-owner", str(file))


def _run(program: str, url: str, *options: str) -> None:
    """Run one of PostgreSQL's programs.

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
    target = f"--dbname={parsed.database}"
    package = postgres_library().__file__
    assert package is not None
    newest = max(Path(package).parent.glob(f"pginstall*/bin/{program}"))
    try:
        subprocess.run([newest, target, *options], env=environment, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        problem = (str(error.stderr).strip().splitlines() or ["no message"])[0]
        raise BackupError(parsed.database or "", f"{program} said: {problem}") from None
