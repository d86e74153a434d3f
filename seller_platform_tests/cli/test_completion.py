"""What a shell completes after Tab, and the versions that `--version` prints."""

import platform
from importlib.metadata import version
from pathlib import Path

from click.shell_completion import get_completion_class

from seller_platform import __version__
from seller_platform.warehouse.postgres.versions import revisions
from seller_platform_tests.support.command_line import COMMAND_LINE, COMMANDS
from seller_platform_tests.support.processes import environment, run


def test_commands_are_completed_with_their_sentences() -> None:
    kind = get_completion_class("zsh")
    assert kind is not None

    completions = kind(COMMAND_LINE, {}, "seller-platform", "_").get_completions([], "s")

    offered = {str(each.value): str(each.help) for each in completions}
    assert offered.keys() == {name for name in COMMANDS if name.startswith("s")} >= {"sync", "status"}
    assert "into PostgreSQL" in offered["sync"]


def test_the_versions_of_platform_tables_python_and_dagster_are_printed(tmp_path: Path) -> None:
    printed = run(["--version"], environment(tmp_path)).stdout

    others = f"Python {platform.python_version()}, Dagster {version('dagster')}"
    assert printed == f"seller-platform {__version__} (tables {revisions()[-1]}, {others})\n"
