"""Tests commands whose streams are closed, or cannot write every character, or whose folder is gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import remove_reader, save_reader
from seller_platform_tests.support.processes import completed, environment

pytestmark = pytest.mark.slow

_COMMAND = f"{sys.executable} -m seller_platform.cli"


def _in_shell(line: str, home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return completed(["sh", "-c", line], env=environment(home, **variables))


@pytest.mark.parametrize(
    "redirection", [">&-", *(pytest.param(each, marks=pytest.mark.nightly) for each in ("<&-", "2>&-"))]
)
def test_a_closed_stream_ends_no_command_in_a_traceback(redirection: str, tmp_path: Path) -> None:
    ended = _in_shell(f"{_COMMAND} docs connect {redirection}", tmp_path)

    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)


def test_standard_input_that_is_closed_has_no_statement(tmp_path: Path, database_url: str) -> None:
    ended = _in_shell(f"{_COMMAND} query - <&-", tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)

    assert (ended.returncode, ended.stderr.partition(";")[0]) == (2, "error: there is no statement\n")


def test_characters_that_cannot_be_written_are_escaped(tmp_path: Path, database_url: str) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

    with Database(database_url) as database:
        save_reader(database, "letters", "correct horse battery")
        reader_url = database.url_of_user("letters")
        urls = {"SELLER_PLATFORM_DATABASE_URL": database_url, "SELLER_PLATFORM_READER_URL": reader_url}
        ended = _in_shell(f'{_COMMAND} query "SELECT chr(246) AS letter"', tmp_path, **urls, **ascii_only)
        remove_reader(database, "letters")

    assert (ended.returncode, ended.stdout.split()[-1]) == (0, "\\xf6")


def test_a_working_directory_that_is_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    ended = _in_shell(f"cd {gone}; rmdir {gone}; unset SELLER_PLATFORM_HOME; {_COMMAND} status", tmp_path)

    assert ended.returncode == 2
    assert "the working directory no longer exists" in ended.stderr
