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
# Their worlds have reports that are written, too.
_NEEDS_REPORTS = ("seller_platform_tests/faults", "seller_platform_tests/simulation")
_IMPORT_ALL = """
import importlib, pkgutil, sys, seller_platform
assert seller_platform.__file__.startswith(sys.argv[1])
for module in pkgutil.walk_packages(seller_platform.__path__, "seller_platform."):
    if not module.name.endswith(("__main__", "migrations.env", "versions.1001_the_first_release")):
        importlib.import_module(module.name)
"""


def _without(name: str, folder: Path) -> list[str]:
    """Write a copy without a capability and those that need it, and return their names."""
    removed = [name, *(each.name for each in capabilities() if name in each.needs)]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "build", "__pycache__"))
    for package in ("seller_platform", "seller_platform_tests"):
        for each in removed:
            shutil.rmtree(folder / package / each)
    return removed


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each == _OF_TODAY else pytest.mark.nightly) for each in _NAMES]
)
def test_a_capability_can_be_removed(name: str, database: Database, database_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "a copy"
    removed = _without(name, folder)
    home = environment(tmp_path / "home", SELLER_PLATFORM_DATABASE_URL=database_url)
    variables = home | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    database.execute(text(f"UPDATE {VERSION_SCHEMA}.{VERSION_TABLE} SET views = ''"))

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"
        return done.stdout

    run("-c", _IMPORT_ALL, str(folder))
    helped = run("-m", "seller_platform.cli", "--help")
    run("-m", "seller_platform.cli", "migrate")
    run("-c", "import seller_platform.orchestration.definitions")
    run("-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())")
    ignored = [f"--ignore={each}" for each in _NEEDS_REPORTS if name == "reports"]
    run("-m", "pytest", "-n0", "--collect-only", "-q", "-p", "no:cacheprovider", *ignored)
    demo = run("-m", "seller_platform.cli", "demo")

    commands = {command for each in capabilities() if each.name in removed for command in each.commands}
    assert not {line.split()[0] for line in helped.splitlines() if line.startswith("  ") and line.strip()} & commands
    assert "orders" in demo
