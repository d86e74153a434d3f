"""Tests the output of commands and their exit codes."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import remove_reader, save_reader
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.processes import completed, environment

_LARGE = ("dagster", "pandas", "pyarrow", "numpy", "fastapi", "uvicorn")
_READING = (
    ["status"],
    ["held"],
    ["explain", "orders", "1"],
    ["diff", "orders", "de-1"],
    ["service", "user", "list", "--replica"],
    ["service", "application", "list", "--replica"],
    ["service", "events", "--replica"],
)


def test_help_imports_no_large_library(tmp_path: Path) -> None:
    imported = _imported([["--help"]], environment(tmp_path))

    large = {*_LARGE, "pydantic", "sqlalchemy", "psycopg", "opentelemetry", "rich.console"}
    assert imported["--help"] & large == set()


@pytest.mark.slow
def test_a_reading_command_imports_no_large_library(tmp_path: Path, database_url: str) -> None:
    imported = _imported(_READING, environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url))

    large = {*_LARGE, "alembic", "rich.progress"}
    assert "sqlalchemy" in imported["status"]
    assert {command: modules & large for command, modules in imported.items() if modules & large} == {}


def _imported(commands: Sequence[list[str]], variables: dict[str, str]) -> dict[str, set[str]]:
    """Return the modules that are imported after each of some commands, which one interpreter runs."""
    code = f"""
import json, sys, seller_platform.cli as cli
imported = {{}}
for words in {list(commands)!r}:
    sys.argv = ["seller-platform", *words]
    try:
        cli.main()
    except SystemExit:
        pass
    imported[" ".join(words)] = list(sys.modules)
print("", json.dumps(imported), sep="\\n")
"""
    result = completed([sys.executable, "-c", code], env=variables)
    assert "Traceback" not in result.stderr, result.stderr
    return {command: set(modules) for command, modules in json.loads(result.stdout.splitlines()[-1]).items()}


def test_status_of_a_fresh_installation_says_how_to_begin(tmp_path: Path, database_url: str) -> None:
    variables = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)

    people, programs = run_here(["status"], variables), run_here(["status", "--json"], variables)

    assert "seller-platform connect" in people.stderr
    document = json.loads(programs.stdout)
    assert document["history_start"] == "2025-01-01"
    assert document["coverage"] == document["grants"] == []
    assert document["requests_per_day"] is document["requests_today"] is None


@pytest.mark.parametrize("words", [["status", "--nope"], ["sync", "--from", "2026-99"], ["held", "accept"]])
def test_what_cannot_be_read_of_a_command_is_a_document_with_json(tmp_path: Path, words: list[str]) -> None:
    ended = run_here([*words, "--json"], environment(tmp_path))

    document = json.loads(ended.stdout)
    assert (ended.returncode, document["error"], document["exit_code"], ended.stderr) == (2, "RequestError", 2, "")
    assert document["message"]


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
