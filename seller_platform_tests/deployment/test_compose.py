"""Tests the compose files, and the programs of one machine with secrets as files and a read-only DAGSTER_HOME."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from seller_platform_tests.deployment.compose_machine import (
    COMPOSE,
    IMAGE,
    TOP,
    Machine,
    open_machine,
    services_with_celery,
)
from seller_platform_tests.support.processes import completed
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.journey

PROGRAMS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == IMAGE}
WITH_WORKERS = {name: service for name, service in services_with_celery().items() if service["image"] == IMAGE}
LONG_RUNNING = [name for name in PROGRAMS if name != "migrate"]


def test_the_compose_files_are_valid() -> None:
    files = [TOP / "docker" / name for name in ("compose.yaml", "compose.celery.yaml")]
    subprocess.run(
        [_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *files], check=True, capture_output=True
    )


def test_the_dockerfile_passes_its_linter() -> None:
    command = [_tool("hadolint"), str(TOP / "docker" / "Dockerfile")]
    linted = completed(command)

    assert (linted.returncode, linted.stdout) == (0, "")


def test_programs_run_without_privileges_and_cannot_write_to_their_image() -> None:
    for name, service in WITH_WORKERS.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
    assert COMPOSE["services"]["proxy"]["read_only"]
    assert COMPOSE["services"]["proxy"]["cap_drop"] == ["ALL"]
    dockerfile = (TOP / "docker" / "Dockerfile").read_text()
    assert "\nUSER 10001\n" in dockerfile
    assert "\nUSER 33\n" in dockerfile


def test_no_secret_is_in_the_compose_file() -> None:
    for name, service in services_with_celery().items():
        for variable, value in service.get("environment", {}).items():
            assert variable.endswith("_FILE") or "PASSWORD" not in variable, f"{name}: {variable}"
            assert "postgresql://" not in str(value), f"{name}: {variable}"


def test_every_program_gets_the_budget_and_the_history_of_the_shell() -> None:
    for name, program in WITH_WORKERS.items():
        for passed_on in ("SELLER_API_REQUESTS_PER_DAY", "SELLER_PLATFORM_HISTORY_START"):
            assert program["environment"].get(passed_on, "") is None, name


def test_git_ignores_the_secrets_and_the_page_keeps_others_from_them() -> None:
    secrets = [f"docker/{secret['file'].removeprefix('./')}" for secret in COMPOSE["secrets"].values()]

    ignored = completed(["git", "check-ignore", "--no-index", *secrets], cwd=TOP)

    assert ignored.stdout.split() == secrets
    assert "umask 077; mkdir docker/secrets" in (TOP / "seller_platform/docs/deploy.md").read_text()


def test_only_nginx_reaches_the_service_and_believes_only_the_gateway() -> None:
    service, proxy = (COMPOSE["services"][name] for name in ("service", "proxy"))
    (network,) = COMPOSE["networks"]["default"]["ipam"]["config"]
    nginx = {path.stem: path.read_text() for path in (TOP / "docker" / "nginx").iterdir()}

    assert "ports" not in service
    assert service["environment"]["SELLER_PLATFORM_SERVICE_TRUSTED_PROXIES"].endswith(f":-{network['subnet']}}}")
    assert "SELLER_PLATFORM_SERVICE_PUBLIC_URL" in service["environment"]
    assert proxy["ports"] == ["127.0.0.1:8700:8080"]
    assert "listen 8080;" in nginx["port"]
    assert f"set_real_ip_from {network['gateway']};" in nginx["port"]
    assert f"server service:{service['command'][-2]} " in nginx["upstream"]


@pytest.fixture
def machine(database_url: str, tmp_path: Path) -> Iterator[Machine]:
    with open_machine(
        database_url, tmp_path, COMPOSE["services"], SELLER_PLATFORM_HISTORY_START="2026-01-01"
    ) as opened:
        yield opened


@pytest.mark.nightly  # four programs that import Dagster, and their health checks
def test_programs_of_the_compose_file_run_and_may_be_restarted(machine: Machine) -> None:
    subprocess.run(machine.command(PROGRAMS["migrate"]["command"]), env=machine.variables, check=True)
    for name in LONG_RUNNING:
        machine.start(name)
    machine.await_health(*LONG_RUNNING)

    machine.end("daemon")
    machine.start("daemon")
    machine.end("code-location", signal.SIGKILL)
    machine.start("code-location")
    # A check is a process that imports Dagster: the others are still healthy, and the web server answers below.
    machine.await_health("daemon", "code-location")

    webserver = f"http://127.0.0.1:{machine.ports['3000']}"
    query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { location { name } } } } }"
    answer = httpx.post(f"{webserver}/graphql", json={"query": query}, timeout=PATIENCE_SECONDS).json()
    assert [node["location"]["name"] for node in answer["data"]["repositoriesOrError"]["nodes"]] == ["seller_platform"]
    mounts = {Path(mount.partition(":")[0]) for mount in COMPOSE["x-program"]["tmpfs"]}
    writable = {mount.name for mount in mounts if mount.parent == Path("/etc/dagster")}
    assert {each.name for each in machine.folder.iterdir()} <= {"celery", "dagster.yaml", "workspace.yaml"} | writable


def _tool(name: str) -> str:
    """Return a program installed beside this Python."""
    path = shutil.which(name, path=str(Path(sys.executable).parent))
    assert path is not None, f"{name} is not installed beside {sys.executable}; install the extra `test`"
    return path
