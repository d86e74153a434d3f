"""Tests that CI and the image use pinned parts and valid files, and that each way to start Dagster names it alike.

Dagster stores switches of schedules and cursors of sensors by the name of the code location. The chart is not at hand:
its part of the instance's configuration is written here as its template writes it.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._cli.workspace.cli_target import workspace_opts_to_load_target
from dagster_postgres.event_log import PostgresEventLogStorage
from dagster_shared.cli import WorkspaceOpts
from sqlalchemy import QueuePool

from seller_platform import __version__
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.deployment.compose_machine import services_with_celery
from seller_platform_tests.support.processes import completed
from seller_platform_tests.tools.lock import PYTHONS, TOP

DIGEST = re.compile(r"\S+:\S+@sha256:[0-9a-f]{64}")
WORKFLOWS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())["jobs"] for path in (TOP / ".github" / "workflows").iterdir()
}
JOBS = [job for jobs in WORKFLOWS.values() for job in jobs.values()]


def test_the_images_of_others_are_pinned_by_digest() -> None:
    dockerfile = (TOP / "docker" / "Dockerfile").read_text()
    stages = dict(re.findall(r"^FROM (\S+)(?: AS (\S+))?$", dockerfile, flags=re.MULTILINE))
    services = services_with_celery().values()
    images = {
        *(image for image in stages if image not in stages.values()),
        *(service["image"] for service in services if "build" not in service),
        *(job["container"] for job in JOBS if "container" in job),
    }

    assert len(images) >= 4
    assert [image for image in images if not DIGEST.fullmatch(image)] == []


def test_the_actions_of_others_are_pinned_by_commit() -> None:
    actions = [step["uses"] for job in JOBS for step in job["steps"] if "uses" in step]

    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)] == []


def test_the_workflow_runs_the_locked_and_the_newest_packages() -> None:
    commands = {name: [step.get("run") for step in job["steps"]] for name, job in WORKFLOWS["ci"].items()}

    assert ".ci/run" in commands["locked"]
    assert ".ci/run --newest" in commands["newest"]


def test_every_night_the_nightly_tests_and_all_long_forms_run() -> None:
    (job,) = WORKFLOWS["nightly"].values()
    commands = {each["command"] for each in job["strategy"]["matrix"]["include"]}

    assert job["steps"][-1]["run"] == ".ci/run --locked ${{ matrix.command }}"
    planted = {
        f"python -m {name}"
        for name in ("seller_platform_tests.tools.mutants", "seller_platform_tests.simulation.mutations")
    }
    assert commands >= {"pytest -m nightly", *planted}


def test_every_night_the_release_is_installed_with_each_python() -> None:
    (job,) = WORKFLOWS["nightly"].values()
    (command,) = (
        each["command"]
        for each in job["strategy"]["matrix"]["include"]
        if "seller_platform_tests.tools.release" in each["command"]
    )

    assert re.findall(r"--python (\S+)", command) == list(PYTHONS)


def test_ci_refuses_an_option_that_it_does_not_have() -> None:
    ended = completed([TOP / ".ci" / "run", "--latest"])

    assert ended.returncode == 2
    assert ended.stderr == "usage: .ci/run [--locked | --newest] [COMMAND...]; '--latest' is neither\n"


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("github-workflows", ".github/workflows/ci.yaml"),
        pytest.param("github-workflows", ".github/workflows/nightly.yaml", marks=pytest.mark.nightly),
        pytest.param("dependabot", ".github/dependabot.yml", marks=pytest.mark.nightly),
    ],
)
def test_the_files_of_github_are_valid(schema: str, path: str) -> None:
    tool = Path(sys.executable).parent / "check-jsonschema"

    checked = completed([tool, "--builtin-schema", f"vendor.{schema}", TOP / path])

    assert checked.returncode == 0, checked.stdout


def test_the_image_installs_a_wheel_and_its_locked_packages_alone() -> None:
    dockerfile = (TOP / "docker" / "Dockerfile").read_text()
    installs = re.findall(r"pip install (.*)", dockerfile)

    assert installs == [
        "--no-deps --only-binary :all: --require-hashes --requirement requirements.lock",
        "--no-deps --no-index ./*.whl && python -m compileall -q /opt/seller-platform/lib",
    ]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", dockerfile, flags=re.MULTILINE)
    context = [line[1:] for line in (TOP / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert {name for names in copied for name in names.split()} == set(context)


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


def test_the_chart_names_it_and_calls_the_deployment() -> None:
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]

    assert VALUES["dagsterWebserver"]["workspace"] == {
        "enabled": True,
        "servers": [{"host": deployment["name"], "port": deployment["port"], "name": NAME}],
    }


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
