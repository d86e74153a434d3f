"""Tests the output of commands and their exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seller_platform import errors
from seller_platform.errors import SellerPlatformError
from seller_platform_tests.support.processes import environment, run


def test_an_unknown_command_is_a_usage_error(tmp_path: Path) -> None:
    result = run(["synchronise"], environment(tmp_path))

    assert result.returncode == 2
    assert "synchronise" in result.stderr


def test_help_imports_no_large_library(tmp_path: Path) -> None:
    imported = _imported(["--help"], environment(tmp_path))

    assert imported & {*_LARGE, "pydantic", "sqlalchemy", "psycopg", "opentelemetry", "rich.console"} == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["status"],
        ["held"],
        ["explain", "orders", "1"],
        ["diff", "orders", "S.DE"],
        ["service", "user", "list", "--replica"],
        ["service", "application", "list", "--replica"],
        ["service", "events", "--replica"],
    ],
    ids=" ".join,
)
def test_a_reading_command_imports_no_large_library(arguments: list[str], tmp_path: Path, database_url: str) -> None:
    imported = _imported(arguments, environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url))

    assert "sqlalchemy" in imported
    assert imported & {*_LARGE, "alembic", "rich.console", "rich.progress"} == set()


_LARGE = ("dagster", "pandas", "pyarrow", "numpy", "fastapi", "uvicorn")


def _imported(arguments: list[str], variables: dict[str, str]) -> set[str]:
    """Return the modules that a command imports."""
    code = (
        "import sys, seller_platform.cli as c\n"
        f"sys.argv = ['seller-platform', *{arguments!r}]\n"
        "try: c.main()\n"
        "except SystemExit: pass\n"
        "print('\\n', *sys.modules, sep='\\n')"
    )
    result = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False)
    assert "Traceback" not in result.stderr, result.stderr
    return set(result.stdout.splitlines())


def test_a_missing_setting_is_named_with_the_next_step(tmp_path: Path, database_url: str) -> None:
    variables = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)

    people, programs = run(["connect"], variables), run(["connect", "--json"], variables)

    assert (people.returncode, programs.returncode) == (2, 2)
    assert people.stderr.startswith("error: SELLER_API_BASE_URL is not set")
    assert json.loads(programs.stdout)["error"] == "MissingSettingError"


def test_sync_before_connect_says_what_to_run(tmp_path: Path, database_url: str) -> None:
    variables = environment(
        tmp_path,
        SELLER_PLATFORM_DATABASE_URL=database_url,
        SELLER_API_BASE_URL="http://127.0.0.1:1",
        SELLER_API_CLIENT_ID="a",
        SELLER_API_CLIENT_SECRET="b",
    )

    result = run(["sync"], variables)

    assert result.returncode == 2
    assert "seller-platform connect" in result.stderr


def test_a_database_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    url = "postgresql://user:canary@127.0.0.1:1/none"

    result = run(["status"], environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=url))

    assert result.returncode == 1
    assert "127.0.0.1/none" in result.stderr
    assert "canary" not in result.stdout + result.stderr


def test_status_of_a_fresh_installation_says_how_to_begin(tmp_path: Path, database_url: str) -> None:
    variables = environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)

    people, programs = run(["status"], variables), run(["status", "--json"], variables)

    assert "seller-platform connect" in people.stderr
    document = json.loads(programs.stdout)
    assert document["history_start"] == "2025-01-01"
    assert document["coverage"] == document["grants"] == []
    assert document["requests_per_day"] is document["requests_today"] is None


@pytest.mark.parametrize(
    "name", [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
)
def test_every_error_is_ours_documented_and_has_an_exit_code(name: str) -> None:
    error = getattr(errors, name)

    assert issubclass(error, SellerPlatformError)
    assert error.__doc__
    assert error.exit_code in (1, 2, 3, 4, 5)
