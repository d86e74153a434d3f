"""Tests a command whose stream cannot write every character."""

import sys
from pathlib import Path

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import remove_reader, save_reader
from seller_platform_tests.support.processes import completed, environment


@pytest.mark.slow
def test_characters_that_cannot_be_written_are_escaped(tmp_path: Path, database_url: str) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "seller_platform.cli", "query", "SELECT chr(246) AS letter"]

    with Database(database_url) as database:
        save_reader(database, "letters", "correct horse battery")
        reader_url = database.url_of_user("letters")
        urls = {"SELLER_PLATFORM_DATABASE_URL": database_url, "SELLER_PLATFORM_READER_URL": reader_url}
        ended = completed(words, env=environment(tmp_path, **urls, **ascii_only))
        remove_reader(database, "letters")

    assert (ended.returncode, ended.stdout.split()[-1]) == (0, "\\xf6")
