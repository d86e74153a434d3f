"""Tests that the code location has one name, whichever way Dagster is started.

Dagster stores switches of schedules and cursors of sensors by this name.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import yaml
from dagster._cli.workspace.cli_target import workspace_opts_to_load_target
from dagster_shared.cli import WorkspaceOpts

from seller_platform.cli.sandbox import dev
from seller_platform_tests.support.processes import environment, free_port
from seller_platform_tests.support.waiting import PATIENCE_SECONDS, wait_for

TOP = Path(__file__).parents[2]
NAME = "seller_platform"

_QUERY = """
{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus locationOrLoadError { __typename } } } } }
"""


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
    port, log = free_port(), tmp_path / "dg.log"
    variables = environment(
        tmp_path, DAGSTER_HOME=str(tmp_path), SELLER_PLATFORM_DATABASE_URL=database_url, PYTHONPATH=str(TOP)
    )
    (tmp_path / "dagster.yaml").write_text((TOP / "dagster.yaml").read_text())
    dg = Path(sys.executable).with_name("dg")
    command = [str(dg), "dev", "--port", str(port), "--host", "127.0.0.1", "--target-path", str(TOP)]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=variables, stdout=file, stderr=file, cwd=TOP, start_new_session=True)

    def entries() -> list[dict[str, object]]:
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            answer = httpx.post(f"http://127.0.0.1:{port}/graphql", json={"query": _QUERY}, timeout=PATIENCE_SECONDS)
            if answer.status_code == httpx.codes.OK:
                return list(answer.json()["data"]["workspaceOrError"]["locationEntries"])
        return []

    try:
        (entry,) = wait_for(
            entries,
            lambda listed: bool(listed) and listed[0]["loadStatus"] == "LOADED",
            pause_seconds=1,
            explain=lambda _: log.read_text(),
        )
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    assert entry == {"name": NAME, "loadStatus": "LOADED", "locationOrLoadError": {"__typename": "RepositoryLocation"}}


@pytest.mark.slow
def test_the_help_of_dg_works() -> None:
    dg = Path(sys.executable).with_name("dg")

    shown = subprocess.run([str(dg), "--help"], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)

    assert re.search(r"list\s+Commands for listing", shown.stdout)
