"""Tests that the product works without the folder of a capability, and of those that need it."""

import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from seller_platform.capabilities import capabilities
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.versions import VERSION_SCHEMA, VERSION_TABLE
from seller_platform_tests.structure.source import ROOT
from seller_platform_tests.support.processes import environment

_NAMES = sorted(each.name for each in capabilities())
_OF_TODAY = _NAMES[datetime.now(UTC).day % len(_NAMES)]
# Without a sandbox, which needs the service, it stands for the demo.
_SYNC = "journeys/test_foreign_upstream.py::test_connect_and_sync_hold_exactly_its_rows_also_the_second_time"
_CORE = ("cli", "orchestration", "warehouse", "ingest", "client", "contract")
_IMPORT_ALL = """
import importlib, pkgutil, sys, seller_platform
assert seller_platform.__file__.startswith(sys.argv[1])
for module in pkgutil.walk_packages(seller_platform.__path__, "seller_platform."):
    if not module.name.endswith(("__main__", "migrations.env", "versions.1001_the_first_release")):
        importlib.import_module(module.name)
"""


def _without(name: str, folder: Path) -> list[str]:
    """Write a copy without a capability and those that need it, and return their names."""
    removed = [name]
    for each in removed:
        removed += [other.name for other in capabilities() if each in other.needs and other.name not in removed]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "build", "__pycache__"))
    for package in ("seller_platform", "seller_platform_tests"):
        for each in removed:
            shutil.rmtree(folder / package / each)
    if "service" in removed:  # and what others answer through it
        for each in filter(None, (each.routes for each in capabilities() if each.name not in removed)):
            folder.joinpath(*each.partition(":")[0].split(".")).with_suffix(".py").unlink()
    return removed


class Copy:
    """A copy without a capability, over a database that has its tables."""

    def __init__(self, name: str, database: Database, folder: Path) -> None:
        self.folder = folder / "a copy"
        self.removed = _without(name, self.folder)
        self.variables = environment(folder / "home", SELLER_PLATFORM_DATABASE_URL=database.url)
        self.variables |= {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        database.execute(text(f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET views = ''"))

    def run(self, *arguments: str) -> str:
        command = [sys.executable, *arguments]
        options = {"cwd": self.folder, "env": self.variables, "capture_output": True, "text": True}
        done = subprocess.run(command, check=False, **options)  # type: ignore[call-overload]  # its options are many
        assert done.returncode == 0, f"{done.stdout[-5_000:]}\n{done.stderr[-3_000:]}"
        return str(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each == _OF_TODAY else pytest.mark.nightly) for each in _NAMES]
)
def test_a_capability_can_be_removed(name: str, database: Database, tmp_path: Path) -> None:
    copy = Copy(name, database, tmp_path)

    copy.run("-c", _IMPORT_ALL, str(copy.folder))
    helped = copy.run("-m", "seller_platform.cli", "--help")
    copy.run("-m", "seller_platform.cli", "migrate")
    copy.run("-c", "import seller_platform.orchestration.definitions")
    copy.run("-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())")
    copy.run("-m", "pytest", "-n0", "--collect-only", "-q", "-p", "no:cacheprovider")
    if "sandbox" in copy.removed:
        copy.run("-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", f"seller_platform_tests/{_SYNC}")
    else:
        assert "orders" in copy.run("-m", "seller_platform.cli", "demo")

    commands = {command for each in capabilities() if each.name in copy.removed for command in each.commands}
    assert not {line.split()[0] for line in helped.splitlines() if line.startswith("  ") and line.strip()} & commands


@pytest.mark.nightly
@pytest.mark.parametrize("name", _NAMES)
def test_the_core_passes_its_tests_without_a_capability(name: str, database: Database, tmp_path: Path) -> None:
    copy = Copy(name, database, tmp_path)
    folders = [f"seller_platform_tests/{each}" for each in _CORE]
    examples = "test_every_example_of_the_pages_is_pasted_as_it_stands"
    left_out = [f"--deselect=seller_platform_tests/cli/inspection/test_query.py::{examples}"]

    copy.run("-m", "mypy", "--cache-dir", str(tmp_path / "types"), "seller_platform")
    copy.run("-m", "ruff", "check", "--no-cache", "--ignore=I001")  # the order of imports counts those that are gone
    if "service" not in copy.removed:  # whose endpoints are on a page
        copy.run("-m", "seller_platform_tests.tools.regenerate")
    copy.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly and not slow", *left_out, *folders)
