"""Tests that the recipes of CONTRIBUTING work: each is applied to a copy of the project, and then used."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copyfile, copytree

import pytest

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.structure.source import ROOT
from seller_platform_tests.support.postgres import drop_database

pytestmark = pytest.mark.slow

_RECIPES = ROOT / ".github" / "recipes"
_COMMAND = """
import sys
from seller_platform.cli import main
sys.argv = ["seller-platform", "zones", "--json"]
main()
"""
_MART = """
from datetime import date
from seller_platform.contract import Window
from seller_platform.orchestration.definitions import defs
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.derived.builds import build_partition
(mart,) = (mart for mart in MARTS if mart.name == "units_monthly")
built = build_partition(database, mart, "de-1", Window.month_of(date(2026, 3, 1)))
assert built.rows == 1 and all(each.passed for each in built.check_results)
assert "marts/units_monthly" in {key.to_user_string() for key in defs.resolve_all_asset_keys()}
"""
_ENDPOINT = """
from starlette.testclient import TestClient
from seller_platform.service.app import create_app
with TestClient(create_app(os.environ["SELLER_PLATFORM_DATABASE_URL"]), base_url="http://127.0.0.1") as client:
    assert client.get("/user/zones").status_code == 401
    assert client.get("/openapi.json").json()["paths"]["/user/zones"]["get"]["operationId"] == "list_zones"
"""
_DATASET = """
import sys
from sqlalchemy import text
from seller_platform.cli import main
url = os.environ["SELLER_PLATFORM_DATABASE_URL"]
sys.argv = ["seller-platform", *"sandbox load --accounts 1 --months 1 --database-url".split(), url]
try:
    main()
except SystemExit as end:
    assert not end.code
with database.begin() as connection:
    assert connection.execute(text("SELECT subject FROM seller.announcements")).scalars().all() == ["Holidays"]
"""
_CAPABILITY = """
import sys
from datetime import date
from seller_platform.cli import main
from seller_platform.contract import Account, Window
from seller_platform.orchestration.definitions import defs
from seller_platform.warehouse.connections.accounts import KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform.warehouse.derived.registry import MARTS
from seller_platform.warehouse.monitoring.problems import problems
save_connection(database, KnownConnection("default", "http://api", "http://api", "client"))
save_accounts(database, "default", [("us-1", Account(1, "Shop", "US", "USD", "UTC", "US", "S1"))])
sys.argv = ["seller-platform", *"target us-1 2026-03 5".split()]
try:
    main()
except SystemExit as end:
    assert not end.code
(mart,) = (mart for mart in MARTS if mart.name == "target_monthly")
build_partition(database, mart, "us-1", Window.month_of(date(2026, 3, 1)))
assert [each.message for each in problems(database) if each.kind == "missed"] == ["0 of 5 units were sold."]
keys = {key.to_user_string() for key in defs.resolve_all_asset_keys()}
assert keys >= {"platform/targets", "marts/target_monthly"}
"""
_OPENED = """
import os
from seller_platform.warehouse.migrations.pending import migrate
from seller_platform.warehouse.postgres.database import Database
database = Database(os.environ["SELLER_PLATFORM_DATABASE_URL"])
migrate(database)
"""
_PROOFS = {"command": _COMMAND, "mart": _MART, "endpoint": _ENDPOINT, "dataset": _DATASET, "capability": _CAPABILITY}
_FILES = {"command": 2, "mart": 3, "endpoint": 2, "dataset": 2, "capability": 9}
"""How many files each recipe touches, beside those that `regenerate` writes."""


@pytest.mark.parametrize(
    "recipe", ["dataset", *(pytest.param(name, marks=pytest.mark.nightly) for name in _PROOFS if name != "dataset")]
)
def test_each_recipe_does_in_a_copy_what_it_says(recipe: str, postgres: EmbeddedServer, tmp_path: Path) -> None:
    copy = tmp_path / "a copy"
    copytree(ROOT / "seller_platform", copy / "seller_platform")  # with its bytecode
    copyfile(ROOT / "pyproject.toml", copy / "pyproject.toml")
    patch = _RECIPES / f"{recipe}.patch"
    subprocess.run(["git", "apply", str(patch)], cwd=copy, check=True)
    name = f"recipe_{recipe}"
    variables = os.environ | {
        "PYTHONPATH": str(copy),
        "SELLER_PLATFORM_HOME": str(tmp_path / "home"),
        "SELLER_PLATFORM_DATABASE_URL": postgres.database(name),
    }

    proof = [sys.executable, "-c", _OPENED + _PROOFS[recipe]]
    ended = subprocess.run(proof, cwd=copy, env=variables, capture_output=True, text=True, check=False)
    drop_database(postgres, name)

    assert ended.returncode == 0, ended.stderr
    assert patch.read_text().count("\ndiff --git") + 1 == _FILES[recipe]


def test_contributing_names_each_recipe_and_each_can_be_applied() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text()

    subprocess.run(["git", "apply", "--check", *_RECIPES.iterdir()], cwd=ROOT, check=True)
    assert {path.stem for path in _RECIPES.iterdir()} == set(_PROOFS)
    assert all(f"recipes/{recipe}.patch" in text for recipe in _PROOFS)
