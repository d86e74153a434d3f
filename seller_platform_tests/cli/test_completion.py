"""What a shell completes after Tab, and the versions that `--version` prints."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

import pytest
from click.shell_completion import get_completion_class

from seller_platform import __version__
from seller_platform.contract import REFRESHED, Account
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.versions import revisions
from seller_platform_tests.support.command_line import COMMAND_LINE, COMMANDS
from seller_platform_tests.support.processes import environment, run
from seller_platform_tests.support.stored_rows import connect_accounts

TITLES = ("North Pine US", 'Köhler "Haus & Hof", DE', "Twice", "Twice")


@pytest.fixture
def variables(database: Database, database_url: str, tmp_path: Path) -> dict[str, str]:
    """The variables of a shell, over a warehouse with four accounts."""
    named = enumerate(TITLES)
    connect_accounts(database, [(f"us-{n}", Account(n, title, None, None, "UTC", None, None)) for n, title in named])
    return environment(tmp_path, SELLER_PLATFORM_DATABASE_URL=database_url)


def completed(line: str, variables: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return what zsh offers for the last word of a line, with the sentences beside it."""
    kind = get_completion_class("zsh")
    assert kind is not None
    *words, incomplete = line.split(" ")
    with patch.dict(os.environ, variables):  # a shell has a process for each completion, which `--demo` changes
        offered = kind(COMMAND_LINE, {}, "seller-platform", "_").get_completions(words[1:], incomplete)
    return {str(each.value): str(each.help) for each in offered}


def test_commands_are_completed_with_their_sentences() -> None:
    offered = completed("seller-platform s")

    assert offered.keys() == {name for name in COMMANDS if name.startswith("s")} >= {"sync", "status"}
    assert all(name.startswith("s") for name in offered)
    assert "into PostgreSQL" in offered["sync"]


@pytest.mark.parametrize("line", ["sync --dataset ", "sync --dataset orders --dataset ", "verify --dataset ", "diff "])
def test_names_of_datasets_are_completed(line: str) -> None:
    assert completed(f"seller-platform {line}") == {dataset.name: dataset.doc for dataset in REFRESHED}


@pytest.mark.parametrize(
    "line", ["sync --account ", "diff orders ", "verify --account ", "explain orders x --account "]
)
def test_accounts_are_completed_to_their_keys_by_key_and_by_title(line: str, variables: dict[str, str]) -> None:
    offered = completed(f"seller-platform {line}", variables)

    assert offered == {f"us-{number}": title for number, title in enumerate(TITLES)}
    assert completed(f"seller-platform {line}nor", variables) == {"us-0": "North Pine US"}
    assert completed(f"seller-platform {line}us-2", variables).keys() == {"us-2"}


def test_completion_makes_no_folder_where_nothing_is_connected(tmp_path: Path) -> None:
    offered = completed("seller-platform sync --account ", {"SELLER_PLATFORM_HOME": str(tmp_path / "home")})

    assert offered == {}
    assert not (tmp_path / "home").exists()


def test_a_database_that_does_not_answer_ends_completion_without_an_error(variables: dict[str, str]) -> None:
    away = variables | {"SELLER_PLATFORM_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}

    assert completed("seller-platform sync --account A", away) == {}
    assert completed("seller-platform --demo diff orders K", variables) == {}


def test_the_versions_of_platform_tables_python_and_dagster_are_printed(tmp_path: Path) -> None:
    printed = run(["--version"], environment(tmp_path)).stdout

    others = f"Python {platform.python_version()}, Dagster {version('dagster')}"
    assert printed == f"seller-platform {__version__} (tables {revisions()[-1]}, {others})\n"
