"""Tests which home folder a command uses, and which commands create one."""

from pathlib import Path

import pytest

from seller_platform.cli import commands
from seller_platform.project import HOME_FOLDER
from seller_platform.settings import DEMO_FOLDER, read_settings
from seller_platform.warehouse.postgres.location import data_elsewhere
from seller_platform.warehouse.postgres.root_user import is_root
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.processes import environment, run

NEEDING_ROWS = (
    *("status", "status --datasets", "held", "diff orders de-1", "explain orders 1", "verify"),
    *("metrics --port 0", "costs show 1", "service user list", "service application list"),
    *("service group list ann@shop.example", "service events", "service user list --replica", "query TABLE"),
    *("sync", "accept 1", "revert 1", "prune", "costs plan costs.csv", "costs apply 1", "costs undo 1"),
    *("report request", "report list", "report download 1", "report load", "marts build"),
    *("database reader ann", "database url", "database remove --yes", "keys rotate"),
    "backup warehouse.backup",
)


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell in which no setting names a home folder."""
    given = environment(tmp_path)
    return {name: value for name, value in given.items() if name != "SELLER_PLATFORM_HOME"}


@pytest.mark.parametrize("command", [each for each in NEEDING_ROWS if each.split()[0] in commands()])
def test_a_command_that_needs_rows_creates_nothing_and_names_the_home(
    command: str, variables: dict[str, str], tmp_path: Path
) -> None:
    result = run_here(command.split(), variables, folder=tmp_path)

    assert result.returncode == 2
    assert f"nothing is stored in the home folder {tmp_path / HOME_FOLDER}" in result.stderr
    assert "`seller-platform connect`" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["before", "after", "variable", "query"])
def test_a_reading_command_says_that_there_is_no_demo(place: str, variables: dict[str, str], tmp_path: Path) -> None:
    words = {"before": ["--demo", "held"], "query": ["--demo", "query", "SELECT 1"]}.get(place, ["held"])
    words = [*words, *(["--demo"] if place == "after" else [])]
    demo = {"SELLER_PLATFORM_DEMO": "1"} if place == "variable" else {}
    result = run_here(words, variables | demo, folder=tmp_path)

    assert result.returncode == 2
    assert f"there is no demo in {tmp_path / HOME_FOLDER / DEMO_FOLDER}; run `seller-platform demo`" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_writes_says_which_home_it_created(variables: dict[str, str], tmp_path: Path) -> None:
    first = run(["connect"], variables, folder=tmp_path)
    second = run(["connect"], variables, folder=tmp_path)

    line, home = first.stderr.splitlines()[0], tmp_path / HOME_FOLDER
    assert f"A new home folder was created: {home}" in line
    assert (f"The rows of {home} are stored in {data_elsewhere(home)}." in line) is is_root()
    assert "home folder" not in second.stderr
    assert "The rows of" not in second.stderr
    assert (tmp_path / HOME_FOLDER).is_dir()


def test_the_home_of_a_folder_above_is_used_and_named(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    run(["connect"], variables, folder=tmp_path)

    result = run(["status"], variables, folder=below)
    others = [
        run(words, variables, folder=below)
        for words in (["query", "SELECT 1"], ["database", "url", "--json"], ["accept", "1"], ["held", "--demo"])
    ]
    monkeypatch.chdir(below)

    assert f"The home folder is {tmp_path / HOME_FOLDER}, in a folder above this one." in result.stderr
    assert "Nothing is connected yet" in result.stderr
    assert [other.stderr.count("in a folder above this one.") for other in others] == [1] * len(others)
    assert read_settings().home == tmp_path / HOME_FOLDER
    assert list(below.iterdir()) == []


@pytest.mark.parametrize(("mode", "is_used"), [(0o755, True), (0o775, True), (0o777, False)], ids=oct)
def test_a_home_above_is_not_used_where_everybody_may_create_one(
    mode: int, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / HOME_FOLDER).mkdir()
    tmp_path.chmod(mode)
    monkeypatch.chdir(below)

    assert read_settings().home == (tmp_path if is_used else below) / HOME_FOLDER
