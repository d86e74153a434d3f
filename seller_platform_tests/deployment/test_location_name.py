"""Tests that the code location has one name, whichever way Dagster is started.

Dagster stores switches of schedules and cursors of sensors by this name.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from dagster._cli.workspace.cli_target import workspace_opts_to_load_target
from dagster_shared.cli import WorkspaceOpts

from seller_platform.cli.sandbox import dev
from seller_platform_tests.support.code_locations import loaded_location
from seller_platform_tests.support.processes import environment, free_port

TOP = Path(__file__).parents[2]
NAME = "seller_platform"


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
    values = yaml.safe_load((TOP / "docker" / "helm" / "values.yaml").read_text())
    workspace, (deployment,) = (
        values["dagsterWebserver"]["workspace"],
        values["dagster-user-deployments"]["deployments"],
    )

    assert workspace == {
        "enabled": True,
        "servers": [{"host": deployment["name"], "port": deployment["port"], "name": NAME}],
    }


@pytest.mark.nightly  # `journeys/test_mounted_project.py` launches assets with `dg`
def test_dg_dev_names_it_and_loads_it(database_url: str, tmp_path: Path) -> None:
    variables = environment(
        tmp_path, DAGSTER_HOME=str(tmp_path), SELLER_PLATFORM_DATABASE_URL=database_url, PYTHONPATH=str(TOP)
    )
    (tmp_path / "dagster.yaml").write_text((TOP / "dagster.yaml").read_text())
    dg = Path(sys.executable).with_name("dg")
    port = free_port()
    command = [str(dg), "dev", "--port", str(port), "--host", "127.0.0.1", "--target-path", str(TOP)]

    entry = loaded_location(command, variables, tmp_path, port=port)

    assert entry == {"name": NAME, "loadStatus": "LOADED", "locationOrLoadError": {"__typename": "RepositoryLocation"}}
