"""Another team's Dagster project mounts ours with `dg`, adds an asset of its own, and loads a partition."""

import json
import os
import sys
from pathlib import Path

import dagster as dg
import pytest

from seller_platform.orchestration.partitions import add_accounts, partition_key
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.platform import MONTHS, open_platform
from seller_platform_tests.support.processes import completed, foreign_environment
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.journey

TOP = Path(__file__).parents[2]
COMPONENT = "seller_platform.SellerPlatformComponent"
ACCOUNT = min(independent_upstream.KEYS.values())
MONTH = str(partition_key(ACCOUNT, MONTHS[1]))

# As `create-dagster project shop` writes them.
_PROJECT = {
    "pyproject.toml": """
[project]
name = "shop"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
""",
    "src/shop/__init__.py": "",
    "src/shop/defs/__init__.py": "",
    "src/shop/definitions.py": """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
""",
}
_OWN_ASSET = """
import dagster as dg
import pandas as pd

from seller_platform.dagster import IO_MANAGER_KEY, seller_month_partitions


@dg.asset(
    partitions_def=seller_month_partitions(),
    ins={"orders": dg.AssetIn(["market", "seller", "orders"], input_manager_key=IO_MANAGER_KEY)},
)
def order_lines(orders: pd.DataFrame) -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"lines": len(orders)})
"""


@pytest.mark.parametrize("executor", ["in_process", pytest.param("multiprocess", marks=pytest.mark.nightly)])
def test_a_foreign_project_mounts_our_assets_and_builds_on_them(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    project, home = tmp_path / "shop", tmp_path / "dagster"
    for name, text in _PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    with open_platform(database, database_url, tmp_path) as platform:
        variables = foreign_environment(platform.upstream, database_url, tmp_path)
        variables |= {"DAGSTER_HOME": str(home), "PYTHONPATH": f"{project / 'src'}{os.pathsep}{TOP}"}

        def run(*arguments: str) -> str:
            command = [str(Path(sys.executable).with_name("dg")), *arguments]
            ended = completed(command, cwd=project, env=variables, timeout=PATIENCE_SECONDS)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            return ended.stdout

        assert platform.discover().success
        with dg.DagsterInstance.from_config(str(home)) as instance:
            add_accounts(instance, independent_upstream.KEYS.values())
        run("scaffold", "defs", COMPONENT, "market")
        (project / "src" / "shop" / "defs" / "order_lines.py").write_text(_OWN_ASSET)
        config = ("--config-json", json.dumps({"execution": {"config": {executor: {}}}}))
        run("launch", "--assets", "key:market/seller/orders or key:order_lines", "--partition", MONTH, *config)

    with dg.DagsterInstance.from_config(str(home)) as instance:
        for key in (["market", "seller", "orders"], ["order_lines"]):
            assert instance.get_materialized_partitions(dg.AssetKey(key)) == {MONTH}, key
        newest = instance.get_latest_materialization_event(dg.AssetKey("order_lines"))
    assert newest is not None
    assert newest.asset_materialization is not None
    assert newest.asset_materialization.metadata["lines"].value == 703
