"""Tests that every way to start Dagster gives the code location one name, and stores runs and events alike.

Dagster stores switches of schedules and cursors of sensors by this name. The chart is not at hand: its part of the
instance's configuration is written here as its template writes it.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest
import yaml
from dagster._cli.workspace.cli_target import workspace_opts_to_load_target
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_shared.cli import WorkspaceOpts
from sqlalchemy import QueuePool

from seller_platform import __version__
from seller_platform.cli.sandbox import dev
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.deployment.compose_machine import TOP
from seller_platform_tests.support.code_locations import loaded_location
from seller_platform_tests.support.processes import environment, free_port

NAME = "seller_platform"
TEXT = (TOP / "docker" / "helm" / "values.yaml").read_text()
VALUES = yaml.safe_load(TEXT)


def _names(*workspaces: Path) -> Sequence[str | None]:
    """Return the names under which `dagster dev` loads code locations."""
    target = workspace_opts_to_load_target(WorkspaceOpts(workspace=tuple(map(str, workspaces))))
    return [origin.location_name for origin in target.create_origins()]


def test_dagster_dev_names_it_by_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(TOP)

    assert _names() == [NAME]


@pytest.mark.parametrize("workspace", ["workspace.yaml", "docker/workspace.yaml"])
def test_a_workspace_file_names_it(workspace: str) -> None:
    assert _names(TOP / workspace) == [NAME]


def test_our_dev_command_names_it(tmp_path: Path) -> None:
    dev.dagster_commands(tmp_path, "http://127.0.0.1:3000")

    assert _names(tmp_path / "workspace.yaml") == [NAME]


def test_the_chart_names_it_and_calls_the_deployment() -> None:
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]

    assert VALUES["dagsterWebserver"]["workspace"] == {
        "enabled": True,
        "servers": [{"host": deployment["name"], "port": deployment["port"], "name": NAME}],
    }


@pytest.mark.nightly  # `journeys/test_mounted_project.py` launches assets with `dg`
def test_dg_dev_names_it_and_loads_it(database_url: str, tmp_path: Path) -> None:
    variables = environment(
        tmp_path, DAGSTER_HOME=str(tmp_path), SELLER_PLATFORM_DATABASE_URL=database_url, PYTHONPATH=str(TOP)
    )
    (tmp_path / "dagster.yaml").write_text((TOP / "dagster.yaml").read_text())
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("dg")),
        "dev",
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        "--target-path",
        str(TOP),
    ]

    entry = loaded_location(command, variables, tmp_path, port=port)

    assert entry == {"name": NAME, "loadStatus": "LOADED", "locationOrLoadError": {"__typename": "RepositoryLocation"}}


OF_CHART = "".join(
    f"{part}_storage: {{module: dagster_postgres.{part}_storage, class: X, config: {{}}}}\n"
    for part in ("schedule", "run", "event_log")
)
FILES = {
    "compose": (TOP / "dagster.yaml").read_text() + (TOP / "docker" / "stateless.yaml").read_text(),
    "helm": OF_CHART + yaml.safe_dump(VALUES.get("additionalInstanceConfig", {})),
}


@pytest.mark.parametrize("way", FILES)
def test_the_storage_is_ours_and_in_its_schema(
    way: str, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", database.url)
    (tmp_path / "dagster.yaml").write_text(FILES[way])

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("it"))
        events = instance.event_log_storage
        with database.begin() as connection:
            stored = connection.exec_driver_sql("SELECT asset_key FROM dagster.event_logs").scalars().all()

    assert stored == ['["it"]']
    assert isinstance(events, PostgresEventLogStorage)
    assert isinstance(events._engine.pool, QueuePool)


def test_the_values_name_the_image_of_this_version() -> None:
    assert set(re.findall(r"(?:tag: |seller-platform:)(\S+)", TEXT)) == {__version__}
