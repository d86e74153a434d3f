"""Tests that errors of PostgreSQL and the file system name what is missing, whoever raises them."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from seller_platform.cli.terminal.foreseen import foreseen_error
from seller_platform.errors import InvalidSettingError, MissingRightError, WarehouseError
from seller_platform.files import write_atomically
from seller_platform.settings import read_settings
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.power_loss import recorded

pytestmark = pytest.mark.slow

ROLE = "Ana Who Reads"


@pytest.fixture
def restricted(database: Database) -> Iterator[Database]:
    """The database as a role without rights on tables."""
    with database.begin() as connection:
        connection.execute(text(f'CREATE ROLE "{ROLE}" LOGIN'))
        connection.execute(text(f'GRANT USAGE ON SCHEMA seller, platform TO "{ROLE}"'))

    with Database(f"{database.url}&user={ROLE.replace(' ', '%20')}") as opened:
        yield opened
    with database.begin() as connection:
        connection.execute(text(f'REVOKE USAGE ON SCHEMA seller, platform FROM "{ROLE}"'))
        connection.execute(text(f'DROP ROLE "{ROLE}"'))


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("DELETE FROM platform.loads", "permission denied for table loads"),
        ("CREATE TABLE seller.other (a int)", "permission denied for schema seller"),
        ("ALTER TABLE seller.orders ADD other int", "must be owner of table orders"),
    ],
)
def test_a_missing_right_is_named(restricted: Database, statement: str, problem: str) -> None:
    with pytest.raises(MissingRightError, match=problem) as raised, restricted.begin() as connection:
        connection.execute(text(statement))

    assert "grant the right in psql" in str(raised.value)


@pytest.mark.parametrize(
    ("state", "code", "words"),
    [
        ("53100", "DatabaseFullError", "the disk of PostgreSQL at"),
        ("25006", "ReadOnlyDatabaseError", "can only be read"),
        ("53200", "TooFewLocksError", "has too few locks for one transaction"),
    ],
)
def test_a_server_that_is_full_or_read_only_or_has_few_locks_is_named(
    database: Database, state: str, code: str, words: str
) -> None:
    hint = "You might need to increase max_locks_per_transaction." if state == "53200" else ""
    raised_here = f"RAISE EXCEPTION 'could not write' USING ERRCODE = '{state}', HINT = '{hint}'"
    statement = f"DO $$ BEGIN {raised_here}; END $$"

    with pytest.raises(WarehouseError, match=words) as raised, database.begin() as connection:
        connection.execute(text(statement))

    assert raised.value.code == code
    assert Path(database.where).name in str(raised.value)  # a long folder is reached under a shorter name, too


@pytest.mark.parametrize(
    ("number", "name", "code"),
    [
        (errno.ENOSPC, "x/file", "FullDiskError"),
        (errno.EACCES, "x/file", "FileAccessError"),
        (errno.EACCES, "home/file", "HomeFolderError"),
        (errno.ENOTDIR, "home", "HomeFolderError"),
    ],
)
def test_an_error_of_a_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, name: str, code: str
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path / "home"))
    wrapped = RuntimeError("a library wraps it")
    wrapped.__cause__ = OSError(number, os.strerror(number), str(tmp_path / name))

    foreseen = foreseen_error(wrapped)

    assert foreseen is not None
    assert foreseen.code == code
    assert f"{tmp_path / name}" in str(foreseen)
    assert os.strerror(number) in str(foreseen)


def test_bugs_of_this_program_stay_what_they_are() -> None:
    assert foreseen_error(KeyError("x")) is None


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "FullDiskError"), (errno.EIO, "FailingDiskError")])
def test_a_file_that_a_disk_does_not_take_is_named_with_the_call(tmp_path: Path, number: int, code: str) -> None:
    with recorded(tmp_path) as recording:
        write_atomically(tmp_path / "file", b"content", 0o600)
    for call, (name, _) in enumerate(recording.calls[:-1]):  # the last one deletes a draft that is no longer there
        with pytest.raises(OSError, match="file") as raised, recorded(tmp_path, fails=(call, number)):
            write_atomically(tmp_path / "file", b"new", 0o600)

        foreseen = foreseen_error(raised.value)
        assert foreseen is not None
        assert foreseen.code == code
        assert f"{os.strerror(number)} ({name} of " in str(foreseen)
        assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_working_directory_that_was_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    monkeypatch.setenv("SELLER_PLATFORM_HOME", "relative")

    with pytest.raises(InvalidSettingError, match="the working directory, which no longer exists"):
        read_settings()
